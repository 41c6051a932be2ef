"""The storage driver ``swift`` (storage.md section 6).

keystoneauth1 authenticates, and python-swiftclient sends all requests except range reads. A range
read is sent by the HTTP client of the core, because it happens for every tile (see README.md).
"""

from __future__ import annotations

import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any, ClassVar, Self
from urllib.parse import quote

from mastaba.api.storages import BoundedCalls, PerProcess, read_timeout
from mastaba.errors import NoResponseError
from mastaba_http import HTTPStorage, quoted_key

if TYPE_CHECKING:
    from mastaba.api.storages import Environment
    from mastaba_http import HTTPAnswer
    from mastaba_storage_swift.account import Account


class SwiftStorage(HTTPStorage):
    """Objects of one container.

    Args:
        container: name of the container.
        account: account of the container.
        environment: NETWORK_TIMEOUT, OBJECT_READ_TIMEOUT and SSL_NO_VERIFY.
    """

    name = "swift"
    container_field: ClassVar[str | None] = "container_name"
    writer: ClassVar[str | None] = "mastaba_storage_swift.writer:SwiftWriter"

    def __init__(self, container: str, account: Account, environment: Environment) -> None:
        from mastaba_http import HTTPClient

        self._account = account
        self._url = account.url().rstrip("/")
        url = f"{self._url}/{quote(container, safe='')}"
        super().__init__(container, HTTPClient.from_environment(url, environment))
        self._connections = PerProcess(threading.local)
        # The timeouts of swiftclient begin again with each byte.
        self._bounded = BoundedCalls(read_timeout(environment))

    @classmethod
    def open(cls, container: str, environment: Environment) -> Self:
        from mastaba_storage_swift.account import shared_account

        account = shared_account(environment)
        account.token()  # so that invalid credentials are reported at once
        return cls(container, account, environment)

    def send(
        self, method: str, key: str, headers: dict[str, str], limit: int | None = None
    ) -> HTTPAnswer:
        token = self._account.token()
        answer = self._send(method, key, headers, token, limit)
        # If the server refuses a fresh token, access is denied. Requesting another token each
        # time would only add load.
        if answer.status == 401 or (
            answer.status in (400, 403) and not self._account.is_fresh(token)
        ):
            answer = self._send(method, key, headers, self._account.renew(token), limit)
        return answer

    def close(self) -> None:
        super().close()
        self._connections.drop()

    def _send(
        self, method: str, key: str, headers: dict[str, str], token: str, limit: int | None
    ) -> HTTPAnswer:
        # swiftclient normalises segments of dots, which belong to the name of the object.
        if "Range" in headers or "%2E" in quoted_key(key):
            return super().send(method, key, {**headers, "X-Auth-Token": token}, limit)
        try:
            return self._bounded.run(
                lambda: self._send_with_swiftclient(method, key, headers, token, limit)
            )
        except TimeoutError as error:
            raise NoResponseError(f"{self._url} does not answer: {error}") from error

    def _send_with_swiftclient(
        self, method: str, key: str, headers: dict[str, str], token: str, limit: int | None
    ) -> HTTPAnswer:
        from swiftclient.client import ClientException
        from urllib3 import HTTPHeaderDict
        from urllib3.exceptions import HTTPError

        from mastaba_http import HTTPAnswer, failure_reason

        connection = self._connection(token)
        try:
            if method == "HEAD":
                found = connection.head_object(self.container, key, headers)
                return HTTPAnswer(200, HTTPHeaderDict(found), b"")
            found, stream = connection.get_object(
                self.container, key, resp_chunk_size=limit, headers=headers
            )
            # swiftclient does not tell a part from the whole object.
            status = 206 if connection.http_conn[1].resp.status == 206 else 200
            with closing(stream):
                answer = HTTPAnswer(status, HTTPHeaderDict(found), b"")
                if limit is None or (answer.announced_size or 0) <= limit:
                    answer = HTTPAnswer(status, answer.headers, stream.read(limit))
            return answer
        except ClientException as error:
            if error.http_status is None:
                raise NoResponseError(f"{self._url} does not answer: {error}") from error
            return HTTPAnswer(error.http_status, error.http_response_headers or {}, b"")
        except (OSError, HTTPError) as error:
            reason = failure_reason(error)
            raise NoResponseError(f"{self._url} does not answer: {reason}") from error

    def _connection(self, token: str) -> Any:
        """Return the connection of swiftclient of this thread."""
        from swiftclient.client import Connection

        own = self._connections.get()
        if not hasattr(own, "connection"):
            verify = self._account.verify
            own.connection = Connection(
                retries=0,  # the storage pool repeats failed reads of every driver
                insecure=not verify,
                cacert=verify if isinstance(verify, str) else None,
                timeout=self._account.timeout,
            )
            own.connection.http_conn = own.connection.http_connection(self._url)
            # A redirect would take the token elsewhere, and turn a PUT into a GET.
            own.connection.http_conn[1].requests_args["allow_redirects"] = False
        own.connection.url, own.connection.token = self._url, token
        return own.connection
