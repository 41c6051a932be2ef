"""Connections that are opened to allowed IP addresses only."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

from urllib3.util.connection import create_connection


def to_allowed_addresses(connection: type[Any], allows: Callable[[str], bool]) -> type[Any]:
    """Return a class of connections of urllib3 that check each address before they connect.

    The address that is checked is the one that is used: a name that resolves to another address a
    moment later cannot pass.

    Args:
        connection: class of connections.
        allows: whether a connection to an IP address may be opened.
    """

    class Connection(connection):  # type: ignore[misc]
        def _new_conn(self) -> socket.socket:
            failure: OSError = PermissionError("the host has no address that may be used")
            found = socket.getaddrinfo(self.host.strip("[]"), self.port, type=socket.SOCK_STREAM)
            for address in dict.fromkeys(str(entry[4][0]) for entry in found):
                if not allows(address):
                    failure = PermissionError(f"the address {address} is private, and not listed")
                    continue
                try:
                    return create_connection(
                        (address, self.port), self.timeout, self.source_address, self.socket_options
                    )
                except OSError as error:
                    failure = error
            raise failure

    return Connection
