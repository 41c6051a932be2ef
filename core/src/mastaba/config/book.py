"""Named resources from a directory, each loaded once: tile matrix sets and styles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from mastaba.config.documents import DocumentReader, started_at
from mastaba.config.faults import Faults, FileFaults, UnusableError

T = TypeVar("T")

_SUFFIXES = ("", ".json", ".yaml", ".yml")


class Book(Generic[T]):
    """Loader of resources by identifier, which is the file stem.

    Args:
        directory: path as configured; a trailing slash is dropped.
        kind: name of the schema.
        make: creates the resource from identifier, validated document and file name; if the
            document cannot be used, it records why and returns None.
        known: resources loaded earlier, which are not read again.
    """

    def __init__(
        self,
        directory: str,
        kind: str,
        make: Callable[[str, dict[str, Any], str, Faults], T | None],
        reader: DocumentReader,
        known: Mapping[str, T],
    ) -> None:
        self._directory = directory.rstrip("/")
        self._kind = kind
        self._make = make
        self._reader = reader
        self._loaded: dict[str, T | None] = dict(known)

    @property
    def loaded(self) -> Mapping[str, T]:
        """Resources loaded so far, by identifier."""
        return MappingProxyType(
            {key: value for key, value in sorted(self._loaded.items()) if value is not None}
        )

    def get(self, identifier: str, named_by: str) -> T:
        """Return a resource. Why it is unusable is recorded on the first call only."""
        if identifier not in self._loaded:
            self._loaded[identifier] = None
            self._loaded[identifier] = self._load(identifier, named_by)
        found = self._loaded[identifier]
        if found is None:
            raise UnusableError
        return found

    def _load(self, identifier: str, named_by: str) -> T | None:
        reader, kind = self._reader, self._kind.replace("_", " ")
        if not identifier or any(c in identifier for c in '<>/\\"') or not identifier.isprintable():
            reason = f"{identifier!r} cannot be the name of a {kind}; it is used by {named_by}"
            FileFaults(reader.faults, self._directory or "/").refuse("$", reason, "rename it")
        base = f"{self._directory}/{identifier}"
        paths = (reader.path(base + suffix, base, "$") for suffix in _SUFFIXES)
        found = next(filter(reader.exists, paths), None)
        if found is None:
            reason = f"there is no such {kind}; it is named by {named_by}{started_at(base)}"
            remedy = f"add {base}.json, or correct the name"
            FileFaults(reader.faults, base).refuse("$", reason, remedy)
        document = reader.document(found, named_by)
        document = reader.validated(document, self._kind, str(found))
        return self._make(identifier, document, str(found), reader.faults)
