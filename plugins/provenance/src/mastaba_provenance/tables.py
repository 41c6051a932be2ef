"""Tables of sources, and the pyramids of their numbers (docs/source-table.md)."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from mastaba.api.catalogue import BoundingBox, digest_of
from mastaba.api.documents import UnusableError
from mastaba.api.storages import ResourcePath
from mastaba.errors import OverloadedError
from mastaba_server.threads.recent import Recent

if TYPE_CHECKING:
    from mastaba.api.catalogue import Catalogue, Layer
    from mastaba.api.storages import StoragePool
    from mastaba_provenance.numbers import Floats

logger = logging.getLogger("mastaba.provenance")

KEY: Final = "provenance"
"""Key of layer descriptors and of pyramid descriptors."""

Row = Mapping[str, Any]

_LARGEST: Final = 1 << 24
_MOST_BYTES: Final = 16 * 1024**2
_MOST_TABLES: Final = 64
_MOST_KEPT: Final = 32 * 1024**2
"""Bytes of JSON of all tables that are kept."""


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table of sources.

    Attributes:
        path: of the descriptor of the pyramid of numbers.
        rows: by number, ascending.
        digest: changes with the table.
        size: bytes of its JSON.
        boxes: west, south, east and north of each row in degrees; shape (4, n). NaN without a box.
    """

    path: ResourcePath
    rows: Mapping[int, Row]
    digest: str
    size: int
    boxes: Floats = field(compare=False, repr=False)

    def near(self, boxes: Sequence[BoundingBox]) -> Iterator[Row]:
        """Yield the rows whose boxes meet one of some boxes in degrees; boxes without area too."""
        west, south, east, north = self.boxes
        is_near = np.zeros(west.shape, np.bool_)
        for box in boxes:
            is_west, is_east = west < box.xmax, east > box.xmin
            across = np.where(west > east, is_west | is_east, is_west & is_east)
            is_near |= across & (south < box.ymax) & (north > box.ymin)
        return compress(self.rows.values(), is_near)


class SourceTables:
    """The tables of the layers of a site, read when they are first asked for."""

    def __init__(self) -> None:
        self._known: Recent[tuple[SourceTable | None]] = Recent(_MOST_TABLES, _MOST_KEPT)
        self._failing: set[str] = set()

    def table_of(self, layer: Layer, catalogue: Catalogue) -> SourceTable | None:
        """Return the table of a layer, variant or version; None if it has none.

        Args:
            catalogue: that shows the layer.

        Raises:
            OverloadedError: it cannot be used.
            StorageError: it cannot be read.
        """
        try:
            found = self.checked(layer, catalogue)
        except ValueError as error:
            # Each map reads it again.
            if layer.key not in self._failing:
                self._failing.add(layer.key)
                logger.error("the table of sources of %s cannot be used: %s", layer.key, error)
            raise OverloadedError("the sources cannot be read at the moment") from None
        self._failing.discard(layer.key)
        return found

    def checked(self, layer: Layer, catalogue: Catalogue) -> SourceTable | None:
        """Return the table of a layer as `table_of`, but raise ValueError if it cannot be used."""
        own = layer.own.get(KEY)
        if own is False:
            return None
        base = _whole(catalogue).layers[layer.id]
        is_other = layer.pyramid.generation != base.pyramid.generation
        if is_other and own == base.own.get(KEY):
            # What the descriptor of a layer names has the numbers of its default.
            own = None
        paths = tuple(part.path for part in reversed(layer.pyramid.parts))
        key = own if isinstance(own, str) else None, layer.pyramid.parts
        known = self._known.get(key)
        if known is None:
            try:
                found = _read(key[0], paths, catalogue.storages)
            except (KeyError, TypeError, RecursionError) as error:
                raise ValueError(f"{type(error).__name__}: {error}") from error
            known = self._known.add(key, (found,), 0 if found is None else found.size)
        return known[0]


def numbers_of(catalogue: Catalogue, layer: Layer, table: SourceTable) -> Layer | None:
    """Return the pyramid of numbers of a layer as far as a catalogue shows the layer.

    Args:
        layer: of the catalogue, or a variant.

    Returns:
        None if nothing is shown.

    Raises:
        OverloadedError: it cannot be used at the moment.
        StorageError: it cannot be read.
    """
    whole = _whole(catalogue)
    base = whole.layers[layer.id]
    key = f"{layer.key}#sources"
    name = key, table.digest, base.generation
    numbers = whole.opened.get(name)
    if numbers is None:
        if base.open_variant is None:
            raise OverloadedError("the sources cannot be read at the moment")
        try:
            numbers = base.open_variant([{"path": str(table.path)}], key, is_alike=False)
        except UnusableError as error:
            logger.error("the numbers of sources of %s cannot be used: %s", layer.key, error)
            raise OverloadedError("the sources cannot be read at the moment") from None
        raster = numbers.pyramid.raster
        if raster is None or raster.channels != 1 or numbers.pyramid.format.sample != "float32":
            logger.error("the numbers of sources of %s are not FLOAT32", layer.key)
            raise OverloadedError("the sources cannot be read at the moment")
        whole.opened.add(name, numbers)
    return catalogue.as_shown(numbers)


def _whole(catalogue: Catalogue) -> Catalogue:
    """Return the catalogue of the site of a view."""
    return catalogue if catalogue.shown is None else catalogue.shown[0]


def box_of(row: Row) -> tuple[BoundingBox, ...]:
    """Return the box of a row in degrees: two at the antimeridian, none if it is unknown."""
    box = row.get("box")
    if not box:
        return ()
    west, south, east, north = box
    if west <= east:
        return (BoundingBox(west, south, east, north),)
    return BoundingBox(west, south, 180.0, north), BoundingBox(-180.0, south, east, north)


def _read(own: str | None, paths: tuple[str, ...], storages: StoragePool) -> SourceTable | None:
    if own is not None:
        return _table(ResourcePath.parse(own), storages)
    for path in paths:
        place = ResourcePath.parse(path)
        named = _document(place, storages)[0].get(KEY)
        if named is not None:
            return _table(_beside(place, named), storages)
    return None


def _table(path: ResourcePath, storages: StoragePool) -> SourceTable:
    document, size = _document(path, storages)
    rows = {}
    for row in document["sources"]:
        number = row["number"]
        if type(number) is not int or not 0 < number < _LARGEST:
            raise ValueError(f"{path} contains the number {number!r}")
        box = row.get("box")
        if box is not None and not (len(box) == 4 and all(abs(one) <= 180 for one in box)):
            raise ValueError(f"{path} contains the box {box!r}")
        rows[number] = row
    ordered = {number: rows[number] for number in sorted(rows)}
    boxes = np.array([row.get("box") or [np.nan] * 4 for row in ordered.values()], np.float64)
    name, digest = _beside(path, document["pyramid"]), digest_of(document)
    return SourceTable(name, ordered, digest, size, boxes.reshape(-1, 4).T.copy())


def _document(path: ResourcePath, storages: StoragePool) -> tuple[dict[str, Any], int]:
    """Return a JSON object, and its size in bytes."""
    data = storages.read_full(path)
    if len(data) > _MOST_BYTES:
        raise ValueError(f"{path} is larger than 16 MiB")
    # Text with half of a surrogate pair cannot be sent.
    text = json.dumps(json.loads(data), ensure_ascii=False).encode("utf-8", "replace")
    document = json.loads(text)
    if not isinstance(document, dict):
        raise ValueError(f"{path} is not an object")
    return document, len(data)


def _beside(path: ResourcePath, name: str) -> ResourcePath:
    if not name or "/" in name:
        raise ValueError(f"{path} names {name!r}, which is not beside it")
    folder = path.key.rpartition("/")
    return ResourcePath(path.storage, path.container, f"{folder[0]}{folder[1]}{name}")
