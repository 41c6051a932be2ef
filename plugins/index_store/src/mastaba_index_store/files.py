"""The files of an index store, shared by all processes of a node.

It contains what was read from slabs and from index packs (docs/storage/index-packs.md): one file
for the slabs of a pack. What it contains may be outdated: a tile read with the version of its
record confirms the record. An unreadable or damaged file or record counts as absent. Reads need no
lock: a checksum detects a record that is being written. Nothing is open or mapped between calls, so
forks, restarts and removed files need no care.

LMDB would map its file: a process that reads a truncated one is killed by SIGBUS.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from mastaba_writer.index_packs import (
    ENTRY_LENGTH,
    HEADER_LENGTH,
    IndexRecord,
    PackLayout,
    decode_record,
    encode_record,
    entry_of,
    is_pack,
    pack_entry,
)

logger = logging.getLogger(__name__)

# Non-blocking: opening a pipe would block the thread.
_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_USED_EVERY = 3600
"""Seconds after which the use of a file is recorded again."""


class PackDirectory:
    """A directory of index packs.

    Args:
        directory: created if it does not exist.
        capacity: bytes on the disk; the least recently used files are removed.

    Raises:
        OSError: the directory cannot be created or written, or other users can write in it.
    """

    def __init__(self, directory: str, capacity: int) -> None:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        facts = os.stat(directory)
        if facts.st_uid != os.geteuid() or facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise PermissionError(0, "other users can write in it", directory)
        if not os.access(directory, os.W_OK | os.X_OK):
            raise PermissionError(0, "it cannot be written", directory)
        self._directory = directory
        self._capacity = capacity
        self._unchecked: float = capacity

    def level(self, name: str, tile_count: int) -> PackFiles:
        """Return the files that belong to a level.

        Args:
            name: location of its slabs.
            tile_count: tiles of a slab.
        """
        return PackFiles(self, name, PackLayout.of(tile_count))

    def path(self, name: str) -> str:
        """Return the path of a file."""
        return os.path.join(self._directory, name)

    def wrote(self, length: int) -> None:
        """Remove files if the store may be too large after ``length`` more bytes."""
        self._unchecked += length
        if self._unchecked >= self._capacity / 64:
            self._unchecked = 0
            self._trim()

    def _trim(self) -> None:
        now, found, total = time.time(), [], 0
        with os.scandir(self._directory) as entries:
            for entry in entries:
                with suppress(OSError):
                    facts = entry.stat(follow_symlinks=False)
                    if entry.name.endswith(".tmp") and now - facts.st_mtime > _USED_EVERY:
                        os.unlink(entry.path)
                    elif stat.S_ISREG(facts.st_mode):
                        size = 512 * facts.st_blocks
                        found.append((facts.st_mtime, size, entry.path))
                        total += size
        for _, size, path in sorted(found):
            if total <= self._capacity:
                break
            with suppress(OSError):
                os.unlink(path)
            total -= size


class PackFiles:
    """The files of one level: the records of its slabs."""

    def __init__(self, directory: PackDirectory, name: str, layout: PackLayout) -> None:
        self.layout = layout
        self._directory = directory
        self._level = hashlib.blake2b(name.encode(), digest_size=16).digest()

    def get(self, slab_col: int, slab_row: int) -> IndexRecord | None:
        """Return the index of a slab, perhaps of an earlier version; None if it is unknown."""
        layout, pack = self.layout, self.layout.pack_of(slab_col, slab_row)
        try:
            file = os.open(self._path(pack), os.O_RDONLY | _FLAGS)
        except OSError:
            return None
        try:
            if os.pread(file, HEADER_LENGTH, 0) != layout.header(pack, self._level):
                return None
            at = layout.entry_offset(slab_col, slab_row)
            entry = entry_of(os.pread(file, ENTRY_LENGTH, at), layout)
            if entry is None:
                return None
            offset, capacity = entry
            data = os.pread(file, capacity, offset)
            if time.time() - os.fstat(file).st_mtime > _USED_EVERY:
                os.utime(file)
        except OSError:
            return None
        finally:
            os.close(file)
        return decode_record(data, slab_col, slab_row, layout)

    def put(self, slab_col: int, slab_row: int, record: IndexRecord) -> None:
        """Store the index of a slab; do nothing if the file cannot be written now."""
        data = encode_record(slab_col, slab_row, record)
        if data is None:
            return
        layout, at = self.layout, self.layout.entry_offset(slab_col, slab_row)
        try:
            with self._locked(layout.pack_of(slab_col, slab_row)) as file:
                entry = entry_of(os.pread(file, ENTRY_LENGTH, at), layout)
                if entry is not None and len(data) <= entry[1]:
                    os.pwrite(file, data, entry[0])
                    return
                end = max(os.fstat(file).st_size, layout.start)
                os.pwrite(file, data, end)
                os.pwrite(file, pack_entry(end, len(data)), at)
            self._directory.wrote(len(data))
        except BlockingIOError:
            pass  # Another process is writing in the file.
        except OSError as error:
            logger.debug("the index store cannot be written: %s", error)

    def has_pack(self, pack: tuple[int, int]) -> bool:
        """Return whether there is a file for the slabs of a pack, with or without their indices."""
        return os.path.exists(self._path(pack))

    def adopt(self, pack: tuple[int, int], data: bytes) -> None:
        """Store a pack; if the data is not one, a file without indices."""
        layout = self.layout
        records = data[HEADER_LENGTH:] if is_pack(data, layout, pack) else b""
        path = self._path(pack)
        temporary = f"{path}.{secrets.token_hex(4)}.tmp"
        try:
            file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, 0o600)
            with open(file, "wb") as stream:
                stream.write(layout.header(pack, self._level) + records)
                stream.truncate(max(layout.start, HEADER_LENGTH + len(records)))
            os.replace(temporary, path)
            self._directory.wrote(len(records))
        except OSError as error:
            logger.debug("the index store cannot be written: %s", error)
            with suppress(OSError):
                os.unlink(temporary)

    def _path(self, pack: tuple[int, int]) -> str:
        return self._directory.path(f"{self._level.hex()}_{pack[0]}_{pack[1]}")

    @contextmanager
    def _locked(self, pack: tuple[int, int]) -> Iterator[int]:
        """Open the file of a pack for writing; a file that is not one is made empty.

        Raises:
            BlockingIOError: another process is writing.
            OSError: the file cannot be written.
        """
        header = self.layout.header(pack, self._level)
        file = os.open(self._path(pack), os.O_RDWR | os.O_CREAT | _FLAGS, 0o600)
        try:
            # A lock of this open file: threads and forked processes exclude each other, too.
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.pread(file, HEADER_LENGTH, 0) != header:
                os.ftruncate(file, 0)
                os.ftruncate(file, self.layout.start)
                os.pwrite(file, header, 0)
            yield file
        finally:
            os.close(file)
