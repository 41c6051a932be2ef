"""Which number each source of a build has (time.md sections 5.1 and 5.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mastaba.api.catalogue import BoundingBox
from mastaba_build.output.numbers import SourceKey
from mastaba_build.sources.footprints import Polygon


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
