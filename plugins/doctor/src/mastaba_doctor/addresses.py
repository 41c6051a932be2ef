"""Check of the form of addresses in a configuration, without connecting to them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from mastaba.api.documents import Fault, Severity
from mastaba.tooling.documents import ServerConfig
from mastaba_server.transport.listener import host_and_port

if TYPE_CHECKING:
    from mastaba.api.services import Service, Site

_MAX_SOCKET_PATH: Final = 107
"""Maximum bytes in the path of a Unix socket on Linux (unix(7))."""


def port_faults(server: ServerConfig) -> list[Fault]:
    """Return what is wrong with the form of ``port`` in server.json."""
    port = server.port or ""
    if ":" in port:
        try:
            host_and_port(port)
        except ValueError as error:
            reason = f"{port!r} is not an address: {error}"
        else:
            return []
    elif port.isascii() and port.isdigit():
        reason = f"{port!r} names a Unix socket, not a port"
    elif len(os.fsencode(port)) > _MAX_SOCKET_PATH:
        reason = f"the path of a Unix socket can have at most {_MAX_SOCKET_PATH} bytes"
    else:
        return []
    remedy = 'write "127.0.0.1:9000", ":9000", or the path of a Unix socket'
    return [Fault(Severity.ERROR, server.file, "$.port", reason, remedy)]


def address_faults(site: Site, file: str) -> list[Fault]:
    """Return what is wrong with the form of the ``endpoint_uri`` of each service.

    Args:
        file: services.json, for the faults.
    """
    faults = []
    for service in site.services.values():
        # Health and administration are often not public.
        if service.is_fallback or (is_default(service) and service.always_on):
            continue
        uri = service.settings.endpoint_uri
        if not is_http(uri):
            severity, reason = Severity.ERROR, f"{uri!r} is not an HTTP address"
            remedy = f"write the complete address, as in https://maps.example.org/{service.name}"
        elif is_default(service):
            severity = Severity.WARNING
            reason = f"the address {uri} makes each client send requests to its own machine"
            remedy = "write the public address of the service"
        else:
            continue
        faults.append(Fault(severity, file, f"$.{service.name}.endpoint_uri", reason, remedy))
    return faults


def is_default(service: Service) -> bool:
    """Return whether a service has the default address."""
    return service.settings.endpoint_uri == f"http://localhost/{service.name}"


def is_http(uri: str) -> bool:
    """Return whether an address is a usable HTTP URL."""
    try:
        parts = urlsplit(uri)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
