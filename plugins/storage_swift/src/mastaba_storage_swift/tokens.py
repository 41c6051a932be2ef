"""The token shared by all containers of an account (storage.md section 6.4)."""

from __future__ import annotations

import logging
import threading
import time
from functools import lru_cache

from mastaba.storage.http import HTTPClient
from mastaba.storage.per_process import PerProcess
from mastaba_storage_swift.authentication import Credentials, fetch_token
from mastaba_storage_swift.token_file import read_token, write_token

logger = logging.getLogger(__name__)

_FRESH = 60.0
"""Seconds during which a token fetched by this process cannot have expired."""


class Tokens:
    """Holds a token. Only one thread at a time requests a new one.

    Args:
        credentials: credentials for authentication.
        client: HTTP client of the authentication server.
        path: path of the token file, or None.
    """

    def __init__(self, credentials: Credentials, client: HTTPClient, path: str | None) -> None:
        self._credentials = credentials
        self._client = client
        self._path = path
        # Per process: a lock held during a fork would stay locked in the child.
        self._lock = PerProcess(threading.Lock)
        self._token: str | None = None
        self._fetched = float("-inf")

    def get(self) -> str:
        """Return the current token. At first, read it from the file or fetch a new one.

        Raises the errors of `fetch_token`.
        """
        token = self._token
        if token is not None:
            return token
        with self._lock.get():
            if self._token is None and self._path is not None:
                self._token = read_token(self._path)
            return self._token or self._fetch()

    def renew(self, refused: str) -> str:
        """Return a token other than the refused one. Raises the errors of `fetch_token`."""
        with self._lock.get():
            if self._token is not None and self._token != refused:
                return self._token
            self._token = None
            logger.info("%s: token refused, requesting a new one", self._credentials.auth_url)
            return self._fetch()

    def is_fresh(self, token: str) -> bool:
        """Return whether a token was fetched so recently that it cannot have expired."""
        return token == self._token and time.monotonic() - self._fetched < _FRESH

    def _fetch(self) -> str:
        token = fetch_token(self._credentials, self._client)
        self._token, self._fetched = token, time.monotonic()
        if self._path is not None:
            write_token(self._path, token)
        return token


@lru_cache(maxsize=32)
def shared_tokens(
    credentials: Credentials, path: str | None, timeout: float | None, verify: bool
) -> Tokens:
    """Return the tokens of an account: the same object for the same arguments."""
    client = HTTPClient(credentials.auth_url, timeout, verify=verify)
    return Tokens(credentials, client, path)
