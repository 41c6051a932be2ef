"""Which number each source of a build has (time.md sections 5.1 and 5.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mastaba.api.catalogue import BoundingBox

LARGEST = 1 << 24
"""The largest number that FLOAT32 represents, as all smaller ones."""


class SourceKey(NamedTuple):
    """What identifies a source: its numbers are equal if these are.

    Attributes:
        path: of the file.
        identity: fingerprint of the file, as in `Source`.
        polygon: of the polygon in it, as in `Polygon`; empty for the file itself.
    """

    path: str
    identity: str
    polygon: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Polygon:
    """A polygon inside files.

    Attributes:
        key: digest of its geometry and its name.
        geometry: GeoJSON geometry in the CRS of the set, x before y.
        box: around it.
        facts: fields of its row of the table.
    """

    key: str
    geometry: Mapping[str, Any]
    box: BoundingBox
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Provenance:
    """The sources of a build as the table knows them.

    Attributes:
        keys: of the files in the order of the plan, then of the polygons in them.
        numbers: of the same, from 1.
        rows: fields of the table of the same.
        next: the number of the next new source.
        levels: identifiers of the levels that have numbers.
        polygons: of all files of polygons, those of a file together, later ones on top.
        parts: for the files of the plan that have polygons, the range of these in `polygons`.
        pairs: position in `numbers` of a polygon in a file; both by their position.
        overrides: fields of rows that were set by hand, by number.
    """

    keys: tuple[SourceKey, ...]
    numbers: tuple[int, ...]
    rows: tuple[Mapping[str, Any], ...]
    next: int
    levels: frozenset[str]
    polygons: tuple[Polygon, ...] = ()
    parts: Mapping[int, range] = field(default_factory=dict)
    pairs: Mapping[tuple[int, int], int] = field(default_factory=dict)
    overrides: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def near(self, box: BoundingBox) -> Iterable[int]:
        """Yield the positions of the polygons whose boxes meet a box."""
        for number, polygon in enumerate(self.polygons):
            if polygon.box.intersection(box) is not None:
                yield number


class Share(NamedTuple):
    """The pixels of a source in a slab.

    Attributes:
        number: of the source.
        pixels: their count.
        min_row, max_row, min_col, max_col: of these pixels, in the matrix.
    """

    number: int
    pixels: int
    min_row: int
    max_row: int
    min_col: int
    max_col: int


class NumberedSlab(NamedTuple):
    """A stored slab of source numbers.

    Attributes:
        size, md5: of the stored slab.
        shares: of the sources, by ascending numbers.
        holder: root of the pyramid that contains it; None for that of the pyramid itself.
    """

    size: int
    md5: str
    shares: tuple[Share, ...]
    holder: str | None = None
