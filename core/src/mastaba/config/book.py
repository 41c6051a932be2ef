"""Named resources from a directory, each loaded once: tile matrix sets and styles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from mastaba.config.documents import DocumentReader, started_at
from mastaba.config.faults import Faults
from mastaba.config.schema import SchemaValidator
from mastaba.storage.path import ResourcePath

T = TypeVar("T")

_SUFFIXES = ("", ".json", ".yaml", ".yml")


class Book(Generic[T]):
    """Loader of resources by identifier, which is the file stem.

    Args:
        directory: path as configured; a trailing slash is dropped.
        kind: kind of resource, for messages.
        make: creates the resource from identifier, validated document and file name; if the
            document cannot be used, it records why and returns None.
        known: resources loaded earlier, which are not read again.
    """

    def __init__(
        self,
        directory: str,
        kind: str,
        validator: SchemaValidator,
        make: Callable[[str, dict[str, Any], str, Faults], T | None],
        reader: DocumentReader,
        faults: Faults,
        known: Mapping[str, T] = MappingProxyType({}),
    ) -> None:
        self._directory = directory.removesuffix("/") or "/"
        self._kind = kind
        self._validator = validator
        self._make = make
        self._reader = reader
        self._faults = faults
        self._loaded: dict[str, T | None] = dict(known)

    @property
    def loaded(self) -> Mapping[str, T]:
        """Resources loaded so far, by identifier."""
        return MappingProxyType(
            {key: value for key, value in sorted(self._loaded.items()) if value is not None}
        )

    def get(self, identifier: str, named_by: str) -> T | None:
        """Return a resource, or None; the reason is recorded on the first call only.

        Args:
            named_by: key and file that name it.
        """
        if identifier not in self._loaded:
            self._loaded[identifier] = self._load(identifier, named_by)
        return self._loaded[identifier]

    def _load(self, identifier: str, named_by: str) -> T | None:
        if not identifier or any(c in identifier for c in '<>/\\"') or not identifier.isprintable():
            self._faults.error(
                self._directory,
                "$",
                f"{identifier!r} cannot be the name of a {self._kind}; it is used by {named_by}",
                "rename it",
            )
            return None
        base = f"{self._directory.removesuffix('/')}/{identifier}"
        for suffix in _SUFFIXES:
            try:
                path = ResourcePath.parse(base + suffix)
            except ValueError as error:
                self._faults.error(base, "$", str(error), "correct the configured directory")
                return None
            if self._reader.exists(path):
                break
        else:
            self._faults.error(
                base,
                "$",
                f"there is no such {self._kind}; it is named by {named_by}{started_at(base)}",
                f"add {base}.json, or correct the name",
            )
            return None
        document = self._reader.document(path, named_by)
        if document is None:
            return None
        document = self._validator.validate(document, str(path), self._faults)
        return (
            None if document is None else self._make(identifier, document, str(path), self._faults)
        )
