"""From the workers of one epoch to those of the next: the turn to serve, and connections."""

from __future__ import annotations

import array
import os
import socket

_DESCRIPTOR_SIZE = array.array("i").itemsize


class Gate:
    """Keeps all processes that inherit it from serving until it is opened."""

    def __init__(self) -> None:
        self._descriptor = os.eventfd(0)
        self.is_open = False

    def fileno(self) -> int:
        """Return a descriptor that is readable once the gate is open."""
        return self._descriptor

    def open(self) -> None:
        """Let all processes serve, also those that inherit the gate later."""
        os.eventfd_write(self._descriptor, 1)
        self.is_open = True

    def close(self) -> None:
        """Close the descriptor in this process."""
        os.close(self._descriptor)


class Handover:
    """A channel for open connections between the processes that inherit it.

    If a client sends a request at the moment when a keep-alive connection is closed, the request
    is lost. FastCGI cannot even announce that a connection is about to close. So a worker that
    retires on a reload gives its idle connections to its successors. The channel must be created
    before the workers are forked.
    """

    def __init__(self) -> None:
        # Unlike datagrams, sequenced packets are not limited to a queue of ten.
        self._taking, self._giving = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # Several processes wait for the same connection.
        self._taking.setblocking(False)
        self._giving.setblocking(False)

    def fileno(self) -> int:
        """Return a descriptor that is readable while there is a connection to take."""
        return self._taking.fileno()

    def give(self, sock: socket.socket) -> bool:
        """Give a connection away; return False if the channel is full.

        The caller then closes its own descriptor.
        """
        try:
            socket.send_fds(self._giving, [b"\0"], [sock.fileno()])
        except OSError:
            return False
        return True

    def take(self) -> socket.socket | None:
        """Take a connection; return None if there is none left."""
        # ``socket.recv_fds`` drops its flags in Python 3.11.
        try:
            _, control, _, _ = self._taking.recvmsg(
                1, socket.CMSG_LEN(_DESCRIPTOR_SIZE), socket.MSG_CMSG_CLOEXEC
            )
        except BlockingIOError:
            return None
        descriptors = array.array("i", control[0][2] if control else b"")
        return socket.socket(fileno=descriptors[0]) if descriptors else None

    def close(self) -> None:
        """Close the channel in this process."""
        self._taking.close()
        self._giving.close()
