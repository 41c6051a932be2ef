"""Paths of descriptors and other resources: storage, container and key (pyramid.md section 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class ResourcePath:
    """The location of one object.

    Attributes:
        storage: driver name in lower case; ``file`` for plain paths.
        container: bucket (possibly ``bucket@cluster``), pool or container; empty for files.
        key: object name or file path.
    """

    storage: str
    container: str
    key: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Split a path such as ``s3://bucket@cluster/a/b.json`` or ``/data/b.json``.

        Raises:
            ValueError: the container or the name is missing. Whether the driver exists is not
                checked here, but by the storage pool.
        """
        prefix, separator, rest = text.partition("://")
        if not separator:
            prefix, rest = "file", text
        if prefix == "file":
            if not rest:
                raise ValueError("the path is empty")
            return cls("file", "", rest)
        container, separator, key = rest.partition("/")
        if not container or not key:
            raise ValueError(f"{text!r} is not of the form {prefix}://container/name")
        return cls(prefix, container, key)

    def __str__(self) -> str:
        return (
            self.key if self.storage == "file" else f"{self.storage}://{self.container}/{self.key}"
        )

    @property
    def directory(self) -> str:
        """Parent directory of a file, without trailing slash; ``.`` if the path has none."""
        return self.key.rpartition("/")[0] or ("/" if self.key.startswith("/") else ".")

    @property
    def stem(self) -> str:
        """Base name without ``.json``, ``.yaml`` or ``.yml``: the name of the described item."""
        name = self.key.rpartition("/")[2]
        stem, dot, suffix = name.rpartition(".")
        return stem if dot and suffix.lower() in ("json", "yaml", "yml") else name
