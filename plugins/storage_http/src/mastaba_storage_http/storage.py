"""The storage drivers ``http`` and ``https``: objects on web servers (containers.md section 1.9).

A path is the URL of the object. Nothing else is read: no redirects are followed, and no
credentials are sent.
"""

from __future__ import annotations

import re
from typing import ClassVar, Final, Self
from urllib.parse import quote

from mastaba.api.storages import Environment
from mastaba.errors import AccessDeniedError, StorageError
from mastaba_http import HTTPAnswer, HTTPClient, HTTPStorage
from mastaba_storage_http.hosts import VARIABLE, AllowedHosts, host_and_port

_KEPT: Final = "/?%~!$&'()*+,;=:@"
"""Characters of paths and queries that have their meaning in a URL."""
_LONE_PERCENT: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")


class WebStorage(HTTPStorage):
    """Objects of one web server.

    Args:
        container: ``host`` or ``host:port``.
        client: HTTP client for the server.
    """

    name = "http"
    container_field: ClassVar[str | None] = "host"

    @classmethod
    def open(cls, container: str, environment: Environment) -> Self:
        full_name = f"{cls.name}://{container}"
        try:
            allowed = AllowedHosts.from_environment(environment)
        except ValueError as error:
            raise StorageError(f"{VARIABLE}: {error}", storage=full_name) from None
        try:
            host, port = host_and_port(container)
        except ValueError as error:
            raise StorageError(f"{full_name}: {error}", storage=full_name) from None
        if not allowed.allows(host, port, cls.name):
            reason = f"the host is not listed in {VARIABLE}"
            raise AccessDeniedError(f"{full_name}: {reason}", storage=full_name)
        client = HTTPClient.from_environment(full_name, environment, allowed.allows_address)
        return cls(container, client)

    @classmethod
    def resolve_container(cls, container: str, beside: str | None) -> str:
        if not container and not beside:
            raise ValueError("the host is missing")
        return container or beside or ""

    def send(
        self, method: str, key: str, headers: dict[str, str], limit: int | None = None
    ) -> HTTPAnswer:
        # A server must not compress a response of which ranges are requested.
        headers = {**headers, "Accept-Encoding": "identity"}
        return self.client.request(method, _target(key), headers, limit)


class SecureWebStorage(WebStorage):
    """Objects of one web server over TLS."""

    name = "https"


def _target(key: str) -> str:
    """Return path and query of a URL; only characters that a URL cannot contain are encoded."""
    return quote("/" + _LONE_PERCENT.sub("%25", key), safe=_KEPT)
