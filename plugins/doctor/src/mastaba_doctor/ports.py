"""Check whether the port of server.json is free, or used by Mastaba or another program."""

from __future__ import annotations

import os
import socket
import stat
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from mastaba.api.documents import Fault, Severity
from mastaba_doctor.answer import ask_inside
from mastaba_doctor.fastcgi import NoFastCGIError, connect, get
from mastaba_server.transport.listener import inet_address

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

_TIMEOUT: Final = 3.0
_PATH: Final = "$.port"


class PortState(StrEnum):
    """FREE: no one listens. OURS: Mastaba answers. TAKEN: another program listens."""

    FREE = "free"
    OURS = "ours"
    TAKEN = "taken"


@dataclass(frozen=True, slots=True)
class PortFinding:
    """State of the port, and its problems."""

    state: PortState
    faults: tuple[Fault, ...] = ()


def look_at_port(port: str, file: str, application: WSGIApplication) -> PortFinding:
    """Request the list of services from the port, as a front server would.

    Args:
        port: from server.json.
        file: server.json, for the faults.
        application: of the same configuration; its response identifies Mastaba.
    """
    try:
        sock = connect(port, _TIMEOUT)
    except TimeoutError:
        reason = f"a program listens on {port}, but accepts no connection"
        return PortFinding(PortState.TAKEN, (_taken(file, reason),))
    except (OSError, ValueError) as error:
        return _not_connected(port, file, error)
    with sock:
        try:
            found = get(sock, "/")
        except NoFastCGIError as error:
            reason = f"another program listens on {port}: {error}"
            return PortFinding(PortState.TAKEN, (_taken(file, reason),))
    expected = ask_inside(application, "/")
    if not found.resembles(expected):
        reason = f"another FastCGI program listens on {port}: its list of services is not ours"
        return PortFinding(PortState.TAKEN, (_taken(file, reason),))
    if found.body != expected.body:
        fault = Fault(
            Severity.WARNING,
            file,
            _PATH,
            f"the server on {port} has a configuration that differs from this one",
            "reload it (SIGHUP), or check that it is started with this file",
        )
        return PortFinding(PortState.OURS, (fault,))
    return PortFinding(PortState.OURS)


def _taken(file: str, reason: str) -> Fault:
    return Fault(Severity.ERROR, file, _PATH, reason, "stop that program, or choose another port")


def _not_connected(port: str, file: str, error: Exception) -> PortFinding:
    """Return the finding when no one answers: whether the server could listen there."""
    problem = _unix_problem(port, error) if ":" not in port else _inet_problem(port)
    if problem is None:
        return PortFinding(PortState.FREE)
    fault = Fault(
        Severity.ERROR, file, _PATH, f"the server cannot listen on {port}: {problem[0]}", problem[1]
    )
    return PortFinding(PortState.FREE, (fault,))


def _inet_problem(port: str) -> tuple[str, str] | None:
    try:
        family, address = inet_address(port)
        with socket.socket(family, socket.SOCK_STREAM) as sock:
            # Bind only: a listening socket would take connections from a front server.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(address)
    except PermissionError as error:
        return (
            error.strerror or str(error),
            "choose a port from 1024 on, or grant CAP_NET_BIND_SERVICE",
        )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        return reason or str(error), "choose an address of this machine, and a free port"
    return None


def _unix_problem(path: str, error: Exception) -> tuple[str, str] | None:
    try:
        is_socket = stat.S_ISSOCK(os.lstat(path).st_mode)
    except FileNotFoundError:
        folder = os.path.dirname(path) or "."
        if not os.path.isdir(folder):
            return f"there is no directory {folder}", "create it (in systemd: RuntimeDirectory=)"
        if not os.access(folder, os.W_OK | os.X_OK):
            return f"the directory {folder} is not writable", "give this user write permission"
        return None
    except (OSError, ValueError) as other:
        return str(other), "correct the path"
    if not is_socket:
        return "the file exists and is not a socket", "choose another path"
    if isinstance(error, ConnectionRefusedError):
        return None  # left by a process that has exited; the server removes it
    reason = error.strerror if isinstance(error, OSError) else None
    return reason or str(error), "run the check as the user of the server"
