"""Response bodies too large to be kept in memory until the client has read them."""

from __future__ import annotations

import logging
import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Final

logger = logging.getLogger(__name__)

IN_MEMORY: Final = 1024 * 1024
"""Bytes; a larger body goes to a temporary file."""

PIECE: Final = 64 * 1024
"""Bytes read from the file at a time."""


class CutShortError(Exception):
    """A body cannot be finished, for a reason that the message names; a traceback says no more."""


class SizedBody(ABC):
    """A body that is sent in pieces, and whose length is known before the first one."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of bytes."""

    @abstractmethod
    def __iter__(self) -> Iterator[bytes]:
        """Yield the whole body. The next piece is requested when the one before has been sent.

        Raises:
            CutShortError: the connection is to be closed, so that the client sees what is missing.
        """

    @abstractmethod
    def close(self) -> None:
        """Release what the body holds, sent or not."""

    def report(self, ended: Callable[[int], None]) -> bool:
        """Return whether a function will be called with the number of bytes sent, at the end.

        Only bodies that take long to send report them.
        """
        return False


class SpooledBody(SizedBody):
    """A body in an unnamed temporary file, which is removed when it is closed.

    Each iteration yields the whole body in pieces of at most `PIECE` bytes.

    Raises:
        OSError: the temporary file cannot be created.
    """

    def __init__(self) -> None:
        self._size = 0
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - closed by close()

    def append(self, data: bytes) -> None:
        """Append bytes.

        Raises:
            OSError: not all bytes can be written; the body is unchanged.
        """
        view, offset = memoryview(data), self._size
        while view:
            written = os.pwrite(self._file.fileno(), view, offset)
            view, offset = view[written:], offset + written
        self._size = offset

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[bytes]:
        for offset in range(0, self._size, PIECE):
            yield os.pread(self._file.fileno(), min(PIECE, self._size - offset), offset)

    def close(self) -> None:
        """Remove the file; the body can no longer be read."""
        self._file.close()


Body = bytes | SizedBody
"""Body of a response."""


def head_of(pieces: Iterator[bytes]) -> tuple[list[bytes], bool]:
    """Take the pieces that are kept in memory: until they have more than `IN_MEMORY` bytes.

    Returns:
        these pieces, and whether they are all.
    """
    head: list[bytes] = []
    size = 0
    for piece in pieces:
        head.append(piece)
        size += len(piece)
        if size > IN_MEMORY:
            return head, False
    return head, True


def spooled(pieces: Iterable[bytes]) -> Body:
    """Return a body composed of pieces.

    All pieces are produced before anything is sent: errors can still be reported in the form of
    the protocol, and the length is known.

    Returns:
        Bytes up to `IN_MEMORY`, or if no temporary file can be written (``TMPDIR`` is not
        writable, or full); otherwise a body in a file.

    Raises:
        the errors of iterating over ``pieces``.
    """
    rest = iter(pieces)
    head, is_all = head_of(rest)
    if is_all:
        return b"".join(head)
    try:
        body = SpooledBody()
    except OSError as error:
        logger.warning("no temporary file for a large response: %s", error.strerror)
        return b"".join(chain(head, rest))
    try:
        for piece in chain(head, rest):
            try:
                body.append(piece)
            except OSError as error:
                logger.warning("no temporary file for a large response: %s", error.strerror)
                data = b"".join(chain(body, (piece,), rest))
                body.close()
                return data
    except BaseException:
        body.close()
        raise
    return body
