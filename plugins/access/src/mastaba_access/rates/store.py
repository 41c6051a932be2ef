"""A store that several nodes share: Valkey, or another server of the same protocol.

The client is ``valkey`` (MIT): it knows TLS, Unix sockets, users and databases, and is safe after
a fork. It is an extra, because one node needs none of this.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from mastaba_server.threads.circuit_breaker import CircuitBreaker
from mastaba_server.threads.per_process import PerProcess

try:
    import valkey
except ImportError:  # an extra
    valkey = None  # type: ignore[assignment]

PREFIX: Final = "mastaba:"
"""Of all keys in the store."""
_FAILURES: Final = 2
"""One may be a connection that the store has closed."""
_PAUSE: Final = 1.0
"""Seconds in which a store that has failed is not asked."""


class StoreError(Exception):
    """The store cannot be asked now."""


class Store:
    """Runs scripts in the store. Its methods may be called in several threads.

    Args:
        url: ``valkey://``, ``valkeys://`` (TLS) or ``unix://``.
        timeout: seconds that a request may wait for the store.
        nodes: that share the store.

    Raises:
        ValueError: the address cannot be used, or the client is not installed.
    """

    def __init__(self, url: str, timeout: float, nodes: int) -> None:
        if valkey is None:
            raise ValueError("needs the package valkey: pip install 'mastaba-access[valkey]'")
        self.nodes = nodes
        parts = urlsplit(url)
        self.name = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        self._url = url
        self._timeout = timeout
        self._breaker = PerProcess(lambda: CircuitBreaker(self.name, _FAILURES, _PAUSE))
        # Checks the address; connects with the first request.
        self._open()
        self._client: PerProcess[Any] = PerProcess(self._open)
        self._salt: PerProcess[bytes] = PerProcess(self._read_salt)

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Store | None:
        """Return the store of ``plugins.access.store``, or None without one.

        Raises:
            ValueError: it cannot be used.
        """
        if not settings:
            return None
        return cls(settings["url"], settings.get("timeout", 0.01), settings.get("nodes", 2))

    def run(self, script: str, kind: str, name: str, arguments: Sequence[object]) -> Any:
        """Run a script with one key.

        Args:
            script: in Lua.
            kind: of what is kept under the key.
            name: whose it is. The store knows only a digest of it: it holds no addresses.
            arguments: of the script.

        Raises:
            StoreError: the store does not answer in time, or refuses. Whether it has run the
                script is unknown.
        """
        breaker = self._breaker.get()
        reason = breaker.refusal()
        if reason is not None:
            raise StoreError(reason)
        try:
            client = self._client.get()
            text = name.encode("utf-8", "surrogatepass")
            digest = hashlib.blake2b(text, key=self._salt.get(), digest_size=16).hexdigest()
            # EVALSHA, and EVAL if the store does not know the script yet.
            result = client.register_script(script)([f"{PREFIX}{kind}:{digest}"], list(arguments))
        except (valkey.ValkeyError, OSError) as error:
            breaker.failed(error)
            raise StoreError(str(error)) from error
        breaker.answered()
        return result

    def _open(self) -> Any:
        return valkey.Valkey.from_url(
            self._url, socket_timeout=self._timeout, socket_connect_timeout=self._timeout
        )

    def _read_salt(self) -> bytes:
        """Return the key of digests, which the first node has made."""
        client = self._client.get()
        client.set(f"{PREFIX}salt", os.urandom(16), nx=True)
        return bytes(client.get(f"{PREFIX}salt"))
