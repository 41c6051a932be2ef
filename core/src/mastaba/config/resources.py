"""What several layers share, each loaded once: pyramids, tile matrix sets and styles."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from mastaba.config.documents import DocumentReader
from mastaba.config.identifiers import problem_of, shortened
from mastaba_documents.faults import FileFaults, UnusableError
from mastaba_documents.reading import started_at

K = TypeVar("K")
T = TypeVar("T")

_SUFFIXES = ("", ".json", ".yaml", ".yml")
_MOST_NAMES = 1000


class LoadedOnce(ABC, Generic[K, T]):
    """Loader of items, each at its first use.

    Args:
        known: items loaded earlier, which are not loaded again.
    """

    def __init__(self, known: Mapping[K, T] | None = None) -> None:
        self._loaded: dict[K, T | None] = dict(known or {})

    def get(self, key: K, named_by: str) -> T:
        """Return an item, which a file names.

        Raises:
            UnusableError: it cannot be used. The reason is recorded at the first use only.
        """
        if key not in self._loaded:
            self._loaded[key] = None
            self._loaded[key] = self._load(key, named_by)
        found = self._loaded[key]
        if found is None:
            raise UnusableError
        return found

    @abstractmethod
    def _load(self, key: K, named_by: str) -> T:
        """Load an item, or record why it is unusable and raise `UnusableError`."""


class ResourceLoader(LoadedOnce[str, T]):
    """Loader of resources by identifier, which is the file stem.

    Args:
        directory: path as configured; a trailing slash is dropped.
        kind: name of the schema.
        make: creates the resource from identifier and validated document.
        reader: reads the documents.
        known: resources loaded earlier.
    """

    def __init__(
        self,
        directory: str,
        kind: str,
        make: Callable[[str, dict[str, Any], FileFaults], T],
        reader: DocumentReader,
        known: Mapping[str, T] | None,
    ) -> None:
        super().__init__(known)
        self._directory = directory.rstrip("/")
        self._kind = kind
        self._make = make
        self._reader = reader

    @property
    def loaded(self) -> Mapping[str, T]:
        """Resources loaded so far, by identifier."""
        found = {key: value for key, value in sorted(self._loaded.items()) if value is not None}
        return MappingProxyType(found)

    def add(self, key: str, item: T) -> T | None:
        """Return the resource of the document that there is, None if it is invalid; or add one."""
        if key not in self._loaded:
            self._loaded[key] = None if key in self.names() else item
            with suppress(UnusableError):
                self._loaded[key] = self._load(key, "", self._reader.silent())
        return self._loaded[key]

    def silent(self, key: str) -> T:
        """Return a resource as `get` does, but record no problem, and publish it only if used."""
        known = self._loaded.get(key)
        return known or self._load(key, "", self._reader.silent())

    def names(self) -> list[str]:
        """Return the identifiers of what is loaded, and of the files of a local directory."""
        found = set(self.loaded)
        with suppress(OSError):
            for name in os.listdir(self._directory or "/"):
                stem, suffix = os.path.splitext(name)
                if suffix in _SUFFIXES and len(found) < _MOST_NAMES:
                    found.add(stem)
        return sorted(found)

    def _load(self, key: str, named_by: str, reader: DocumentReader | None = None) -> T:
        reader, kind = reader or self._reader, self._kind.replace("_", " ")
        problem = problem_of(key)
        if problem is not None or not _is_file_name(key):
            shown, why = (repr(key), "") if problem is None else (shortened(key), f": {problem}")
            reason = f"{shown} cannot be the name of a {kind}{why}; it is used by {named_by}"
            FileFaults(reader.faults, self._directory or "/").refuse("$", reason, "rename it")
        base = f"{self._directory}/{key}"
        paths = (reader.path(base + suffix, base, "$") for suffix in _SUFFIXES)
        found = next(filter(reader.exists, paths), None)
        if found is None:
            reason = f"there is no such {kind}; it is named by {named_by}{started_at(base)}"
            remedy = f"add {base}.json, or correct the name"
            FileFaults(reader.faults, base).refuse("$", reason, remedy)
        document = reader.validated(reader.document(found, named_by), self._kind, str(found))
        return self._make(key, document, FileFaults(reader.faults, str(found)))


def _is_file_name(key: str) -> bool:
    return bool(key) and key.isprintable() and not any(c in key for c in '<>/\\"')
