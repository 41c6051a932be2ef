"""The variants of a layer as they are listed, by the numbers of their values."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from mastaba.api.dimensions import VariantSource
from mastaba_dimensions.axes import Axis, NumberAxis, TextAxis, TimeAxis, Value
from mastaba_dimensions.declared import Declared
from mastaba_dimensions.listing import Row
from mastaba_documents.times import SECOND, Time, parse_number, parse_time
from mastaba_ows.dimensions import Dimension
from mastaba_server.threads.recent import Recent

Numbers = tuple[int, ...]
"""The number of a value of each dimension of variants."""

_MOST_OLDER: Final = 15
"""Older rows of a row: values in which a missing tile is looked for."""
_KNOWN: Final = 4096
"""Rows whose older rows are kept."""


class ValueTable:
    """Variants, and the values of each dimension that they have.

    Attributes:
        dimensions: those whose values name variants.
        axes: the values of each, by its name.
        rows: numbers of the values of each variant, and what its list says.
    """

    def __init__(
        self,
        dimensions: Iterable[Dimension],
        axes: Mapping[str, Axis[Any]],
        rows: Sequence[tuple[Numbers, Row]],
    ) -> None:
        self.dimensions = tuple(dimensions)
        self.axes = axes
        self.rows = rows
        self._indices = {one.name: index for index, one in enumerate(self.dimensions)}
        self._older: Recent[Sequence[int]] = Recent(_KNOWN)

    @classmethod
    def of(
        cls, listed: Sequence[Row], declared: Sequence[Declared], source: VariantSource
    ) -> ValueTable:
        """Return the table of listed variants; faults are reported to the source."""
        of_variants = [one for one in declared if not one.dimension.of_pixels]
        dimensions = [one.dimension for one in of_variants]
        listed = [row for row in listed if _has_all(row, dimensions, source)]
        if of_variants and not listed:
            source.refuse("$.variants", "there are none", "list the pyramids of the values")
        axes: dict[str, Axis[Any]] = {}
        known: list[dict[str, int]] = []
        for one in of_variants:
            texts = list(dict.fromkeys(row["at"][one.dimension.name] for row in listed))
            axes[one.dimension.name], numbers_of = _axis(
                one.dimension, texts, one.tolerance, source
            )
            known.append(numbers_of)
        rows: dict[Numbers, Row] = {}
        for row in listed:
            texts = [row["at"][one.name] for one in dimensions]
            numbers = tuple(found[text] for found, text in zip(known, texts, strict=True))
            if rows.setdefault(numbers, row) is not row:
                shown = ", ".join(
                    f"{one.name} {text}" for one, text in zip(dimensions, texts, strict=True)
                )
                source.refuse("$.variants", f"two variants have {shown}", "remove one of them")
        return cls(dimensions, axes, list(rows.items()))

    def among(
        self, rows: Sequence[tuple[Numbers, Row]], dimensions: Iterable[Dimension]
    ) -> ValueTable:
        """Return a table of some rows and the values that they have, with other dimensions.

        Numbers, texts and names remain.
        """
        axes = {
            name: self.axes[name].among({numbers[index] for numbers, _ in rows})
            for name, index in self._indices.items()
        }
        return ValueTable(dimensions, axes, rows)

    @cached_property
    def texts(self) -> dict[str, dict[int, str]]:
        """Text of each value of a dimension by its number."""
        return {
            name: {value.number: value.text for value in axis.values}
            for name, axis in self.axes.items()
        }

    @cached_property
    def _ranks(self) -> dict[str, dict[int, int]]:
        """Rank of each value of a dimension by its number, the oldest first."""
        return {
            name: {value.number: rank for rank, value in enumerate(axis.values)}
            for name, axis in self.axes.items()
        }

    def index(self, name: str) -> int:
        """Return the place of a dimension in `Numbers`."""
        return self._indices[name]

    @cached_property
    def _with(self) -> dict[tuple[int, int], list[int]]:
        """Positions of the rows with a value, by index and number; a start needs none of them."""
        found: dict[tuple[int, int], list[int]] = {}
        for position, (numbers, _) in enumerate(self.rows):
            for index, number in enumerate(numbers):
                found.setdefault((index, number), []).append(position)
        return found

    def having(self, name: str, number: int) -> Sequence[int]:
        """Return the positions of the rows with a value."""
        return self._with.get((self._indices[name], number), ())

    def at(self, position: int) -> dict[str, str]:
        """Return the texts of the values of a row, by the names of their dimensions."""
        numbers, _ = self.rows[position]
        return {
            name: self.texts[name][number]
            for name, number in zip(self._indices, numbers, strict=True)
        }

    def age(self, position: int) -> Numbers:
        """Return what sorts rows, the oldest first."""
        numbers, _ = self.rows[position]
        return tuple(
            self._ranks[name][number] for name, number in zip(self._indices, numbers, strict=True)
        )

    def older(self, position: int, name: str) -> Sequence[int]:
        """Return the rows that differ from one only by a smaller value, the greatest first.

        The 15 with the greatest values. They are found once: any missing tile asks for them.
        """
        known = self._older.get((position, name))
        if known is None:
            known = self._older.add((position, name), self._rows_before(position, name))
        return known

    def _rows_before(self, position: int, name: str) -> Sequence[int]:
        index, ranks = self._indices[name], self._ranks[name]
        numbers, _ = self.rows[position]
        others = [
            set(self.having(one, numbers[n])) for one, n in self._indices.items() if n != index
        ]
        rank = ranks[numbers[index]]
        rows = range(len(self.rows)) if not others else set.intersection(*others)
        found = [(ranks[self.rows[row][0][index]], row) for row in rows]
        before = [one for one in found if one[0] < rank]
        return [row for _, row in heapq.nlargest(_MOST_OLDER, before)]

    # ---------------------------------------------------------------- defaults

    def default_value(self, dimension: Dimension, axis: Axis[Any]) -> Value[Any]:
        """Return the value for requests without one, of those on an axis."""
        rule = dimension.default
        if rule in ("latest", "current", "none"):
            return axis.newest
        if rule == "earliest":
            return axis.values[0]
        if rule == "now":
            assert isinstance(axis, TimeAxis)
            return axis.not_after(int(time.time() * SECOND))
        whole = self.axes[dimension.name]
        number = whole.find(rule).values[0]
        named = next(value for value in whole.values if value.number == number)
        return next((one for one in axis.values if one is named), axis.nearest(named.means))

    def default_text(self, dimension: Dimension) -> str:
        """Return the text of the default in documents."""
        if dimension.default == "none":
            return ""
        if dimension.default == "current":
            return "current"
        return self.default_value(dimension, self.axes[dimension.name]).text

    @cached_property
    def default_position(self) -> int | None:
        """The row that the layer shows without values; None if it is none of them."""
        if not self.dimensions or any(
            one.default in ("current", "none", "now") for one in self.dimensions
        ):
            return None
        left = set(range(len(self.rows)))
        for index, dimension in enumerate(self.dimensions):
            numbers = {self.rows[position][0][index] for position in left}
            axis = self.axes[dimension.name].among(numbers)
            number = self.default_value(dimension, axis).number
            left = {position for position in left if self.rows[position][0][index] == number}
        return min(left)


def time_of(text: str) -> Time | None:
    """Return what the time of a variant denotes: a time, or a pair of times."""
    first, slash, last = text.partition("/")
    one, other = parse_time(first), parse_time(last) if slash else None
    if not slash or one is None:
        return one
    return None if other is None or other.end <= one.start else Time(one.start, other.end, None)


_PARSERS: Final[Mapping[str, Callable[[str], object]]] = {
    "time": time_of,
    "number": parse_number,
    "text": str,
}


def _has_all(row: Row, dimensions: Sequence[Dimension], source: VariantSource) -> bool:
    missing = [one.name for one in dimensions if not row["at"].get(one.name)]
    further = row["at"].keys() - {one.name for one in dimensions}
    if missing or further:
        name = (missing or sorted(further))[0]
        word = "no value" if missing else "a value"
        reason = f"the variant {row['pyramids'][0]['path']} has {word} of {name}"
        source.refuse("$.variants", reason, "give each variant one value of each dimension")
    return True


def _axis(
    dimension: Dimension, texts: Sequence[str], tolerance: object, source: VariantSource
) -> tuple[Axis[Any], dict[str, int]]:
    """Return the values of a dimension, and their numbers by all their spellings."""
    parse = _PARSERS[dimension.kind]
    numbers: dict[str, int] = {}
    spelt: dict[object, tuple[str, Any]] = {}
    known: dict[object, int] = {}
    for text in texts:
        found = parse(text)
        if found is None or len(text) > 200:
            reason = f"{text[:60]!r} is not a value of {dimension.name}"
            source.refuse("$.variants", reason, f"write a {dimension.kind}")
        key = (found.start, found.end) if isinstance(found, Time) else found
        numbers[text] = known.setdefault(key, len(known))
        spelt.setdefault(key, (text, found))
    taken = {text for text, _ in spelt.values() if "/" not in text}
    values = []
    for number, (text, found) in enumerate(spelt.values()):
        start = text.partition("/")[0] if dimension.kind == "time" else text
        shown = text if start in taken and start != text else start
        taken.add(shown)
        values.append(Value(number, shown, text, found))
    kinds = {"time": TimeAxis, "number": NumberAxis, "text": TextAxis}
    kind: Any = kinds[dimension.kind]
    axis: Axis[Any] = kind(dimension, values, tolerance)
    return axis, numbers
