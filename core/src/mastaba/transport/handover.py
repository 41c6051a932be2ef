"""Kept connections on their way from a worker that retires to one that serves."""

from __future__ import annotations

import array
import socket

_DESCRIPTOR_SIZE = array.array("i").itemsize


class Handover:
    """A channel for open connections between the processes that inherit it.

    FastCGI has no way to announce that a kept connection is about to close: the front server may
    send a request at the very moment, and that request would be lost. So a worker that retires
    because of a reload does not close its idle connections, it gives them to its successors.
    It has to be created before the workers are forked.
    """

    def __init__(self) -> None:
        # Unlike datagrams, packets in sequence are not limited to a queue of ten.
        self._taking, self._giving = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # Several processes wait for the same connection.
        self._taking.setblocking(False)
        self._giving.setblocking(False)

    def fileno(self) -> int:
        """A descriptor that is readable while there is something to take."""
        return self._taking.fileno()

    def give(self, sock: socket.socket) -> bool:
        """Give a connection away; the caller then closes its own descriptor of it.

        Returns False if the channel is full or broken.
        """
        try:
            socket.send_fds(self._giving, [b"\0"], [sock.fileno()])
        except OSError:
            return False
        return True

    def take(self) -> socket.socket | None:
        """Take a connection, if there is one that nobody else has taken."""
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
