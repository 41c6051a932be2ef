"""The search for the variants that the values of a request name (time.md section 1.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from mastaba.api.dimensions import InvalidDimensionError, MissingDimensionError
from mastaba_dimensions.axes import Axis, Found
from mastaba_dimensions.opening import Variant
from mastaba_dimensions.table import Numbers, ValueTable
from mastaba_ows.dimensions import Dimension, Note


class Choice(NamedTuple):
    """What values mean; see `Resolved`.

    Attributes:
        rows: positions of the variants in their table, newest first; none for the default.
        variants: those of the rows, once the series has added them.
        is_named: whether the request names the variants. Otherwise another one may answer it later.
    """

    rows: Sequence[int]
    variants: Sequence[Variant] = ()
    notes: tuple[Note, ...] = ()
    is_lasting: bool = True
    ranges: Mapping[str, Sequence[tuple[float, float]]] = MappingProxyType({})
    is_named: bool = True


def chosen(table: ValueTable, given: Mapping[str, str], most: int) -> Choice:
    """Return the variants for values by the names of their dimensions, not more than ``most``.

    Raises:
        MissingDimensionError, InvalidDimensionError, NoSuchValueError: see `VariantTable.resolve`.
    """
    missing = [one for one in table.dimensions if one.name not in given]
    for one in missing:
        if one.default == "none":
            raise MissingDimensionError(f"the layer needs a value of {one.name}", one.name)
    is_plain = all(
        given.get(one.name) == one.default == "current"
        for one in table.dimensions
        if one not in missing
    )
    if is_plain and not any(one.default == "now" for one in missing):
        notes = tuple(Note(one, table.default_text(one), "default") for one in missing)
        return Choice((), notes=notes)
    return _Search(table, most).run(given, missing)


class _Search:
    """The search of one request."""

    def __init__(self, table: ValueTable, most: int) -> None:
        self._table = table
        self._most = most
        self._notes: list[Note] = []
        self._is_lasting = True
        self._is_named = True

    def run(self, given: Mapping[str, str], missing: Sequence[Dimension]) -> Choice:
        table = self._table
        left: list[int] | None = None
        several: tuple[Dimension, bool] | None = None
        for dimension in table.dimensions:
            text = given.get(dimension.name)
            if text is None:
                continue
            found = self._find(self._axis(dimension, left), dimension, text)
            if len(found.values) > 1:
                if found.is_list and not dimension.multiple:
                    reason = f"only one value of {dimension.name} can be shown"
                    raise InvalidDimensionError(reason, dimension.name)
                several = dimension, found.is_list
            self._is_named = self._is_named and found.is_named
            if found.is_nearest:
                self._is_lasting = False
                self._note(dimension, found.values[0], "nearest")
            values = found.values
            if len(values) > 1 and not dimension.multiple:
                values = values[:1]
                self._note(dimension, values[0], "nearest")
            if len(table.dimensions) == 1:
                # Each is one variant; one more than can be shown says that there are more.
                values = values[: self._most + 1]
            rows = [row for number in values for row in table.having(dimension.name, number)]
            if left is not None:
                before = set(left)
                rows = [row for row in rows if row in before]
            left = rows
        rows = self._complete(left, missing)
        rows.sort(key=table.age, reverse=True)
        if len(rows) > self._most:
            dimension, is_list = several or (table.dimensions[0], False)
            if is_list and self._most > 1:
                reason = f"at most {self._most} values of {dimension.name} can be shown at once"
                raise InvalidDimensionError(reason, dimension.name)
            rows = rows[: self._most]
            self._note(dimension, self._number(rows[0], dimension), "nearest")
        is_named = self._is_named and not self._notes
        notes = tuple(dict.fromkeys(self._notes))
        return Choice(rows, notes=notes, is_lasting=self._is_lasting, is_named=is_named)

    def _find(self, axis: Axis[Any], dimension: Dimension, text: str) -> Found:
        if text == "current" and dimension.default == "now":
            self._is_lasting = False
            self._is_named = False
            number = self._table.default_value(dimension, axis).number
            return axis.find(self._table.texts[dimension.name][number])
        return axis.find(text)

    def _number(self, row: int, dimension: Dimension) -> int:
        return self._table.rows[row][0][self._table.index(dimension.name)]

    def _axis(self, dimension: Dimension, left: Sequence[int] | None) -> Axis[Any]:
        """Return the values of a dimension that the variants left have."""
        axis = self._table.axes[dimension.name]
        if left is None:
            return axis
        return axis.among({self._number(row, dimension) for row in left})

    def _complete(self, left: list[int] | None, missing: Sequence[Dimension]) -> list[int]:
        """Return the variants with the default of each dimension that the request left out."""
        rows = list(range(len(self._table.rows))) if left is None else left
        groups = [rows]
        if missing and left is not None:
            absent = [self._table.index(one.name) for one in missing]
            by_values: dict[Numbers, list[int]] = {}
            for row in rows:
                numbers = self._table.rows[row][0]
                key = tuple(n for index, n in enumerate(numbers) if index not in absent)
                by_values.setdefault(key, []).append(row)
            groups = list(by_values.values())
        for dimension in missing:
            groups = [self._with_default(dimension, group) for group in groups]
        return [row for group in groups for row in group]

    def _with_default(self, dimension: Dimension, group: list[int]) -> list[int]:
        table = self._table
        axis = self._axis(dimension, group)
        kind = "default"
        if dimension.default == "now":
            self._is_lasting = False
            value = table.default_value(dimension, axis)
        else:
            wanted = table.default_value(dimension, table.axes[dimension.name])
            value = wanted
            if wanted not in axis.values:
                value, kind = axis.nearest(wanted.means), "nearest"
        self._note(dimension, value.number, kind)
        return [row for row in group if self._number(row, dimension) == value.number]

    def _note(self, dimension: Dimension, number: int, kind: str) -> None:
        self._notes.append(Note(dimension, self._table.texts[dimension.name][number], kind))
