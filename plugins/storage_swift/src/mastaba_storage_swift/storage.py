"""The storage driver ``swift`` (storage.md section 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self
from urllib.parse import quote

from mastaba.storage.http import HTTPAnswer, HTTPClient, HTTPStorage, quoted_key
from mastaba.storage.settings import network_timeout
from mastaba_storage_swift.authentication import Credentials
from mastaba_storage_swift.tokens import Tokens, shared_tokens

if TYPE_CHECKING:
    from mastaba.environment import Environment

_DEFAULT_URL = "http://localhost:8080/api/v1"


class SwiftStorage(HTTPStorage):
    """Objects of one container.

    Args:
        container: name of the container.
        public_url: URL of the account.
        client: HTTP client of the server.
        tokens: tokens of the account.
    """

    name = "swift"
    container_field: ClassVar[str | None] = "container_name"

    def __init__(self, container: str, public_url: str, client: HTTPClient, tokens: Tokens) -> None:
        super().__init__(container, client)
        self._base = f"{public_url.rstrip('/')}/{quote(container, safe='')}"
        self._tokens = tokens

    @classmethod
    def open(cls, container: str, environment: Environment) -> Self:
        credentials = Credentials.from_environment(environment)
        tokens = shared_tokens(
            credentials,
            environment.text("SWIFT_TOKEN_FILE") or None,
            network_timeout(environment),
            not environment.flag("SSL_NO_VERIFY"),
        )
        tokens.get()  # so that invalid credentials are reported at once, not with the first tile
        url = environment.text("SWIFT_PUBLICURL") or _DEFAULT_URL
        return cls(container, url, HTTPClient.from_environment(url, environment), tokens)

    def send(
        self, method: str, key: str, headers: dict[str, str], limit: int | None = None
    ) -> HTTPAnswer:
        token = self._tokens.get()
        answer = self._send(method, key, headers, token, limit)
        # If the server refuses a fresh token, access is denied. Requesting another token each
        # time would only add load.
        if answer.status == 401 or (
            answer.status in (400, 403) and not self._tokens.is_fresh(token)
        ):
            answer = self._send(method, key, headers, self._tokens.renew(token), limit)
        return answer

    def _send(
        self, method: str, key: str, headers: dict[str, str], token: str, limit: int | None
    ) -> HTTPAnswer:
        url = f"{self._base}/{quoted_key(key)}"
        return self.client.request(method, url, {**headers, "X-Auth-Token": token}, limit=limit)
