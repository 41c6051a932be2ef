"""Stores of the output of a build: directories, and prefixes in object stores."""

from __future__ import annotations

import errno
import glob
import hashlib
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, NamedTuple, TypeVar

from mastaba.api.storages import ByteRange, Environment, FileStorage, ObjectRead, ObjectStat
from mastaba.api.writable_storages import WritableStorage
from mastaba.errors import (
    MastabaError,
    ObjectNotFoundError,
    StorageError,
    StorageUnavailableError,
)
from mastaba_build.errors import OutputError
from mastaba_http import Pages

T = TypeVar("T")

_SYMBOLIC = b"SYMLINK#"
_PIECE = 64 * 1024 * 1024
_ATTEMPTS = 3


class FileWriter(FileStorage, WritableStorage):
    """Files by path, written under a temporary name, synchronised, then renamed.

    Its methods raise OSError if a file cannot be written.
    """

    writer: ClassVar[str | None] = "mastaba_build.output.storage:FileWriter"

    def write(self, key: str, data: bytes, *, only_if_absent: bool = False) -> str | None:
        return self._write(Path(key), data, only_if_absent=only_if_absent, sync=True)

    def write_temporary(self, key: str, data: bytes) -> None:
        """Write a file that may be lost when the machine fails."""
        self._write(Path(key), data, only_if_absent=False, sync=False)

    def _write(self, path: Path, data: bytes, *, only_if_absent: bool, sync: bool) -> str:
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
        try:
            _make_directory(path.parent)
            with open(temporary, "xb") as stream:
                stream.write(data)
                stream.flush()
                if sync:
                    os.fsync(stream.fileno())
                facts = os.fstat(stream.fileno())
            if only_if_absent:
                os.link(temporary, path)
                temporary.unlink()
            else:
                temporary.replace(path)
        except BaseException:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
        # As FileStorage: equal for copies of a pyramid.
        return f"{facts.st_mtime_ns:x}-{facts.st_size:x}"

    def read_whole(self, key: str) -> bytes:
        """Return a file without keeping it open."""
        return Path(key).read_bytes()

    def link(self, key: str, target: str) -> None:
        """Create or replace a relative symbolic link."""
        path = Path(key)
        _make_directory(path.parent)
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
        # Without symbolic links: ".." in a link starts at the real directory.
        real = os.path.realpath(target), os.path.realpath(path.parent)
        temporary.symlink_to(os.path.relpath(*real))
        temporary.replace(path)

    def delete(self, key: str) -> None:
        Path(key).unlink(missing_ok=True)

    def list(self, prefix: str) -> Iterator[str]:
        parent, _, start = prefix.rpartition("/")
        for folder, directories, names in os.walk(parent):
            if folder == parent:
                directories[:] = [name for name in directories if name.startswith(start)]
                names = [name for name in names if name.startswith(start)]
            for name in names:
                yield f"{folder}/{name}"


class Written(NamedTuple):
    """An object that was written: MD5 of its bytes, and its version if the storage has versions."""

    md5: str
    version: str | None


class OutputStore:
    """A directory, or the objects of a container whose keys begin alike.

    Reads, pages of lists, and writes that get no answer are repeated (OBJECT_READ_ATTEMPTS,
    OBJECT_WRITE_ATTEMPTS, both 3 here; OBJECT_ATTEMPTS_WAIT).

    Args:
        storage: open container.
        prefix: directory, or start of the keys; without a slash at its end.
        environment: variables that set the number of attempts.
    """

    def __init__(
        self, storage: WritableStorage, prefix: str, environment: Environment | None = None
    ) -> None:
        environment = environment or Environment()
        self._environment = environment
        self._storage = storage
        self._prefix = f"{prefix}/" if prefix else ""
        self._reads = max(1, environment.integer("OBJECT_READ_ATTEMPTS", _ATTEMPTS))
        self._writes = max(1, environment.integer("OBJECT_WRITE_ATTEMPTS", _ATTEMPTS))
        self._wait = max(0, environment.integer("OBJECT_ATTEMPTS_WAIT", 5))

    @classmethod
    def of_directory(cls, directory: Path) -> OutputStore:
        """Return a directory of this machine."""
        return cls(FileWriter(), str(directory))

    def below(self, name: str) -> OutputStore:
        """Return the place below a directory or a prefix of this one."""
        return OutputStore(self._storage, self._prefix + name, self._environment)

    @property
    def largest_object(self) -> int | None:
        """Bytes of the largest object that can be written; None if there is no such limit."""
        return self._attempt(1, lambda: self._storage.largest_object)

    def write(self, key: str, data: bytes | bytearray, *, only_if_absent: bool = False) -> Written:
        """Write a whole object; readers see the old or the new one.

        Raises:
            FileExistsError: it exists, and ``only_if_absent`` is true.
            OutputError: it cannot be written.
        """
        whole = bytes(data)
        version = self._attempt(
            self._writes,
            lambda: self._storage.write(self._prefix + key, whole, only_if_absent=only_if_absent),
        )
        return Written(hashlib.md5(data, usedforsecurity=False).hexdigest(), version)

    def write_temporary(self, key: str, data: bytes) -> None:
        """Write an object of a directory that may be lost when the machine fails.

        Raises:
            OutputError: it cannot be written.
        """
        assert isinstance(self._storage, FileWriter)
        files = self._storage
        self._attempt(1, lambda: files.write_temporary(self._prefix + key, data))

    def link(self, key: str, target: str) -> None:
        """Make a key lead to another one of this store. Raises OutputError.

        Files become relative symbolic links, others objects that name the target.
        """
        if isinstance(self._storage, FileWriter):
            files = self._storage
            self._attempt(1, lambda: files.link(self._prefix + key, self._prefix + target))
            return
        container = self._storage.container.partition("@")[0]
        self.write(key, _SYMBOLIC + f"{container}/{self._prefix}{target}".encode())

    def delete(self, key: str) -> None:
        """Delete an object or a link, if it exists. Raises OutputError."""
        self._attempt(self._writes, lambda: self._storage.delete(self._prefix + key))

    def delete_all(self, prefix: str) -> None:
        """Delete all objects whose keys begin with a prefix. Raises OutputError."""
        for key in list(self.list(prefix)):
            self.delete(key)
        self.remove_empty(prefix)

    def remove_empty(self, prefix: str) -> None:
        """Remove the empty directories below a prefix; stores have no directories."""
        if isinstance(self._storage, FileWriter):
            _remove_empty_directories(Path(self._prefix + prefix))

    def remove_leftovers(self, prefix: str) -> None:
        """Remove what a killed build has left: files under temporary names."""
        if isinstance(self._storage, FileWriter):
            for path in Path(self._prefix + prefix).rglob(".*.tmp"):
                path.unlink(missing_ok=True)

    def remove_leftovers_of(self, key: str, *, age: float = 0.0) -> None:
        """Remove what killed processes have left of writes of one object.

        Args:
            age: seconds; younger files stay, because another process may still write them.
        """
        if isinstance(self._storage, FileWriter):
            path = Path(self._prefix + key)
            for temporary in path.parent.glob(f".{glob.escape(path.name)}.????????.tmp"):
                with suppress(FileNotFoundError):
                    if time.time() - temporary.stat().st_mtime >= age:
                        temporary.unlink()

    def list(self, prefix: str) -> Iterator[str]:
        """Yield the keys that begin with a prefix, links included. Raises OutputError."""
        return (key for key, _ in self.list_versions(prefix))

    def list_versions(self, prefix: str) -> Iterator[tuple[str, str | None]]:
        """Yield keys as `list`, each with its version; None where the storage does not list it."""
        found = self._storage.list_versions(self._prefix + prefix)
        # Other iterators end with an error, and their lists would look complete.
        attempts = self._reads if isinstance(found, Pages) else 1
        while (one := self._attempt(attempts, lambda: next(found, None))) is not None:
            yield one[0].removeprefix(self._prefix), one[1]

    def names(self, prefix: str) -> Iterator[str]:
        """Yield the keys without a slash that begin with a prefix. Raises OutputError."""
        if not isinstance(self._storage, FileWriter):
            yield from (key for key in self.list(prefix) if "/" not in key)
            return
        place = self._prefix or "."
        for name in self._attempt(1, lambda: os.listdir(place) if os.path.isdir(place) else []):
            if name.startswith(prefix):
                yield name

    def has(self, prefix: str) -> bool:
        """Return whether a key begins with a prefix. Raises OutputError."""
        return next(self.list(prefix), None) is not None

    def stat(self, key: str) -> ObjectStat | None:
        """Return facts about an object; None if it does not exist. Raises OutputError."""
        try:
            return self._attempt(self._reads, lambda: self._storage.stat(self._prefix + key))
        except FileNotFoundError:
            return None

    def read(self, key: str) -> bytes:
        """Return an object of any size. A link to a file leads to its target.

        Raises:
            FileNotFoundError: it does not exist.
            OutputError: it cannot be read.
        """
        if isinstance(self._storage, FileWriter):
            files = self._storage
            return self._attempt(1, lambda: files.read_whole(self._prefix + key))
        pieces: list[bytes] = []
        version = None
        while not pieces or len(pieces[-1]) == _PIECE:
            part = ByteRange(_PIECE * len(pieces), _PIECE)
            read = self._attempt(
                self._reads,
                lambda part=part, version=version: self._storage.read(  # type: ignore[misc]
                    self._prefix + key, part, version
                ),
            )
            pieces.append(read.data)
            version = read.version
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def read_start(self, key: str, length: int) -> ObjectRead:
        """Return the first bytes of an object, fewer if it is shorter. Raises as `read`."""
        start = ByteRange(0, length)
        return self._attempt(self._reads, lambda: self._storage.read(self._prefix + key, start))

    def read_if_exists(self, key: str) -> bytes | None:
        """Return an object, or None if it does not exist. Raises OutputError."""
        try:
            return self.read(key)
        except FileNotFoundError:
            return None

    def close(self) -> None:
        self._storage.close()

    def _attempt(self, attempts: int, call: Callable[[], T]) -> T:
        for attempt in range(1, attempts + 1):
            try:
                return call()
            except StorageUnavailableError as error:
                if attempt == attempts:
                    raise OutputError(f"the output cannot be used: {error}") from None
                time.sleep(self._wait)
            except ObjectNotFoundError as error:
                raise FileNotFoundError(str(error)) from None
            except (StorageError, MastabaError) as error:
                raise OutputError(f"the output cannot be used: {error}") from None
            except (FileExistsError, FileNotFoundError):
                raise
            except OSError as error:
                place = error.filename or "the output cannot be written"
                raise OutputError(f"{place}: {error.strerror}") from None
        raise AssertionError("unreachable: the last attempt returns or raises")


def _make_directory(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        # A file is in the way; callers would think that the object exists.
        raise NotADirectoryError(errno.ENOTDIR, "is not a directory", error.filename) from None


def _remove_empty_directories(directory: Path) -> None:
    for folder, _, _ in os.walk(directory, topdown=False):
        if stat.S_ISDIR(os.lstat(folder).st_mode) and not os.listdir(folder):
            os.rmdir(folder)
