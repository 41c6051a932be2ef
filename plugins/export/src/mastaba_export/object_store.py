"""Outputs in object stores: written to a file here, whose parts are uploaded as it grows."""

from __future__ import annotations

import ctypes
import importlib
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from mastaba.api.storages import Environment, ResourcePath
from mastaba.errors import (
    MastabaError,
    ObjectNotFoundError,
    StorageUnavailableError,
)
from mastaba_export.errors import (
    DestinationError,
    ExportTooLargeError,
    RemovedUploadError,
    UploadError,
    WriteError,
)
from mastaba_export.journal import Journal

if TYPE_CHECKING:
    from mastaba.api.storages import Storage
    from mastaba.api.writable_storages import WritableStorage

T = TypeVar("T")

LARGEST_WHOLE: Final = 128 * 1024 * 1024
"""Bytes of an object where a storage has no parts: it is in memory when it is written."""

_PART: Final = 32 * 1024 * 1024
"""Bytes of a part; larger in objects that would have too many."""
_AT_A_TIME: Final = 2
"""Parts that are in memory and uploaded at a time."""
_ATTEMPTS: Final = 3
_WAIT: Final = 5
_KEEP_SIZE, _PUNCH_HOLE = 1, 2
"""Flags of fallocate(2)."""
_STATE: Final = "upload"
_COMPLETING: Final = "completing"


@dataclass(frozen=True, slots=True)
class ObjectTarget:
    """An object that an export becomes.

    Attributes:
        storage: name of the driver.
        container: bucket, container or pool.
        key: of the object.
        writer: class that writes, as ``package.module:Class``.
    """

    storage: str
    container: str
    key: str
    writer: str

    @classmethod
    def parse(cls, text: str, driver: Callable[[str], type[Storage]]) -> ObjectTarget:
        """Return the object of ``s3://bucket/key`` and the like.

        Args:
            driver: returns a storage driver by its name.

        Raises:
            DestinationError: the driver is not installed or cannot write, or the name is invalid.
        """
        scheme, _, rest = text.partition("://")
        container, _, key = rest.partition("/")
        try:
            found = driver(scheme)
        except (KeyError, MastabaError):
            raise DestinationError(
                f"no storage driver {scheme!r} is installed; try "
                f"pip install mastaba-storage-{scheme}"
            ) from None
        if found.writer is None:
            raise DestinationError(f"the storage driver {scheme!r} only reads")
        if not container or not key.rpartition("/")[2]:
            raise DestinationError(f"{text!r} is not of the form {scheme}://container/name")
        return cls(scheme, container, key, found.writer)

    @property
    def name(self) -> str:
        """The last part of the key."""
        return self.key.rpartition("/")[2]

    def beside(self, key: str) -> ObjectTarget:
        """Return another object of the container."""
        return ObjectTarget(self.storage, self.container, key, self.writer)

    def open(self) -> WritableStorage:
        """Return the container, opened.

        Raises:
            UploadError: it cannot be opened now.
            DestinationError: it cannot be opened.
        """
        module, _, name = self.writer.partition(":")
        try:
            writer: Any = getattr(importlib.import_module(module), name)
            opened: WritableStorage = writer.open(self.container, Environment())
        except (ImportError, AttributeError) as error:
            raise DestinationError(f"{self.writer} cannot be imported: {error}") from None
        except StorageUnavailableError as error:
            raise UploadError(f"{self} cannot be opened: {error}") from None
        except MastabaError as error:
            raise DestinationError(f"{self} cannot be opened: {error}") from None
        return opened

    def __str__(self) -> str:
        return str(ResourcePath(self.storage, self.container, self.key))


class Upload:
    """The upload of a file that still grows.

    Parts that no longer change are uploaded, and their room on the disk is given back. The object
    exists when all parts are there. If the storage has no parts, it is written as a whole.

    Args:
        target: the object.
        part: path of the file.
        journal: keeps what was uploaded.
    """

    def __init__(self, target: ObjectTarget, part: Path, journal: Journal) -> None:
        self._target = target
        self._part = part
        self._journal = journal
        environment = Environment()
        self._attempts = max(1, environment.integer("OBJECT_WRITE_ATTEMPTS", _ATTEMPTS))
        self._wait = max(0, environment.integer("OBJECT_ATTEMPTS_WAIT", _WAIT))
        self._id = ""
        self._size = _PART
        self._tags: dict[int, str] = {}

    @cached_property
    def _storage(self) -> WritableStorage:
        return self._target.open()

    @property
    def has_parts(self) -> bool:
        """Whether the storage has objects in parts."""
        return self._storage.most_parts > 0

    @property
    def largest(self) -> int | None:
        """Bytes that the object may have; None if they depend on its estimate."""
        if self.has_parts:
            return None
        known = self._attempt(lambda: self._storage.largest_object)
        return LARGEST_WHOLE if known is None else min(known, LARGEST_WHOLE)

    @property
    def kept_from(self) -> int:
        """First byte from which on the file may still be on the disk."""
        gone = [number for number in self._tags if number > 0]
        return (max(gone) + 1) * self._size if gone else 0

    def start(self, expected: int) -> None:
        """Begin an upload.

        Args:
            expected: bytes of the file, about.

        Raises:
            DestinationError: the object exists.
            ExportTooLargeError: it would be too large for the storage.
            WriteError: the storage cannot be used.
        """
        if self._exists():
            raise DestinationError(f"{self._target} exists; remove it, or choose another name")
        if self.largest is not None:
            self._check_size(expected)
            return
        if self._id:
            return
        # A third more, if the estimate is wrong.
        self._size = max(_PART, -(-expected // (self._storage.most_parts * 3 // 4)))
        self._id = self._attempt(lambda: self._storage.begin_parts(self._target.key))
        self._note()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on with an interrupted upload.

        Args:
            state: of the journal.

        Raises:
            DestinationError: the journal belongs to an upload to another object.
        """
        known = state.get(_STATE)
        if known is None:
            return
        if known["target"] != str(self._target):
            raise DestinationError(
                f"{self._part.name} belongs to an export to {known['target']}; give the same "
                "output, or remove it and its journal"
            )
        self._id, self._size = known["id"], known["size"]
        self._tags = {int(number): tag for number, tag in known["tags"].items()}

    def advance(self, first: int, end: int) -> None:
        """Upload the parts between two positions, whose bytes no longer change.

        Raises:
            WriteError: the storage cannot be used.
        """
        if self._id:
            self._upload(range(-(-first // self._size), end // self._size), end)

    def complete(self) -> int:
        """Upload what is missing of the file, complete the object, and return its bytes.

        Raises:
            DestinationError: the object exists now, and is another one.
            ExportTooLargeError: it is too large for the storage.
            WriteError: the storage cannot be used.
        """
        if is_completing(self._journal.state()):
            # The process may have died after the object was completed.
            there = self._size_there()
            if there is not None and (
                not self._part.exists() or there == self._part.stat().st_size
            ):
                return there
        elif self._exists():
            raise DestinationError(f"{self._target} exists now; remove it, and resume the export")
        size = self._part.stat().st_size
        if self._id:
            count = -(-size // self._size)
            self._upload(range(count), size)
            self._journal.commit({_COMPLETING: True})
            self._complete([self._tags[number] for number in range(count)], size)
        else:
            self._check_size(size)
            data = self._part.read_bytes()
            self._journal.commit({_COMPLETING: True})
            self._attempt(lambda: self._storage.write(self._target.key, data))
        if self._size_there() != size:
            raise UploadError(f"{self._target} does not have the {size:,} bytes that were written")
        return size

    def abandon(self) -> None:
        """Remove what was uploaded of an object that was not completed."""
        if self._id:
            self._attempt(lambda: self._storage.abandon_parts(self._target.key, self._id))
            self._id = ""

    def close(self) -> None:
        """Close the container, if it was opened."""
        if "_storage" in self.__dict__:
            self._storage.close()

    def _complete(self, tags: list[str], size: int) -> None:
        key = self._target.key
        try:
            self._attempt(lambda: self._storage.complete_parts(key, self._id, tags))
        except DestinationError:
            # If an answer was lost, the object is complete, and the upload is unknown since.
            if self._size_there() != size:
                raise

    def _upload(self, numbers: range, end: int) -> None:
        missing = [number for number in numbers if number not in self._tags]
        with self._part.open("r+b") as file, ThreadPoolExecutor(_AT_A_TIME) as pool:
            for place in range(0, len(missing), _AT_A_TIME):
                group = missing[place : place + _AT_A_TIME]
                done = pool.map(lambda number: self._upload_part(file.fileno(), number, end), group)
                self._tags |= dict(zip(group, done, strict=True))
                self._note()
                for number in group:
                    if number:
                        _punch(file.fileno(), number * self._size, self._size)

    def _upload_part(self, descriptor: int, number: int, end: int) -> str:
        start = number * self._size
        data = _read(descriptor, start, min(start + self._size, end))
        key, upload = self._target.key, self._id
        return self._attempt(lambda: self._storage.write_part(key, upload, number + 1, data))

    def _note(self) -> None:
        tags = {str(number): tag for number, tag in self._tags.items()}
        known = {"target": str(self._target), "id": self._id, "size": self._size, "tags": tags}
        self._journal.commit({_STATE: known})

    def _check_size(self, size: int) -> None:
        most = self.largest
        if most is not None and size > most:
            raise ExportTooLargeError(
                f"the output has about {size:,} bytes, and an object of {self._target.storage} at "
                f"most {most:,}: write it to a file",
                size,
                most,
            )

    def _exists(self) -> bool:
        return self._size_there() is not None

    def _size_there(self) -> int | None:
        def size() -> int | None:
            try:
                return self._storage.stat(self._target.key).size
            except ObjectNotFoundError:
                return None

        return self._attempt(size)

    def _attempt(self, call: Callable[[], T]) -> T:
        for attempt in range(1, self._attempts + 1):
            try:
                return call()
            except DestinationError:
                raise  # the container cannot be opened
            except ObjectNotFoundError:
                raise RemovedUploadError(
                    f"{self._target}: the store has removed the unfinished upload; remove "
                    f"{self._part.name} and {self._journal.path.name}, and export again"
                ) from None
            except StorageUnavailableError as error:
                if attempt == self._attempts:
                    raise UploadError(f"{self._target} cannot be written: {error}") from None
                time.sleep(self._wait)
            except MastabaError as error:
                raise UploadError(f"{self._target} cannot be written: {error}") from None
        raise AssertionError("unreachable: the last attempt returns or raises")


def upload(target: ObjectTarget, path: Path) -> int:
    """Upload a file, or go on with its upload, and return its bytes; errors as those of `Upload`.

    Its room on the disk is given back meanwhile.
    """
    known = path.with_name(f"{path.name}.journal")
    with Journal(known) as journal, closing(Upload(target, path, journal)) as uploading:
        state = journal.state()
        uploading.restore(state)
        if not state:
            uploading.start(path.stat().st_size)
        size = uploading.complete()
    known.unlink()
    return size


def is_uploaded(state: Mapping[str, Any]) -> bool:
    """Return whether the export with this state in its journal becomes an object."""
    return _STATE in state


def is_completing(state: Mapping[str, Any]) -> bool:
    """Return whether the object with this state in its journal may be complete."""
    return _COMPLETING in state


def abandon(target: ObjectTarget, part: Path, journal: Journal) -> None:
    """Remove what an unfinished export has uploaded."""
    with closing(Upload(target, part, journal)) as upload:
        upload.restore(journal.state())
        upload.abandon()


def _read(descriptor: int, start: int, end: int) -> bytes:
    data = bytearray()
    while start < end:
        piece = os.pread(descriptor, end - start, start)
        if not piece:
            raise WriteError("the output is shorter than it was")
        data += piece
        start += len(piece)
    return bytes(data)


def _punch(descriptor: int, start: int, length: int) -> None:
    """Give back the room of some bytes of a file, where the file system can."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "fallocate64"):
        arguments = map(ctypes.c_int64, (start, length))
        libc.fallocate64(descriptor, _PUNCH_HOLE | _KEEP_SIZE, *arguments)
