"""Objects over HTTP: common code of the drivers for S3, Swift and similar stores.

Needs the extra ``mastaba[http]``, which such drivers require.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit
from urllib.request import getproxies, proxy_bypass

import urllib3
from urllib3.exceptions import HTTPError, InsecureRequestWarning, MaxRetryError, SSLError
from urllib3.util import Timeout, make_headers, parse_url

from mastaba.errors import (
    AccessDeniedError,
    ObjectChangedError,
    ObjectNotFoundError,
    StorageError,
    StorageUnavailableError,
)
from mastaba.storage.base import MAX_WHOLE, ByteRange, ObjectRead, ObjectStat, Storage
from mastaba.storage.per_process import PerProcess
from mastaba.storage.settings import network_timeout

if TYPE_CHECKING:
    from mastaba.environment import Environment

_CONNECTIONS: Final = 64
_OVERLOADED: Final = (408, 429, 502, 503, 504)
"""Statuses with which a server, or a gateway before it, reports overload."""

_MAX_ERROR_BODY: Final = 64 * 1024
# Longer numbers are not sizes, and Python refuses to convert very long ones.
_CONTENT_RANGE: Final = re.compile(r"bytes ([0-9]{1,19})-([0-9]{1,19})/([0-9]{1,19}|\*)")
_SIZE: Final = re.compile(r"[0-9]{1,19}")


@dataclass(frozen=True, slots=True)
class HTTPAnswer:
    """Status, headers (case-insensitive) and body of a response."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class HTTPClient:
    """Sends requests to one server, over keep-alive connections shared by all threads.

    No request is repeated, and no redirect is followed. The variables HTTP_PROXY, HTTPS_PROXY
    and NO_PROXY determine the proxy.

    Args:
        url: URL of the server; only scheme and host matter.
        timeout: seconds to connect, and between two pieces of a response; None for no limit.
        verify: whether to verify the server's certificate.
    """

    def __init__(self, url: str, timeout: float | None, *, verify: bool = True) -> None:
        self._url = url
        parts = urlsplit(url)
        # Without user information, which may contain a password.
        self._place = f"{parts.scheme}://{parts.hostname}" + (
            f":{parts.port}" if parts.port else ""
        )
        self._timeout = Timeout(connect=timeout, read=timeout)
        self._verify = verify
        self._pool = PerProcess(self._open_pool)
        if not verify:
            urllib3.disable_warnings(InsecureRequestWarning)

    @classmethod
    def from_environment(cls, url: str, environment: Environment) -> HTTPClient:
        """Create a client from the variables NETWORK_TIMEOUT and SSL_NO_VERIFY."""
        verify = not environment.flag("SSL_NO_VERIFY")
        return cls(url, network_timeout(environment), verify=verify)

    def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        limit: int | None = None,
    ) -> HTTPAnswer:
        """Send one request and return the response.

        Args:
            limit: maximum bytes of the body to read; a body that announces more is not read.

        Raises:
            StorageUnavailableError: the response is missing or incomplete.
        """
        try:
            response = self._pool.get().request(
                method, url, body, headers=dict(headers), retries=False, preload_content=False
            )
            try:
                if response.status >= 300:
                    limit = _MAX_ERROR_BODY
                elif limit is not None and (_announced_size(response.headers) or 0) > limit:
                    response.close()
                    return HTTPAnswer(response.status, response.headers, b"")
                data = response.read(limit, decode_content=False)
            except BaseException:
                response.close()
                raise
            if limit is not None and len(data) >= limit:
                response.close()  # unread data makes the connection unusable
            else:
                response.release_conn()
        except HTTPError as error:
            raise StorageUnavailableError(self._described(error), storage=self._place) from error
        return HTTPAnswer(response.status, response.headers, data)

    def close(self) -> None:
        pool = self._pool.drop()
        if pool is not None:
            pool.clear()

    def _open_pool(self) -> urllib3.PoolManager:
        cert_reqs = "CERT_REQUIRED" if self._verify else "CERT_NONE"
        parts = urlsplit(self._url)
        proxy = getproxies().get(parts.scheme)
        if not proxy or proxy_bypass(parts.netloc):
            return urllib3.PoolManager(
                maxsize=_CONNECTIONS, timeout=self._timeout, cert_reqs=cert_reqs
            )
        credentials = parse_url(proxy).auth
        return urllib3.ProxyManager(
            proxy,
            proxy_headers=make_headers(proxy_basic_auth=credentials) if credentials else None,
            maxsize=_CONNECTIONS,
            timeout=self._timeout,
            cert_reqs=cert_reqs,
        )

    def _described(self, error: Exception) -> str:
        if isinstance(error, MaxRetryError) and error.reason is not None:
            error = error.reason
        remedy = (
            " (MASTABA_SSL_NO_VERIFY=1 accepts any certificate)"
            if isinstance(error, SSLError)
            else ""
        )
        return f"{self._place} does not answer: {error}{remedy}"


class HTTPStorage(Storage):
    """Base class of storages whose objects are read by GET, with ranges and ETags.

    A subclass only sends the requests.
    """

    def __init__(self, container: str, client: HTTPClient) -> None:
        super().__init__(container)
        self.client = client

    @abstractmethod
    def send(
        self, method: str, key: str, headers: dict[str, str], limit: int | None = None
    ) -> HTTPAnswer:
        """Send one authenticated request for an object with `client`.

        Args:
            method: GET or HEAD.
            headers: additional headers.
            limit: as for `HTTPClient.request`.

        Raises:
            AccessDeniedError: authentication failed.
            StorageUnavailableError: the response is missing or incomplete.
        """

    def refusal_reason(self, answer: HTTPAnswer) -> str:
        """Return the reason in the body of an error response, for messages; empty if none."""
        return ""

    def read(
        self, key: str, byte_range: ByteRange | None = None, version: str | None = None
    ) -> ObjectRead:
        headers = {} if version is None else {"If-Match": f'"{version}"'}
        if byte_range is not None and byte_range.length <= 0:
            # HTTP has no empty range.
            answer = self._ask("HEAD", key, headers)
            return ObjectRead(b"", self._version(answer, key, version), _modified(answer))
        limit = MAX_WHOLE + 1
        if byte_range is not None:
            headers["Range"] = _range_header(byte_range)
            limit = byte_range.length + 1
        answer = self._ask("GET", key, headers, limit)
        if answer.status == 416:
            return ObjectRead(b"")
        found = self._version(answer, key, version)
        data = answer.body
        if byte_range is None and _size(answer) > MAX_WHOLE:
            raise self._error(StorageError, key, "it is too large to be read whole")
        if byte_range is not None:
            data = self._wanted_part(answer, byte_range, key)
        return ObjectRead(data, found, _modified(answer))

    def stat(self, key: str) -> ObjectStat:
        answer = self._ask("HEAD", key, {})
        size = _announced_size(answer.headers)
        if size is None:
            raise self._error(StorageUnavailableError, key, "the answer does not give its size")
        return ObjectStat(size, self._version(answer, key, None), _modified(answer))

    def close(self) -> None:
        self.client.close()

    def _ask(
        self, method: str, key: str, headers: dict[str, str], limit: int | None = None
    ) -> HTTPAnswer:
        try:
            answer = self.send(method, key, headers, limit)
        except StorageError as error:
            raise self._error(type(error), key, str(error)) from error
        status = answer.status
        if status in (200, 206, 416):
            return answer
        reason = self.refusal_reason(answer)
        told = f"the answer is {status}" + (f" {reason}" if reason else "")
        if status == 404:
            raise self._error(ObjectNotFoundError, key, told)
        if status == 412:
            raise self._error(ObjectChangedError, key, "it has been replaced")
        if status in (401, 403):
            raise self._error(AccessDeniedError, key, told)
        if status in _OVERLOADED:
            raise self._error(StorageUnavailableError, key, told)
        if status >= 500:
            raise StorageUnavailableError(
                f"{self.full_name}/{key}: {told}", storage=self.full_name, key=key, answered=True
            )
        raise self._error(StorageError, key, told)

    def _version(self, answer: HTTPAnswer, key: str, wanted: str | None) -> str | None:
        etag = answer.headers.get("ETag", "").strip()
        # A weak ETag does not guarantee equal bytes.
        version = None if not etag or etag.startswith("W/") else etag.strip('"')
        # Some servers ignore If-Match.
        if wanted is not None and version != wanted:
            raise self._error(ObjectChangedError, key, "it has been replaced")
        return version

    def _wanted_part(self, answer: HTTPAnswer, byte_range: ByteRange, key: str) -> bytes:
        """Return the body of a response, which must be the requested range.

        Raises:
            StorageError: the server ignores ranges. Reading each object up to the range would
                read large objects whole for each tile.
            StorageUnavailableError: the range differs from the request, or from the body.
        """
        data, end = answer.body, byte_range.offset + byte_range.length
        wanted = _range_header(byte_range)
        if answer.status == 200:
            # The whole object is correct if the range begins at 0 and extends beyond its end.
            if byte_range.offset or _size(answer) > byte_range.length:
                told = f"the server ignores ranges: it answers {wanted} with the whole object"
                raise self._error(StorageError, key, told)
            if len(data) == _size(answer):
                return data
        content_range = answer.headers.get("Content-Range", "")
        match = _CONTENT_RANGE.fullmatch(content_range.strip())
        if match is not None:
            first, last, total = match.groups()
            if total != "*":
                end = min(end, int(total))
            if (
                int(first) == byte_range.offset
                and len(data) == int(last) + 1 - int(first)
                and (int(last) + 1 == end or (total == "*" and int(last) + 1 < end))
            ):
                return data
        told = f"the server answers {wanted} with {_size(answer)} bytes of {content_range!r}"
        raise self._error(StorageUnavailableError, key, told)

    def _error(self, kind: type[StorageError], key: str, told: str) -> StorageError:
        return kind(f"{self.full_name}/{key}: {told}", storage=self.full_name, key=key)


def quoted_key(key: str) -> str:
    """Return the name of an object as a URL path that clients and servers do not normalise."""
    path = quote(key, safe="/-_.~")
    if "/." not in f"/{path}":
        return path
    # Segments of dots have a meaning in a path, but not in a name.
    return "/".join(
        part.replace(".", "%2E") if part in (".", "..") else part for part in path.split("/")
    )


def _range_header(byte_range: ByteRange) -> str:
    return f"bytes={byte_range.offset}-{byte_range.offset + byte_range.length - 1}"


def _announced_size(headers: Mapping[str, str]) -> int | None:
    size = headers.get("Content-Length", "")
    return int(size) if _SIZE.fullmatch(size) else None


def _size(answer: HTTPAnswer) -> int:
    """Return the size of a body, even if it was not read."""
    return max(len(answer.body), _announced_size(answer.headers) or 0)


def _modified(answer: HTTPAnswer) -> float | None:
    try:
        return parsedate_to_datetime(answer.headers.get("Last-Modified", "")).timestamp()
    except (ValueError, OverflowError):
        return None
