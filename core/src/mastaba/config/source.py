"""The documents from which a configuration was read, watched for changes."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from mastaba.errors import AccessDeniedError, MastabaError, ObjectNotFoundError
from mastaba.storage.base import ObjectRead, ObjectStat
from mastaba.storage.path import ResourcePath
from mastaba.storage.pool import StoragePool

_SETTLING: Final = 0.5
"""Seconds; a set of documents that did not change for as long is complete."""
_REQUESTS: Final = 8
_ABSENT: Final = ""
_DENIED: Final = "denied"


class Source:
    """The documents that one load has read or missed.

    Attributes:
        versions: of each document; empty if there is none, None if it could not be read.
    """

    def __init__(self) -> None:
        self.versions: dict[ResourcePath, str | None] = {}

    def read(self, path: ResourcePath, found: ObjectRead) -> None:
        """Record that a document was read."""
        self.versions[path] = _version(found, len(found.data))

    def failed(self, path: ResourcePath, error: MastabaError) -> None:
        """Record that a document could not be read."""
        self.versions[path] = _ABSENT if isinstance(error, ObjectNotFoundError) else None

    def missed(self, path: ResourcePath) -> None:
        """Record that there was no such document."""
        self.versions.setdefault(path, _ABSENT)

    def add(self, other: Source) -> None:
        """Watch also what another load has read."""
        self.versions |= other.versions

    def has_changed(self, pool: StoragePool) -> bool:
        """Return whether documents differ from those that were read.

        Raises:
            MastabaError: a storage does not answer.
        """
        return self._changes(self._versions_now(pool))

    def await_change(
        self, pool: StoragePool, period: float, report: Callable[[MastabaError | None], None]
    ) -> None:
        """Return when documents differ from those that were read, and change no more.

        Args:
            period: seconds between two checks of all documents.
            report: called after each check, with the error if a storage does not answer.
        """
        while True:
            time.sleep(period)
            try:
                found = self._versions_now(pool)
                while self._changes(found):
                    # More documents may follow.
                    time.sleep(min(period, _SETTLING))
                    before, found = found, self._versions_now(pool)
                    if found == before:
                        return
            except MastabaError as error:
                report(error)
            else:
                report(None)
                # From now on, also a document that could not be read is compared.
                self.versions = dict(found)

    def _changes(self, found: dict[ResourcePath, str]) -> bool:
        known = self.versions
        return any(known[path] not in (None, version) for path, version in found.items())

    def _versions_now(self, pool: StoragePool) -> dict[ResourcePath, str]:
        remote = [path for path in self.versions if path.storage != "file"]
        found = {path: version_of(pool, path) for path in self.versions if path.storage == "file"}
        # Starts no more threads than there are paths.
        with ThreadPoolExecutor(_REQUESTS) as threads:
            looks = threads.map(lambda path: version_of(pool, path), remote)
            return found | dict(zip(remote, looks, strict=True))


def version_of(pool: StoragePool, path: ResourcePath) -> str:
    """Return the version of a document, as `Source.versions`.

    Raises:
        MastabaError: the storage does not answer.
    """
    try:
        found = pool.open_path(path).stat(path.key)
    except ObjectNotFoundError:
        return _ABSENT
    except AccessDeniedError:
        return _DENIED
    return _version(found, found.size)


def _version(found: ObjectRead | ObjectStat, size: int) -> str:
    return found.version or f"{found.modified}-{size}"
