"""The header of an archive (PMTiles 3, section 3)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from mastaba.errors import ContainerFormatError
from mastaba_containers.metadata import MAX_METADATA

SIGNATURE: Final = b"PMTiles"
HEADER_LENGTH: Final = 127
HEAD_LENGTH: Final = 16384
"""Bytes that contain the header and, by the format, the root directory."""

_FIELDS: Final = struct.Struct("<7sB8Q3QBBBBBB4iB2i")
_LARGEST: Final = 1 << 62
"""Bytes; a larger offset or length is damage."""
_MAX_DIRECTORY: Final = 8 * 1024 * 1024
_MAX_ZOOM: Final = 31
_DEGREE: Final = 1e7
_CODINGS: Final = {1: "", 2: "gzip", 3: "br", 4: "zstd"}
TILE_TYPES: Final = {1: "mvt", 2: "png", 3: "jpeg", 4: "webp", 5: "avif", 6: "mlt"}


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the archive.

    Attributes:
        offset: first byte in the archive.
        length: bytes.
    """

    offset: int
    length: int

    @property
    def end(self) -> int:
        """The byte behind the section."""
        return self.offset + self.length


@dataclass(frozen=True, slots=True)
class Header:
    """What the header says.

    Attributes:
        root, metadata, leaves, tiles: sections.
        internal_coding: HTTP content coding of directories and metadata; empty for none, None if
            unknown.
        tile_coding: the same of tiles.
        tile_type: ``mvt``, ``png``, ``jpeg``, ``webp``, ``avif`` or ``mlt``; None if unknown.
        min_zoom, max_zoom: inclusive.
        bounds: west, south, east, north, degrees.
    """

    root: Section
    metadata: Section
    leaves: Section
    tiles: Section
    internal_coding: str | None
    tile_coding: str | None
    tile_type: str | None
    min_zoom: int
    max_zoom: int
    bounds: tuple[float, float, float, float]

    @classmethod
    def parse(cls, data: bytes) -> Header:
        """Return the header from the first bytes of an archive.

        Raises:
            ContainerFormatError: it is not a header of version 3, or contradicts itself.
        """
        if data.startswith(b"PM") and data[2:3] in (b"\1", b"\2"):
            raise _other_version(data[2])
        if not data.startswith(SIGNATURE):
            raise ContainerFormatError("it does not begin with PMTiles")
        if len(data) > 7 and data[7] != 3:
            raise _other_version(data[7])
        if len(data) < HEADER_LENGTH:
            raise ContainerFormatError(
                f"it ends after {len(data)} bytes, the header has {HEADER_LENGTH}"
            )
        _, _, *numbers = _FIELDS.unpack_from(data)
        root, metadata, leaves, tiles = (Section(*numbers[i : i + 2]) for i in (0, 2, 4, 6))
        internal, coding, kind, low, high = numbers[12:17]
        west, south, east, north = (number / _DEGREE for number in numbers[17:21])
        header = cls(
            *(root, metadata, leaves, tiles),
            _CODINGS.get(internal),
            _CODINGS.get(coding),
            TILE_TYPES.get(kind),
            *(low, high),
            (west, south, east, north),
        )
        header._check()
        return header

    @property
    def kind(self) -> tuple[object, ...]:
        """What a new version of the archive must not change while it is served."""
        return self.tile_type, self.tile_coding

    @property
    def limits(self) -> dict[str, object]:
        """What stays published when the archive is replaced, until a reload."""
        return {"zooms": (self.min_zoom, self.max_zoom), "bounds": self.bounds}

    def _check(self) -> None:
        sections = {
            "root directory": self.root,
            "metadata": self.metadata,
            "leaf directories": self.leaves,
            "tiles": self.tiles,
        }
        for name, section in sections.items():
            if section.end > _LARGEST:
                raise ContainerFormatError(f"the section of its {name} is too large")
        if self.root.offset < HEADER_LENGTH or not self.root.length:
            raise ContainerFormatError("its root directory is empty, or overlaps the header")
        if self.root.length > _MAX_DIRECTORY:
            raise ContainerFormatError(f"its root directory has {self.root.length} bytes")
        if self.metadata.length > MAX_METADATA:
            raise ContainerFormatError(f"its metadata has {self.metadata.length} bytes")
        if not self.min_zoom <= self.max_zoom <= _MAX_ZOOM:
            raise ContainerFormatError(
                f"its zooms are {self.min_zoom} to {self.max_zoom}; the last is 31 at most"
            )


def _other_version(version: int) -> ContainerFormatError:
    return ContainerFormatError(
        f"it is a PMTiles archive of version {version}, not 3", "convert it with: pmtiles convert"
    )
