"""The variants of a layer, found by the values of its dimensions (time.md sections 1.3 to 1.5)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple
from urllib.parse import quote

from mastaba.api.catalogue import (
    Attribution,
    BoundingBox,
    Layer,
    Pyramid,
    TileLimits,
    digest_of,
)
from mastaba.api.dimensions import (
    InvalidDimensionError,
    MissingDimensionError,
    Resolved,
    VariantSource,
    VariantTable,
)
from mastaba.errors import MastabaError
from mastaba_dimensions.axes import Axis, NumberAxis, TextAxis, TimeAxis, Value
from mastaba_dimensions.declared import declared
from mastaba_dimensions.grammar import SECOND, Time, parse_number, parse_time
from mastaba_dimensions.listing import Row, rows_of, stack_of
from mastaba_dimensions.opening import Opener, ReplacedError, Variant, widened
from mastaba_dimensions.pixels import ranges_of
from mastaba_dimensions.runs import (
    interval_of,
    number_runs,
    smallest_step,
    time_runs,
    uniform_times,
)
from mastaba_dimensions.schema import LAYER_SCHEMA
from mastaba_ows.dimensions import Dimension, DimensionValues, Note
from mastaba_server.threads.recent import Recent

_ABSENT: Final = ("", "default", "undefined", "null")
_KNOWN: Final = 4096
_KNOWN_LENGTH: Final = 200
_SAFE: Final = ":.+"
_MOST_CHANGES: Final = 64
"""Changed variants; more are reported as a change of the whole layer."""
_PASSING: Final = 64
"""Variants of which a form for passing answers is kept."""
_FINAL: Final = "max-age=604800, s-maxage=31536000"

Numbers = tuple[int, ...]
"""The number of a value of each dimension of variants."""


class Choice(NamedTuple):
    """What values mean: variants, newest first, or none for the default; see `Resolved`.

    Attributes:
        is_named: whether the request names the variants. Otherwise another one may answer it later.
    """

    variants: Sequence[Variant]
    notes: tuple[Note, ...] = ()
    is_lasting: bool = True
    ranges: Mapping[str, Sequence[tuple[float, float]]] = MappingProxyType({})
    is_named: bool = True


class Series(VariantTable):
    """The variants of one layer."""

    name = "series"
    layer_schema: ClassVar[Mapping[str, Any]] = LAYER_SCHEMA

    @classmethod
    def documents(cls, descriptor: Any, file: str) -> Iterable[str]:
        """Return the path of the stack; see `VariantTable.documents`."""
        stack = stack_of(descriptor, file)
        return () if stack is None else (stack,)

    @classmethod
    def open(cls, source: VariantSource) -> Series | None:
        """Return the table of a layer; see `VariantTable.open`."""
        if "dimensions" not in source.document and "variants" not in source.document:
            return None
        return cls(source)

    def __init__(self, source: VariantSource) -> None:
        self._declared = declared(source)
        self.dimensions = tuple(one.dimension for one in self._declared)
        of_variants = [one for one in self.dimensions if not one.of_pixels]
        listed = rows_of(source, of_variants) if source.listing is None else source.listing
        rows = [row for row in listed if _has_all(row, of_variants, source)]
        if of_variants and not rows:
            source.refuse("$.variants", "there are none", "list the pyramids of the values")
        self._names = [one.name for one in of_variants]
        self._identifier = source.layer.id
        self._axes: dict[str, Axis[Any]] = {}
        for one in self._declared:
            if not one.dimension.of_pixels:
                name = one.dimension.name
                texts = list(dict.fromkeys(row["at"][name] for row in rows))
                self._axes[name] = _axis(one.dimension, texts, one.tolerance, source)
        self._rows: list[tuple[Numbers, Row]] = []
        self._positions: dict[Numbers, int] = {}
        self._with: dict[tuple[int, int], list[int]] = {}
        for row in rows:
            self._add(row, source)
        names = source.document.get("names", {})
        self._spelt = {"template": names} if isinstance(names, str) else dict(names)
        self._known: dict[tuple[Any, ...], Choice] = {}
        self._passing: Recent[tuple[Layer, Layer]] = Recent(_PASSING)
        self.layer = self._described(source, rows)
        self.opener = Opener(source, self.layer)

    def _described(self, source: VariantSource, rows: Sequence[Row]) -> Layer:
        """Return the layer with its dimensions, its default value, and the extent of all."""
        values = [[row["at"], row["pyramids"], row["stamp"]] for row in rows]
        layer, position = source.layer, self._default_position()
        layer = replace(
            layer, dimensions=self.dimensions, generation=digest_of(layer.generation, values)
        )
        if position is not None:
            default = self._variant(position)
            layer = replace(layer, at=default.at, interval=default.interval)
            self._check_default(default, source)
        limits = _limits(rows)
        return widened(layer, limits, source.document.get("bbox")) if limits else layer

    def moved(self, loader: Any) -> Series:
        other = copy(self)
        other.opener = self.opener.moved(loader)
        return other

    def within(self, first: str, last: str) -> tuple[Layer, Any, Series] | None:
        """Return the layer with the variants whose time is within limits, for a view.

        The others cannot be told from values that never existed. If the default is one of them, or
        is composed of several values, the newest one that is left is the default.

        Args:
            first, last: times, both included; empty for no limit.

        Returns:
            the layer, its readers, and its table; None if no variant is left. A layer without time
            is returned as it is.

        Raises:
            ValueError: a limit is no time.
            OverloadedError: the default cannot be opened at the moment.
        """
        axis = self._axes.get("time")
        if axis is None:
            return self.layer, self.layer.readers, self
        begin, end = (parse_time(one) if one else None for one in (first, last))
        if (first and begin is None) or (last and end is None):
            raise ValueError(f"{first}/{last} is not a range of times")
        kept = {
            one.number
            for one in axis.values
            if (begin is None or one.means.start >= begin.start)
            and (end is None or one.means.end <= end.end)
        }
        index = self._names.index("time")
        rows = [row for row in self._rows if row[0][index] in kept]
        if not rows:
            return None
        if len(rows) == len(self._rows):
            return self.layer, self.layer.readers, self
        other = self._of(rows)
        layer, readers = other._shown_default(self.layer)
        other.layer = layer
        other.opener = other.opener.around(layer)
        return layer, readers, other

    def _of(self, rows: list[tuple[Numbers, Row]]) -> Series:
        """Return a table of some rows; the texts of values stay."""
        other = copy(self)
        other.__dict__["_texts"] = self._texts
        # What this table has worked out names rows that the other one does not have.
        for name, value in vars(Series).items():
            if isinstance(value, cached_property) and name != "_texts":
                other.__dict__.pop(name, None)
        other._known = {}
        other._rows, other._positions, other._with = rows, {}, {}
        for position, (numbers, _) in enumerate(rows):
            other._positions[numbers] = position
            for index, number in enumerate(numbers):
                other._with.setdefault((index, number), []).append(position)
        other._declared = [self._declared_for(one, rows) for one in self._declared]
        other.dimensions = tuple(one.dimension for one in other._declared)
        other._axes = {
            name: axis.among({numbers[index] for numbers, _ in rows})
            for index, (name, axis) in enumerate(self._axes.items())
        }
        return other

    def _declared_for(self, one: Any, rows: list[tuple[Numbers, Row]]) -> Any:
        """Return a dimension with a default that some rows have."""
        dimension = one.dimension
        if dimension.of_pixels or dimension.default in ("latest", "earliest", "now", "none"):
            return one
        if dimension.default != "current":
            index = self._names.index(dimension.name)
            number = self._axes[dimension.name].find(dimension.default).values[0]
            if any(numbers[index] == number for numbers, _ in rows):
                return one
        return replace(one, dimension=replace(dimension, default="latest"))

    def _shown_default(self, whole: Layer) -> tuple[Layer, Any]:
        """Return the layer of the default of this table and its readers."""
        position = self._default_position()
        if position is None:
            # `now` and `none`: the layer shows the newest value to those who ask for no value.
            axis = self._axes["time"]
            index = self._names.index("time")
            position = self._with[index, axis.newest.number][-1]
        variant = self._variant(position)
        opened = self.opener.get(variant, self.refresh)
        rows = [row for _, row in self._rows]
        layer = replace(
            self.opener.alone(opened),
            key=whole.key,
            readers=None,
            title=whole.title,
            attribution=whole.attribution,
            cache_control=whole.cache_control,
            dimensions=self.dimensions,
            tile_limits=MappingProxyType({}),
            generation=digest_of(whole.generation, [row["at"] for row in rows]),
        )
        limits = _limits(rows)
        return self.opener.widened(layer, limits) if limits else layer, opened.readers

    def _add(self, row: Row, source: VariantSource) -> None:
        numbers = tuple(self._numbers[name][row["at"][name]] for name in self._names)
        position = len(self._rows)
        if self._positions.setdefault(numbers, position) != position:
            shown = ", ".join(f"{name} {row['at'][name]}" for name in self._names)
            source.refuse("$.variants", f"two variants have {shown}", "remove one of them")
        self._rows.append((numbers, row))
        for index, number in enumerate(numbers):
            self._with.setdefault((index, number), []).append(position)

    @cached_property
    def _numbers(self) -> dict[str, dict[str, int]]:
        """Number of each value of a dimension by its text in the descriptor."""
        return {
            name: {value.spelt: value.number for value in axis.values}
            for name, axis in self._axes.items()
        }

    @cached_property
    def _texts(self) -> dict[str, list[str]]:
        """Text of each value of a dimension by its number."""
        return {
            name: [one.text for one in sorted(axis.values, key=lambda value: value.number)]
            for name, axis in self._axes.items()
        }

    @cached_property
    def _ranks(self) -> dict[str, dict[int, int]]:
        """Rank of each value of a dimension by its number, the oldest first."""
        return {
            name: {value.number: rank for rank, value in enumerate(axis.values)}
            for name, axis in self._axes.items()
        }

    @property
    def listing(self) -> list[Row]:
        """The variants as JSON."""
        return [row for _, row in self._rows]

    # ---------------------------------------------------------------- variants

    def variants(self) -> Sequence[Variant]:
        """Return all variants."""
        return [self._variant(position) for position in range(len(self._rows))]

    def find(self, key: str) -> Variant | None:
        """Return the variant with a key, or None."""
        position = self._by_key.get(key)
        return None if position is None else self._variant(position)

    @cached_property
    def _by_key(self) -> dict[str, int]:
        return {self._variant(position).key: position for position in range(len(self._rows))}

    def _variant(self, position: int) -> Variant:
        numbers, row = self._rows[position]
        at = {
            name: self._texts[name][number]
            for name, number in zip(self._names, numbers, strict=True)
        }
        named = "".join(f";{name}={quote(text, _SAFE)}" for name, text in at.items())
        changes: dict[str, Any] = {}
        if "title" in row:
            changes["title"] = row["title"]
        if "attribution" in row:
            changes["attribution"] = Attribution(
                row["attribution"]["title"], row["attribution"]["url"]
            )
        if "cache_control" in row or row.get("final"):
            changes["cache_control"] = row.get("cache_control", _FINAL)
        interval = None
        if "time" in self._axes:
            spelt = row["at"]["time"]
            found = _time_of(spelt)
            interval = None if found is None else interval_of(found)
        return Variant(
            f"{self._identifier}{named}", at, row["pyramids"], row["stamp"], changes, interval
        )

    def named(self, name: str) -> Mapping[str, str] | None:
        position = self._further.get(name)
        return None if position is None else self._variant(position).at

    @cached_property
    def _further(self) -> dict[str, int]:
        """Variants by their further layer names."""
        template = self._spelt.get("template", "")
        found: dict[str, int] = {}
        for position in range(len(self._rows) if template else 0):
            name = template
            for key, text in self._variant(position).at.items():
                name = name.replace(f"{{{key}}}", text)
            found.setdefault(name, position)
        return found

    def further_names(self) -> Sequence[tuple[str, Variant]]:
        """Return the further layer names that documents list, with the variants they mean."""
        listed = self._further.items() if self._spelt.get("listed") else ()
        return [(name, self._variant(position)) for name, position in listed]

    # ---------------------------------------------------------------- requests

    def changes(self, before: VariantTable) -> list[tuple[Any, ...]] | None:
        if not isinstance(before, Series):
            return None
        known, now = ({one.key: one for one in table.variants()} for table in (before, self))
        changed = [
            key
            for key in sorted(known.keys() | now.keys())
            if key not in known or key not in now or known[key].stamp != now[key].stamp
        ]
        if len(changed) > _MOST_CHANGES:
            return None
        found = []
        for key in changed:
            old, new = known.get(key), now.get(key)
            area = None if old is None or new is None else self._changed_area(old, new)
            stamps = (None if one is None else one.stamp for one in (old, new))
            found.append((*stamps, area, key))
        return found

    def _changed_area(self, old: Variant, new: Variant) -> BoundingBox | None:
        """Return the area of an update of a variant; None if anything may have changed."""
        try:
            pyramid = self.opener.get(new, None).pyramid
        except MastabaError:
            return None
        # The stamp of a stack is a generation. Keys of slabs are made from the levels of the layer.
        update, shown = pyramid.update, _slabs_of(self.layer.pyramid)
        is_update = update is not None and update.since == old.stamp
        return update.bbox if update and is_update and _slabs_of(pyramid) <= shown else None

    def problems(self) -> Iterator[tuple[str, str]]:
        for variant in self.variants():
            try:
                self.opener.read(variant)
            except ReplacedError:
                yield variant.key, "its pyramid was replaced after it was listed"
            except (MastabaError, ValueError) as error:
                yield variant.key, str(error)

    def resolve(self, values: Mapping[str, str], most: int = 1) -> Resolved:
        found = self.choose(values, most)
        if not found.variants:
            return Resolved((self.layer,), *found[1:4])
        layers = tuple(self.opener.get(one, self.refresh) for one in found.variants)
        if not found.is_named:
            layers = tuple(map(self._as_passing, layers))
        return Resolved(layers, *found[1:4])

    def _as_passing(self, layer: Layer) -> Layer:
        """Return a variant for a request that another one may answer later.

        That the variant will not change is no reason to keep such an answer.
        """
        if layer.cache_control != _FINAL:
            return layer
        known = self._passing.get(layer.key)
        if known is None or known[0] is not layer:
            usual = replace(layer, cache_control=self.layer.cache_control)
            known = self._passing.add(layer.key, (layer, usual))
        return known[1]

    def choose(self, values: Mapping[str, str], most: int = 1) -> Choice:
        """Return what `resolve` does, but open nothing."""
        texts = tuple(values.get(one.name, "") for one in self.dimensions)
        key = most, *texts
        known = self._known.get(key)
        if known is not None:
            return known
        found = self._resolved(texts, most)
        if found.is_lasting and sum(map(len, texts)) <= _KNOWN_LENGTH:
            if len(self._known) >= _KNOWN:
                self._known.clear()
            self._known[key] = found
        return found

    def _resolved(self, texts: Sequence[str], most: int) -> Choice:
        ranges, given = {}, {}
        notes: list[Note] = []
        for one, text in zip(self._declared, texts, strict=True):
            dimension = one.dimension
            is_absent = text.lower() in _ABSENT
            if dimension.of_pixels:
                if not is_absent or dimension.default != "none":
                    ranges[dimension.name] = ranges_of(one, "" if is_absent else text)
                    if is_absent:
                        notes.append(Note(dimension, one.default_text, "default"))
            elif not is_absent:
                given[dimension.name] = text
        found = self._chosen(given, most)
        return found._replace(ranges=ranges, notes=(*found.notes, *notes))

    def _chosen(self, given: Mapping[str, str], most: int) -> Choice:
        of_variants = [one for one in self.dimensions if not one.of_pixels]
        missing = [one for one in of_variants if one.name not in given]
        for one in missing:
            if one.default == "none":
                raise MissingDimensionError(f"the layer needs a value of {one.name}", one.name)
        is_plain = all(
            text == "current" and self._dimension(name).default == "current"
            for name, text in given.items()
        )
        if is_plain and not any(one.default == "now" for one in missing):
            return Choice(
                (), tuple(Note(one, self._default_text(one), "default") for one in missing)
            )
        return _Search(self, of_variants, most).run(given, missing)

    def _dimension(self, name: str) -> Dimension:
        return next(one for one in self.dimensions if one.name == name)

    # ---------------------------------------------------------------- defaults

    def _default_value(self, dimension: Dimension, axis: Axis[Any]) -> Value[Any]:
        """Return the value for requests without one, of those on an axis."""
        rule = dimension.default
        if rule in ("latest", "current", "none"):
            return axis.newest
        if rule == "earliest":
            return axis.values[0]
        if rule == "now":
            assert isinstance(axis, TimeAxis)
            return axis.not_after(int(time.time() * SECOND))
        whole = self._axes[dimension.name]
        number = whole.find(rule).values[0]
        named = next(value for value in whole.values if value.number == number)
        return next((one for one in axis.values if one is named), axis.nearest(named.means))

    def _default_text(self, dimension: Dimension) -> str:
        """Return the text of the default in documents."""
        if dimension.default == "none":
            return ""
        if dimension.default == "current":
            return "current"
        return self._default_value(dimension, self._axes[dimension.name]).text

    def _default_position(self) -> int | None:
        """Return the variant that the layer shows without values; None if it is none of them."""
        if not self._names or any(
            one.default in ("current", "none", "now") for one in self.dimensions
        ):
            return None
        left = set(range(len(self._rows)))
        for index, name in enumerate(self._names):
            numbers = {self._rows[position][0][index] for position in left}
            axis = self._axes[name].among(numbers)
            number = self._default_value(self._dimension(name), axis).number
            left &= set(self._with[index, number])
        return min(left)

    def _check_default(self, default: Variant, source: VariantSource) -> None:
        shown = [entry["path"] for entry in source.document["pyramids"]]
        if shown != [entry["path"] for entry in default.pyramids]:
            named = ", ".join(f"{name} {text}" for name, text in default.at.items())
            reason = f"is not the pyramid of the default value ({named})"
            remedy = 'name that pyramid; for another one, write "default": "current"'
            source.warning("$.pyramids", reason, remedy)

    # ---------------------------------------------------------------- documents

    def values(self, limit: int = 500) -> Sequence[DimensionValues]:
        return [self._documented(one, limit) for one in self._declared]

    def _documented(self, one: Any, limit: int) -> DimensionValues:
        dimension = one.dimension
        if dimension.of_pixels:
            return DimensionValues(dimension, one.default_text, (), one.values, (one.values,))
        known = self._shown.get((dimension.name, limit))
        if known is None:
            known = self._shown[dimension.name, limit] = self._shown_values(dimension, limit)
        return replace(known, default=self._default_text(dimension))

    @cached_property
    def _shown(self) -> dict[tuple[str, int], DimensionValues]:
        return {}

    def _shown_values(self, dimension: Dimension, limit: int) -> DimensionValues:
        axis = self._axes[dimension.name]
        intervals: Sequence[tuple[str, str]] = ()
        if isinstance(axis, TimeAxis):
            values: Sequence[Value[Any]] = axis.values
            runs = time_runs(values)
            uniform = uniform_times(values)
            intervals = [interval_of(value.means) for value in values]
        else:
            values = sorted(axis.values, key=lambda value: value.number)
            is_number = isinstance(axis, NumberAxis)
            runs = number_runs(values) if is_number else [(one.text, "") for one in values]
            uniform = [value.text for value in values]
        texts = [value.text for value in values]
        extent, nearest = ",".join(text for text, _ in runs), dimension.nearest
        if len(runs) > limit and isinstance(axis, TimeAxis):
            extent, nearest = f"{texts[0]}/{texts[-1]}/{smallest_step(values)}", True
        if len(uniform) > limit:
            uniform = [text for text, _ in runs] if len(runs) <= limit else [extent]
        step = runs[0][1] if len(runs) == 1 else ""
        return DimensionValues(dimension, "", texts, extent, uniform, step, intervals, nearest)


class _Search:
    """The search for the variants of one request."""

    def __init__(self, series: Series, dimensions: Sequence[Dimension], most: int) -> None:
        self._series = series
        self._dimensions = dimensions
        self._most = most
        self._notes: list[Note] = []
        self._is_lasting = True
        self._is_named = True

    def run(self, given: Mapping[str, str], missing: Sequence[Dimension]) -> Choice:
        """Return the variants; errors are those of `VariantTable.resolve`."""
        series = self._series
        left: list[int] | None = None
        several: tuple[Dimension, bool] | None = None
        for index, dimension in enumerate(self._dimensions):
            text = given.get(dimension.name)
            if text is None:
                continue
            axis = self._axis(index, dimension, left)
            found = self._find(axis, dimension, text)
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
            rows = [row for number in values for row in series._with.get((index, number), ())]
            left = rows if left is None else [row for row in rows if row in set(left)]
        rows = self._complete(left, missing)
        rows.sort(key=self._age, reverse=True)
        if len(rows) > self._most:
            dimension, is_list = several or (self._dimensions[0], False)
            if is_list and self._most > 1:
                reason = f"at most {self._most} values of {dimension.name} can be shown at once"
                raise InvalidDimensionError(reason, dimension.name)
            rows = rows[: self._most]
            index = self._dimensions.index(dimension)
            self._note(dimension, series._rows[rows[0]][0][index], "nearest")
        variants = [series._variant(row) for row in rows]
        is_named = self._is_named and not self._notes
        notes = tuple(dict.fromkeys(self._notes))
        return Choice(variants, notes, self._is_lasting, is_named=is_named)

    def _find(self, axis: Axis[Any], dimension: Dimension, text: str) -> Any:
        if text == "current" and dimension.default == "now":
            self._is_lasting = False
            self._is_named = False
            number = self._series._default_value(dimension, axis).number
            return axis.find(self._series._texts[dimension.name][number])
        return axis.find(text)

    def _axis(self, index: int, dimension: Dimension, left: list[int] | None) -> Axis[Any]:
        """Return the values of a dimension that the variants left have."""
        axis = self._series._axes[dimension.name]
        if left is None:
            return axis
        return axis.among({self._series._rows[row][0][index] for row in left})

    def _complete(self, left: list[int] | None, missing: Sequence[Dimension]) -> list[int]:
        """Return the variants with the default of each dimension that the request left out."""
        series = self._series
        rows = list(range(len(series._rows))) if left is None else left
        groups = [rows]
        absent = [self._dimensions.index(one) for one in missing]
        if missing and left is not None:
            by_values: dict[Numbers, list[int]] = {}
            for row in rows:
                numbers = series._rows[row][0]
                key = tuple(n for index, n in enumerate(numbers) if index not in absent)
                by_values.setdefault(key, []).append(row)
            groups = list(by_values.values())
        for index in absent:
            dimension = self._dimensions[index]
            groups = [self._with_default(index, dimension, group) for group in groups]
        return [row for group in groups for row in group]

    def _with_default(self, index: int, dimension: Dimension, group: list[int]) -> list[int]:
        series = self._series
        axis = self._axis(index, dimension, group)
        kind = "default"
        if dimension.default == "now":
            self._is_lasting = False
            value = series._default_value(dimension, axis)
        else:
            wanted = series._default_value(dimension, series._axes[dimension.name])
            value = wanted
            if wanted not in axis.values:
                value, kind = axis.nearest(wanted.means), "nearest"
        self._note(dimension, value.number, kind)
        return [row for row in group if series._rows[row][0][index] == value.number]

    def _note(self, dimension: Dimension, number: int, kind: str) -> None:
        text = self._series._texts[dimension.name][number]
        self._notes.append(Note(dimension, text, kind))

    def _age(self, row: int) -> tuple[int, ...]:
        numbers = self._series._rows[row][0]
        return tuple(
            self._series._ranks[dimension.name][number]
            for dimension, number in zip(self._dimensions, numbers, strict=True)
        )


def _has_all(row: Row, dimensions: Sequence[Dimension], source: VariantSource) -> bool:
    missing = [one.name for one in dimensions if not row["at"].get(one.name)]
    further = row["at"].keys() - {one.name for one in dimensions}
    if missing or further:
        name = (missing or sorted(further))[0]
        word = "no value" if missing else "a value"
        reason = f"the variant {row['pyramids'][0]['path']} has {word} of {name}"
        source.refuse("$.variants", reason, "give each variant one value of each dimension")
    return True


def _time_of(text: str) -> Time | None:
    """Return what the time of a variant denotes: a time, or a pair of times."""
    first, slash, last = text.partition("/")
    one, other = parse_time(first), parse_time(last) if slash else None
    if not slash or one is None:
        return one
    return None if other is None or other.end <= one.start else Time(one.start, other.end, None)


_PARSERS: Final[Mapping[str, Callable[[str], object]]] = {
    "time": _time_of,
    "number": parse_number,
    "text": str,
}


def _axis(
    dimension: Dimension, texts: Sequence[str], tolerance: object, source: VariantSource
) -> Axis[Any]:
    parse = _PARSERS[dimension.kind]
    means = [parse(text) for text in texts]
    for text, found in zip(texts, means, strict=True):
        if found is None or len(text) > 200:
            reason = f"{text[:60]!r} is not a value of {dimension.name}"
            source.refuse("$.variants", reason, f"write a {dimension.kind}")
    taken = {text for text in texts if "/" not in text}
    values = []
    for number, (text, found) in enumerate(zip(texts, means, strict=True)):
        start = text.partition("/")[0] if dimension.kind == "time" else text
        shown = text if start in taken and start != text else start
        taken.add(shown)
        values.append(Value(number, shown, text, found))
    kinds = {"time": TimeAxis, "number": NumberAxis, "text": TextAxis}
    kind: Any = kinds[dimension.kind]
    axis: Axis[Any] = kind(dimension, values, tolerance)
    return axis


def _limits(rows: Sequence[Row]) -> dict[str, TileLimits]:
    """Return the tile limits of all variants together; none if a variant does not say them."""
    if not all(row.get("levels") for row in rows):
        return {}
    known: dict[str, list[Sequence[int]]] = {}
    for row in rows:
        for name, limits in row["levels"].items():
            known.setdefault(name, []).append(limits)
    found = {}
    for name, listed in known.items():
        first_row, last_row, first_col, last_col = zip(*listed, strict=True)
        found[name] = TileLimits(min(first_row), max(last_row), min(first_col), max(last_col))
    return found


def _slabs_of(pyramid: Pyramid) -> set[tuple[str, int, int]]:
    levels = pyramid.levels.items()
    return {(name, level.tiles_per_width, level.tiles_per_height) for name, level in levels}
