"""Counters of one process in a mapped file, which outlives the process however it ends.

```text
header      64 bytes: signature, number of cells, length of the directory
counters    65,536 cells of four integers of 64 bits: hits, bytes, uses, and the cost beyond 1 a hit
directory   for each cell, in order: length and CRC-32 of its name, then the name as JSON
```

The kernel keeps what was written when a process is killed. A name that was written in part is the
last one, and its cell is empty.
"""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import mmap
import os
import secrets
import struct
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

logger = logging.getLogger("mastaba.usage")

SUFFIX: Final = ".cells"
HEAT_SUFFIX: Final = ".heat"
"""Of the files in which blocks of tiles are counted."""
MOST_CELLS: Final = 65_536
"""Of one process and day: 2 MiB."""
OTHER: Final = "other"
"""Layer and level when there are many cells, and key when there are too many."""

_MAGIC: Final = b"mastaba usage 1\n"
_HEADER: Final = 64
_WORDS: Final = 4
_COUNTERS: Final = MOST_CELLS * 8 * _WORDS
_DIRECTORY: Final = 8 * 1024**2
_SIZE: Final = _HEADER + _COUNTERS + _DIRECTORY
_ENTRY: Final = struct.Struct("<II")
_PLACES: Final = ((0, _HEADER + _COUNTERS), (_HEADER + _COUNTERS, _SIZE))
"""Begin and end of what grows: the counters, with the header, and the directory."""
_STEP: Final = 64 * 1024
"""Bytes by which each of them grows."""
_WITHOUT: Final = (errno.EOPNOTSUPP, errno.EINVAL)
"""Errors of file systems that cannot reserve room."""
_KEPT: Final = 4096
"""Cells that are left for names without layers."""
_LONGEST: Final = 100
"""Characters of one part of a name."""


class Cell(NamedTuple):
    """What is counted together in one day.

    Attributes:
        service: name; empty for requests that no service answered.
        virtual: identifier of the virtual service; empty for the main ones.
        layer: identifier; empty for none, ``unknown`` for one that does not exist.
        level: identifier of the tile matrix; empty for none.
        ability: of the service, such as ``tiles``; ``documents`` for none.
        key: public identifier of the principal; ``anonymous`` without one.
        status: ``ok``, ``unchanged``, ``missing``, ``refused``, ``limited`` or ``error``.
        label: name of the principal for people; empty for none.
    """

    service: str
    virtual: str = ""
    layer: str = ""
    level: str = ""
    ability: str = ""
    key: str = "anonymous"
    status: str = "ok"
    label: str = ""


class Counts(NamedTuple):
    """Counters of a cell.

    Attributes:
        hits: answers.
        size: bytes of their bodies.
        cost: of the requests; see `mastaba.api.services.Service.cost`.
        uses: requests off the fast path that name the layer, alone or among others.
    """

    hits: int
    size: int
    cost: int
    uses: int


class CellFile:
    """The counters of this process for one day. Its methods may be called in several threads.

    A lock on the file shows that its process lives. On a full disk, there are no further cells.

    Args:
        directory: of all files.
        day: ISO 8601 date, UTC.
        suffix: of its name: `SUFFIX` or `HEAT_SUFFIX`.

    Attributes:
        is_full: whether a cell was replaced by one of `OTHER`.
        has_room: whether the disk had room for all cells; if not, another file may have it later.

    Raises:
        OSError: the file cannot be made.
    """

    def __init__(self, directory: Path, day: str, suffix: str = SUFFIX) -> None:
        self.day = day
        self.pid = os.getpid()
        self._lock = threading.Lock()
        self._numbers: dict[Cell, int] = {}
        self._end = 0
        self._reserved = [begin for begin, _ in _PLACES]
        self.is_full = False
        self.has_room = True
        # Under another name first, so that nobody reads it before it is locked.
        path = directory / f"{day}-{self.pid}-{secrets.token_hex(6)}{suffix}"
        part = path.with_suffix(".part")
        self._fd = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_SH)
            os.ftruncate(self._fd, _SIZE)
            for place, (begin, _) in enumerate(_PLACES):
                self._reserve(place, begin + 1)
            self._map = mmap.mmap(self._fd, _SIZE)
            self._map[: len(_MAGIC)] = _MAGIC
            part.rename(path)
        except BaseException:
            os.close(self._fd)
            part.unlink(missing_ok=True)
            raise
        end = _HEADER + _COUNTERS
        self._words = memoryview(self._map)[_HEADER:end].cast("q")
        # For what has no room.
        self._added(Cell(OTHER))

    def number(self, cell: Cell) -> int:
        """Return the number of a cell, which is new if it has not been counted before."""
        known = self._numbers.get(cell)
        if known is not None:
            return known
        with self._lock:
            known = self._numbers.get(cell)
            return self._added(cell) if known is None else known

    def add(self, number: int, size: int, cost: int = 1) -> None:
        """Count one hit.

        Args:
            number: of the cell.
            size: bytes.
            cost: of the request.
        """
        place = number * _WORDS
        words = self._words
        with self._lock:
            words[place] += 1
            words[place + 1] += size
            if cost != 1:
                words[place + 3] += cost - 1

    def use(self, number: int) -> None:
        """Count one use."""
        with self._lock:
            self._words[number * _WORDS + 2] += 1

    def flush(self) -> None:
        """Write what was counted to the disk."""
        with self._lock:
            if self._map.closed:
                return
            fd = os.dup(self._fd)
        # Not locked: requests are counted meanwhile. On Linux, this writes mapped pages too.
        try:
            os.fdatasync(fd)
        finally:
            os.close(fd)

    def close(self) -> None:
        """Let others remove the file once they have counted it. Nothing may be counted any more."""
        with self._lock:
            self._words.release()
            self._map.close()
            os.close(self._fd)

    def _added(self, cell: Cell) -> int:
        count = len(self._numbers)
        if count >= MOST_CELLS - _KEPT and cell.layer not in ("", OTHER):
            return self._placed(cell._replace(layer=OTHER, level=""))
        if count >= MOST_CELLS - _KEPT // 2 and cell.key != OTHER:
            return self._placed(cell._replace(key=OTHER, label=""))
        if count >= MOST_CELLS:
            self.is_full = True
            return 0
        name = json.dumps([part[:_LONGEST] for part in cell]).encode()
        length = _ENTRY.size + len(name)
        start = _HEADER + _COUNTERS + self._end
        if self._end + length > _DIRECTORY:
            self.is_full = True
            return 0
        try:
            self._reserve(0, _HEADER + (count + 1) * _WORDS * 8)
            self._reserve(1, start + length)
        except OSError as error:
            self.is_full = True
            if self.has_room:
                logger.error("what is new is counted together: %s", error)
                self.has_room = False
            return 0
        self._map[start + _ENTRY.size : start + length] = name
        # Last, so that a reader sees whole names only.
        self._map[start : start + _ENTRY.size] = _ENTRY.pack(len(name), zlib.crc32(name))
        self._end += length
        self._numbers[cell] = count
        return count

    def _reserve(self, place: int, end: int) -> None:
        """Get room on the disk up to an offset: to write a mapped page without it ends the process.

        Raises:
            OSError: the disk is full.
        """
        reserved = self._reserved[place]
        if end <= reserved:
            return
        end = min(end + _STEP, _PLACES[place][1])
        try:
            os.posix_fallocate(self._fd, reserved, end - reserved)
        except OSError as error:
            if error.errno not in _WITHOUT:
                raise
        self._reserved[place] = end

    def _placed(self, cell: Cell) -> int:
        self.is_full = True
        known = self._numbers.get(cell)
        return self._added(cell) if known is None else known


def read_cells(path: Path) -> Iterator[tuple[Cell, Counts]]:
    """Yield the cells of a file in order, also while its process counts.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is not such a file.
    """
    data = path.read_bytes()
    if len(data) != _SIZE or not data.startswith(_MAGIC):
        raise ValueError(f"{path.name} is not a file of counters")
    end = _HEADER + _COUNTERS
    words = memoryview(data)[_HEADER:end].cast("q")
    for number in range(MOST_CELLS):
        if end + _ENTRY.size > len(data):
            return
        length, checksum = _ENTRY.unpack_from(data, end)
        name = data[end + _ENTRY.size : end + _ENTRY.size + length]
        if not length or zlib.crc32(name) != checksum:
            return
        end += _ENTRY.size + length
        place = number * _WORDS
        hits, size, uses, more = words[place : place + _WORDS]
        yield Cell(*json.loads(name)), Counts(hits, size, hits + more, uses)


def is_closed(path: Path) -> bool:
    """Return whether the process of a file has closed it, or has ended."""
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True
