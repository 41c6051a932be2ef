"""The listening socket: opened from the ``port`` of server.json, or inherited."""

from __future__ import annotations

import array
import contextlib
import mmap
import os
import socket
import stat
import struct
from collections.abc import MutableMapping
from typing import Any, Self

from mastaba_server.errors import ListenError, reason_of

_STDIN = 0
_FIRST_ACTIVATED = 3
# Seconds.
_VANISHED = 60
# Linux: <asm/socket.h>. The socket module does not have it.
_SO_ATTACH_FILTER = 26
# Drops the packets that begin a TCP connection (<linux/filter.h>): load the byte of the flags; if
# it contains SYN, accept 0 bytes of the packet, otherwise all.
_NO_SYN = ((0x30, 0, 0, 13), (0x45, 0, 1, 0x02), (0x06, 0, 0, 0), (0x06, 0, 0, 0xFFFFFFFF))


class Listener:
    """A listening socket and its clean-up.

    All worker processes share ``socket``. In the process that opened it, ``close`` also removes
    the file of a Unix socket, but only if it is still the file that this process created.

    Args:
        is_own: the socket was opened here, so that no other program accepts on it.
    """

    def __init__(
        self, sock: socket.socket, address: str, path: str | None = None, *, is_own: bool = False
    ) -> None:
        self.socket = sock
        self._is_own = is_own
        # Shared by the processes forked later.
        self._refusing = mmap.mmap(-1, 1)
        self.address = address
        self._path = path
        self._inode = _inode(path) if path is not None else None
        self._owner = os.getpid()

    @property
    def is_refusing(self) -> bool:
        """Whether `refuse` was called in one of the processes."""
        return self._refusing[0] > 0

    def refuse(self) -> None:
        """Let no new connection begin; those that have begun can still be accepted.

        Closing the socket would reset them. A socket of another program stays as it is: that
        program keeps the connections for the next process.
        """
        if not self._is_own:
            return
        try:
            if self.socket.family == socket.AF_UNIX:
                self.socket.shutdown(socket.SHUT_RD)
            else:
                code = array.array("B", b"".join(struct.pack("=HBBL", *one) for one in _NO_SYN))
                program = struct.pack("HL", len(_NO_SYN), code.buffer_info()[0])
                self.socket.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)
        except OSError:
            return  # new connections are accepted until the processes exit
        self._refusing[0] = 1

    def close(self) -> None:
        """Close the socket. May be called more than once."""
        self.socket.close()
        if self._path is None or os.getpid() != self._owner:
            return
        # A successor may have created its own socket at the same path meanwhile.
        if _inode(self._path) == self._inode:
            with contextlib.suppress(OSError):
                os.unlink(self._path)
        self._path = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def open_listener(port: str, backlog: int = 0, unix_mode: int = 0o666) -> Listener:
    """Open the listening socket that the ``port`` string describes.

    :param port: ``:9000`` or ``*:9000`` (all IPv4 interfaces), ``127.0.0.1:9000``,
        ``[::1]:9000``, ``name:9000``, or the path of a Unix socket, which contains no colon.
    :param backlog: length of the connection queue, 0 for the platform's default.
    :param unix_mode: permissions of the file of a Unix socket, regardless of the umask. Clients
        need write permission to connect, and the front server usually runs as another user, hence
        the default. To keep other users out, put the socket in a directory with restricted access.
    :raises ListenError: the address is malformed, in use or not allowed. The message contains it.
    """
    if not port:
        raise ListenError("the listening address is empty")
    is_unix = ":" not in port
    try:
        if is_unix:
            _remove_stale(port)
        family, address = (socket.AF_UNIX, port) if is_unix else inet_address(port)
        with contextlib.ExitStack() as opened:
            sock = opened.enter_context(socket.socket(family, socket.SOCK_STREAM))
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(address)
            if is_unix:
                os.chmod(port, unix_mode)
            sock.listen(backlog or socket.SOMAXCONN)
            _prepare(sock)
            opened.pop_all()
    except (OSError, ValueError) as error:
        raise ListenError(f"cannot listen on {port!r}: {reason_of(error)}") from error
    return Listener(sock, port, os.path.abspath(port) if is_unix else None, is_own=True)


def require_free(port: str) -> None:
    """Check that a server can listen on an address now.

    :raises ListenError: it cannot.
    """
    open_listener(port).close()


def inherited_listener() -> Listener | None:
    """Return the listening socket on descriptor 0, or None if it is anything else.

    FastCGI process managers (mod_fcgid, spawn-fcgi) start the application this way.
    """
    try:
        if not stat.S_ISSOCK(os.fstat(_STDIN).st_mode):
            return None
        sock = socket.socket(fileno=os.dup(_STDIN))
    except OSError:
        return None
    if not sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        sock.close()
        return None
    _prepare(sock)
    return Listener(sock, "the socket of the front server")


def activated_listener(environment: MutableMapping[str, str] = os.environ) -> Listener | None:
    """Return the listening socket that systemd opened for this process, or None.

    The variables that announce it are removed from the environment: programs that the server may
    start must not see them. Only the first of several sockets is used.

    :raises ListenError: the descriptor passed is not a listening socket.
    """
    pid, count = (environment.pop(name, "") for name in ("LISTEN_PID", "LISTEN_FDS"))
    environment.pop("LISTEN_FDNAMES", None)
    if pid != str(os.getpid()) or not (count.isascii() and count.isdigit() and int(count) > 0):
        return None
    try:
        sock = socket.socket(fileno=_FIRST_ACTIVATED)
    except OSError as error:
        raise ListenError(
            f"the service manager did not hand over a socket: {reason_of(error)}"
        ) from error
    if not sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        sock.detach()
        raise ListenError("the service manager handed over a socket that does not listen")
    os.set_inheritable(_FIRST_ACTIVATED, False)
    _prepare(sock)
    return Listener(sock, "the socket of the service manager")


def inet_address(port: str) -> tuple[socket.AddressFamily, Any]:
    """Return family and address of ``host:port``.

    :raises ValueError: it is malformed.
    :raises OSError: the host is unknown.
    """
    host, number = host_and_port(port)
    family, _, _, _, address = socket.getaddrinfo(
        host or None,
        number,
        family=socket.AF_UNSPEC if host else socket.AF_INET,
        type=socket.SOCK_STREAM,
        flags=socket.AI_PASSIVE,
    )[0]
    return family, address


def host_and_port(port: str) -> tuple[str, int]:
    """Return the parts of ``host:port``; the host is empty for all IPv4 interfaces.

    :raises ValueError: it is malformed.
    """
    host, _, number = port.rpartition(":")
    is_number = number.isascii() and number.isdigit() and len(number) <= 5
    if not (is_number and int(number) <= 0xFFFF):
        raise ValueError("the port is not a number up to 65535")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError("an IPv6 address needs square brackets")
    return "" if host == "*" else host, int(number)


def _remove_stale(path: str) -> None:
    """Remove the socket file of a process that exited without cleaning up."""
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise ValueError("the file exists and is not a socket")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.setblocking(False)
            probe.connect(path)
    except FileNotFoundError:
        return
    except ConnectionRefusedError:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        return
    except BlockingIOError:
        pass  # the queue is full: a process listens
    raise ValueError("another process listens there")


def _prepare(sock: socket.socket) -> None:
    # Several processes wait on this socket: one that is too late must not block in accept.
    sock.setblocking(False)
    if sock.family in (socket.AF_INET, socket.AF_INET6):
        # Accepted connections inherit these. The last three close a connection whose client has
        # vanished.
        # Only Linux has the second and the third.
        for level, name, value in (
            (socket.IPPROTO_TCP, "TCP_NODELAY", 1),
            (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", _VANISHED * 1000),
            (socket.IPPROTO_TCP, "TCP_KEEPIDLE", _VANISHED),
            (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
        ):
            if hasattr(socket, name):
                sock.setsockopt(level, getattr(socket, name), value)


def _inode(path: str) -> tuple[int, int] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
