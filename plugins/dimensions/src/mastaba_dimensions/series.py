"""The variants of a layer, found by the values of its dimensions (time.md sections 1.3 to 1.5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from functools import cached_property
from os.path import abspath
from types import MappingProxyType
from typing import Any, ClassVar, Final
from urllib.parse import quote

from mastaba.api.catalogue import Attribution, BoundingBox, Layer, Pyramid, digest_of
from mastaba.api.dimensions import NO_VALUE, Resolved, VariantSource, VariantTable
from mastaba.errors import MastabaError, NoSuchValueError
from mastaba_dimensions.declared import Declared, declared
from mastaba_dimensions.documented import documented, is_irregular
from mastaba_dimensions.extent import widened
from mastaba_dimensions.listing import Row, rows_of, stack_of
from mastaba_dimensions.opening import Opener, ReplacedError, Variant
from mastaba_dimensions.pixels import ranges_of
from mastaba_dimensions.previous import PreviousTiles
from mastaba_dimensions.schema import LAYER_SCHEMA
from mastaba_dimensions.search import Choice, chosen
from mastaba_dimensions.table import Numbers, ValueTable, time_of
from mastaba_dimensions.watching import Watch
from mastaba_documents.times import interval_of, parse_time
from mastaba_ows.dimensions import DimensionValues, Note
from mastaba_server.threads.recent import Recent

_KNOWN: Final = 4096
_KNOWN_LENGTH: Final = 200
_SAFE: Final = ":.+"
_LISTED: Final = 500
"""Values that documents list, usually."""
_MOST_CHANGES: Final = 64
"""Changed variants; more are reported as a change of the whole layer."""
_PASSING: Final = 64
"""Variants of which a form for passing answers is kept."""
_FINAL: Final = "max-age=604800, s-maxage=31536000"


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
        listed = source.listing
        if listed is None:
            of_variants = [one for one in self.dimensions if not one.of_pixels]
            listed = rows_of(source, of_variants)
        self._table = ValueTable.of(listed, self._declared, source)
        self._watch = Watch.of(source)
        _check_irregular(self._table, source)
        self._identifier, self._own = source.layer.id, source.layer.own
        names = source.document.get("names", {})
        self._spelt = {"template": names} if isinstance(names, str) else dict(names)
        self._known: dict[tuple[Any, ...], Choice] = {}
        self._passing: Recent[tuple[Layer, Layer]] = Recent(_PASSING)
        self.layer = self._described(source)
        self.opener = Opener(source, self.layer)
        fallback = [one.dimension.name for one in self._declared if one.falls_back]
        self._falls_back_in = fallback[0] if fallback else ""
        if fallback:
            self.tile_publisher = PreviousTiles

    def _described(self, source: VariantSource) -> Layer:
        """Return the layer with its dimensions, its default value, and the extent of all."""
        values = [[row["at"], row["pyramids"], row["stamp"]] for row in self.listing]
        layer, position = source.layer, self._table.default_position
        layer = replace(
            layer, dimensions=self.dimensions, generation=digest_of(layer.generation, values)
        )
        if position is not None:
            default = self._variant(position)
            layer = replace(layer, at=default.at, interval=default.interval)
            _check_default(default, source)
        return widened(layer, self.listing, source.document.get("bbox"))

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
        table = self._table
        axis = table.axes.get("time")
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
        index = table.index("time")
        rows = [row for row in table.rows if row[0][index] in kept]
        if not rows:
            return None
        if len(rows) == len(table.rows):
            return self.layer, self.layer.readers, self
        other = self._of(rows)
        layer, readers = other._shown_default(self.layer)
        other.layer = layer
        other.opener = other.opener.around(layer)
        return layer, readers, other

    def _of(self, rows: list[tuple[Numbers, Row]]) -> Series:
        """Return a series of some variants; the texts of values stay."""
        other = copy(self)
        # What this one has worked out names variants that the other one does not have.
        for name, value in vars(Series).items():
            if isinstance(value, cached_property):
                other.__dict__.pop(name, None)
        other._known = {}
        other._declared = [self._declared_for(one, rows) for one in self._declared]
        other.dimensions = tuple(one.dimension for one in other._declared)
        of_variants = [one for one in other.dimensions if not one.of_pixels]
        other._table = self._table.among(rows, of_variants)
        return other

    def _declared_for(self, one: Declared, rows: list[tuple[Numbers, Row]]) -> Declared:
        """Return a dimension with a default that some rows have."""
        dimension = one.dimension
        if dimension.of_pixels or dimension.default in ("latest", "earliest", "now", "none"):
            return one
        if dimension.default != "current":
            index = self._table.index(dimension.name)
            number = self._table.axes[dimension.name].find(dimension.default).values[0]
            if any(numbers[index] == number for numbers, _ in rows):
                return one
        return replace(one, dimension=replace(dimension, default="latest"))

    def _shown_default(self, whole: Layer) -> tuple[Layer, Any]:
        """Return the layer of the default of this table and its readers."""
        table = self._table
        position = table.default_position
        if position is None:
            # `now` and `none`: the layer shows the newest value to those who ask for no value.
            position = table.having("time", table.axes["time"].newest.number)[-1]
        variant = self._variant(position)
        opened = self.opener.get(variant, self.refresh)
        layer = replace(
            self.opener.alone(opened),
            key=whole.key,
            readers=None,
            title=whole.title,
            attribution=whole.attribution,
            cache_control=whole.cache_control,
            dimensions=self.dimensions,
            tile_limits=MappingProxyType({}),
            generation=digest_of(whole.generation, [row["at"] for row in self.listing]),
        )
        return self.opener.widened(layer, self.listing), opened.readers

    @property
    def listing(self) -> list[Row]:
        """The variants as JSON."""
        return [row for _, row in self._table.rows]

    # ---------------------------------------------------------------- variants

    def variants(self) -> Sequence[Variant]:
        """Return all variants."""
        return [self._variant(position) for position in range(len(self._table.rows))]

    def find(self, key: str) -> Variant | None:
        """Return the variant with a key, or None."""
        position = self._by_key.get(key)
        return None if position is None else self._variant(position)

    @cached_property
    def _by_key(self) -> dict[str, int]:
        return {one.key: position for position, one in enumerate(self.variants())}

    def _variant(self, position: int) -> Variant:
        _, row = self._table.rows[position]
        at = self._table.at(position)
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
        if "provenance" in row:
            changes["own"] = {**self._own, "provenance": row["provenance"]}
        interval = None
        if "time" in at:
            found = time_of(row["at"]["time"])
            interval = None if found is None else interval_of(found)
        return Variant(
            f"{self._identifier}{named}", at, row["pyramids"], row["stamp"], changes, interval
        )

    def previous(self, layer: Layer) -> Iterator[Layer]:
        """Yield the 15 older variants that differ only in time, newest first; see `VariantTable`.

        Versions have none: what they show must never change.

        Raises:
            OverloadedError: one cannot be opened at the moment.
        """
        position = self._by_key.get(layer.key)
        if layer.key == layer.id:
            position = self._table.default_position
        if position is None or not self._falls_back_in:
            return
        for older in self._table.older(position, self._falls_back_in):
            with suppress(NoSuchValueError):
                yield self.opener.get(self._variant(older), self.refresh)

    def named(self, name: str) -> Mapping[str, str] | None:
        position = self._further.get(name)
        return None if position is None else self._table.at(position)

    @cached_property
    def _further(self) -> dict[str, int]:
        """Variants by their further layer names."""
        template = self._spelt.get("template", "")
        found: dict[str, int] = {}
        for position in range(len(self._table.rows) if template else 0):
            name = template
            for key, text in self._table.at(position).items():
                name = name.replace(f"{{{key}}}", text)
            found.setdefault(name, position)
        return found

    def further_names(self) -> Sequence[tuple[str, Variant]]:
        """Return the further layer names that documents list, with the variants they mean."""
        listed = self._further.items() if self._spelt.get("listed") else ()
        return [(name, self._variant(position)) for name, position in listed]

    # ---------------------------------------------------------------- requests

    @property
    def is_watched(self) -> bool:
        """Whether the descriptor wants it; see `VariantTable`."""
        return self._watch is not None

    def is_outdated(self) -> bool:
        """Return whether the variants are others than those listed; see `VariantTable`."""
        if self._watch is None or not self._watch.is_due():
            return False
        of_variants = [one for one in self.dimensions if not one.of_pixels]
        return self._watch.differs(self.listing, of_variants, self.opener.loader)

    @property
    def is_faulty(self) -> bool:
        """Whether the list that is watched has errors; see `VariantTable`."""
        return self._watch is not None and self._watch.is_faulty

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

    def opened(self) -> Iterator[tuple[str, Layer | str]]:
        for variant in self.variants():
            try:
                yield variant.key, self.opener.read(variant)
            except ReplacedError:
                yield variant.key, "its pyramid was replaced after it was listed"
            except (MastabaError, ValueError) as error:
                yield variant.key, str(error)

    def states(self) -> dict[str, str]:
        return self.opener.states(self.variants())

    def resolve(self, values: Mapping[str, str], most: int = 1) -> Resolved:
        found = self.choose(values, most)
        notes, is_lasting, ranges = found.notes, found.is_lasting, found.ranges
        if not found.variants:
            return Resolved((self.layer,), notes, is_lasting, ranges)
        layers = tuple(self.opener.get(one, self.refresh) for one in found.variants)
        if not found.is_named:
            layers = tuple(map(self._as_passing, layers))
        return Resolved(layers, notes, is_lasting, ranges)

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
            is_absent = text.lower() in NO_VALUE
            if dimension.of_pixels:
                if not is_absent or dimension.default != "none":
                    ranges[dimension.name] = ranges_of(one, "" if is_absent else text)
                    if is_absent:
                        notes.append(Note(dimension, one.default_text, "default"))
            elif not is_absent:
                given[dimension.name] = text
        found = chosen(self._table, given, most)
        return found._replace(
            variants=tuple(map(self._variant, found.rows)),
            ranges=ranges,
            notes=(*found.notes, *notes),
        )

    # ---------------------------------------------------------------- documents

    def values(self, limit: int = _LISTED) -> Sequence[DimensionValues]:
        return [self._documented(one, limit) for one in self._declared]

    def _documented(self, one: Declared, limit: int) -> DimensionValues:
        dimension = one.dimension
        if dimension.of_pixels:
            return DimensionValues(dimension, one.default_text, (), one.values, (one.values,))
        known = self._shown.get((dimension.name, limit))
        if known is None:
            axis, default = self._table.axes[dimension.name], self._table.default_text(dimension)
            known = documented(dimension, axis, limit, default)
            self._shown[dimension.name, limit] = known
        return replace(known, default=self._table.default_text(dimension))

    @cached_property
    def _shown(self) -> dict[tuple[str, int], DimensionValues]:
        return {}


def _check_default(default: Variant, source: VariantSource) -> None:
    if _places(source.document["pyramids"]) != _places(default.pyramids):
        named = ", ".join(f"{name} {text}" for name, text in default.at.items())
        reason = f"is not the pyramid of the default value ({named})"
        remedy = 'name that pyramid; for another one, write "default": "current"'
        source.warning("$.pyramids", reason, remedy)


def _places(pyramids: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the paths of entries in one spelling: those of templates begin at the descriptor."""
    return [abspath(entry["path"].removeprefix("file://")) for entry in pyramids]


def _check_irregular(table: ValueTable, source: VariantSource) -> None:
    names = [one["name"] for one in source.document["dimensions"]]
    for dimension in table.dimensions:
        if not dimension.nearest and is_irregular(table.axes[dimension.name], _LISTED):
            reason = (
                f"is false, and there are more than {_LISTED} irregular values: capabilities show "
                "one range with a step, whose other values are errors"
            )
            place = f"$.dimensions[{names.index(dimension.name)}].nearest"
            source.warning(place, reason, "write true")


def _slabs_of(pyramid: Pyramid) -> set[tuple[str, int, int]]:
    levels = pyramid.levels.items()
    return {(name, level.tiles_per_width, level.tiles_per_height) for name, level in levels}
