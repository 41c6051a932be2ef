"""Check of slabs against their descriptors: a sample of each level is read and decoded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Final

from mastaba.api.catalogue import Catalogue, Layer, Level
from mastaba.api.containers import TileIndex, TileReader
from mastaba.api.documents import Fault, Severity
from mastaba.api.slabs import LevelReader
from mastaba.api.storages import Storage
from mastaba.api.tiles import can_draw
from mastaba.errors import (
    AccessDeniedError,
    ObjectNotFoundError,
    PluginError,
    SlabFormatError,
    StorageError,
)
from mastaba_doctor.samples import slab_count, slab_positions, tile_positions, tiles_of
from mastaba_doctor.slab_report import size_mismatch
from mastaba_doctor.vector import check_vector_tile

_THREADS: Final = 8
# Positions tried for each slab wanted: in sparse levels, many have no slab.
_TRIES: Final = 16
# Places of a level of a container that are looked at until enough tiles are found.
_LOOKED_FOR: Final = 4096


@dataclass(frozen=True, slots=True)
class _PublishedLevel:
    """A level, and the first layer that publishes it."""

    layer: Layer
    level: Level
    reader: TileReader

    @property
    def described(self) -> str:
        return f"layer {self.layer.key}, level {self.level.matrix.id}"


@dataclass(slots=True)
class SlabFindings:
    """What was examined, and the problems found."""

    storages: int = 0
    levels: int = 0
    slabs: int = 0
    faults: list[Fault] = field(default_factory=list)


def look_at_slabs(catalogue: Catalogue, samples: int) -> SlabFindings:
    """Stat an object in each storage, then read slabs of each level and decode a tile of each.

    Args:
        samples: number of slabs per level.
    """
    places = _places(catalogue)
    findings = SlabFindings()
    storages = {place.reader.storage.full_name: place for place in places}
    findings.storages = len(storages)
    with ThreadPoolExecutor(_THREADS) as pool:
        broken: set[str] = set()
        for name, fault in zip(storages, pool.map(_storage_fault, storages.values()), strict=True):
            if fault is not None:
                findings.faults.append(fault)
                broken.add(name)
        reachable = [place for place in places if place.reader.storage.full_name not in broken]
        findings.levels = len(reachable)
        for count, faults in pool.map(partial(_examined, samples=samples), reachable):
            findings.slabs += count
            findings.faults += faults
    return findings


def _places(catalogue: Catalogue) -> list[_PublishedLevel]:
    """Return each level once, however many layers publish it."""
    found: dict[object, _PublishedLevel] = {}
    for layer, identifier in _levels(catalogue):
        level, reader = layer.pyramid.levels[identifier], catalogue.readers_of(layer)[identifier]
        (where, *_), _ = reader.place_of(level.limits.min_row, level.limits.min_col)
        # Levels of a container may be one block.
        found.setdefault((where, identifier), _PublishedLevel(layer, level, reader))
    return list(found.values())


def _levels(catalogue: Catalogue) -> Iterator[tuple[Layer, str]]:
    """Yield the levels of all layers, and the finest one of each value of their dimensions."""
    for layer in catalogue.layers.values():
        for name in layer.pyramid.levels:
            yield layer, name
    for table in catalogue.variants.values():
        for _, found in table.opened():
            if isinstance(found, Layer):
                yield found, list(found.pyramid.levels)[-1]


def _storage_fault(place: _PublishedLevel) -> Fault | None:
    """Return why a storage cannot be used, or None; a missing object proves that it can."""
    storage = place.reader.storage
    limits, reader = place.level.limits, place.reader
    block, _ = reader.place_of(limits.min_row, limits.min_col)
    key = reader.key_of(block)
    try:
        storage.stat(key)
    except ObjectNotFoundError:
        return None
    except StorageError as error:
        return _unreadable(storage, key, "$", place, error)
    return None


def _examined(place: _PublishedLevel, samples: int) -> tuple[int, list[Fault]]:
    """Return the number of slabs read from a level, and their problems."""
    faults: list[Fault] = []
    level, reader = place.level, place.reader
    if not isinstance(reader, LevelReader):
        return _container_examined(place, samples)
    count, tries, first_key = 0, 0, ""
    most = samples * _TRIES
    for slab_col, slab_row in slab_positions(level, most):
        tries += 1
        slab, _ = reader.place_of(
            slab_row * level.tiles_per_height, slab_col * level.tiles_per_width
        )
        key = reader.key_of(slab)
        first_key = first_key or key
        try:
            index = reader.index(slab)
        except SlabFormatError as error:
            faults.append(
                _wrong_size(reader.storage, key, place)
                or _damaged(reader.storage, key, "$", place, error)
            )
            index = None
            count += 1
        except (StorageError, PluginError) as error:
            faults.append(_unreadable(reader.storage, key, "$", place, error))
            break
        else:
            if index is not None:
                count += 1
                mismatch = _wrong_size(index.storage, index.key, place)
                faults += (
                    [mismatch]
                    if mismatch
                    else _index_faults(place, index)
                    or _tile_faults(place, index, tiles_of(level, slab_col, slab_row))
                )
        if count >= samples:
            break
    if not count and not faults:
        faults.append(_nothing(place, tries, first_key))
    return count, faults


def _container_examined(place: _PublishedLevel, samples: int) -> tuple[int, list[Fault]]:
    """Decode some tiles of a level of a container; return their number, and their problems."""
    reader = place.reader
    decode = _decoder(place.layer, place.level) if reader.decoder is None else reader.decoder.decode
    deliver = None if reader.decoder else reader.deliver
    places = tile_positions(place.level, _LOOKED_FOR)
    count, looked_for, size = 0, 0, samples
    where = place.level.limits.min_row, place.level.limits.min_col
    key = reader.key_of(reader.place_of(*where)[0])
    try:
        # Few places are enough unless the level is sparse.
        while batch := [(row, col) for col, row in islice(places, size)]:
            looked_for, size = looked_for + len(batch), 2 * size
            for where, tile in zip(batch, reader.locate_all(batch), strict=True):
                if tile is not None:
                    key = reader.key_of(reader.place_of(*where)[0])
                    payload = tile.read()
                    decode(payload if deliver is None else deliver(payload))
                    count += 1
                if count >= samples:
                    return count, []
    except SlabFormatError as error:
        reason, remedy = f"{place.described}: {error}", "write the container again"
        name = _named(reader.storage, key)
        at = f"tile {where[0]}/{where[1]}"
        return count, [Fault(Severity.ERROR, name, at, reason, remedy)]
    except StorageError as error:
        return count, [_unreadable(reader.storage, key, "$", place, error)]
    if count:
        return count, []
    reason = f"{place.described}: no tile is stored at the {looked_for} places looked at"
    remedy = "correct the limits or the levels, or write the container again"
    return 0, [Fault(Severity.WARNING, _named(reader.storage, key), "$", reason, remedy)]


def _wrong_size(storage: Storage, key: str, place: _PublishedLevel) -> Fault | None:
    """Return the fault for a slab whose size contradicts the descriptor, or None."""
    level = place.level
    try:
        mismatch = size_mismatch(storage, key, level.tiles_per_width, level.tiles_per_height)
    except StorageError:
        return None
    if mismatch is None:
        return None
    remedy = "correct tiles_per_width and tiles_per_height, or the location of the slabs"
    return Fault(
        Severity.ERROR, _named(storage, key), "$", f"{place.described}: {mismatch}", remedy
    )


def _index_faults(place: _PublishedLevel, index: TileIndex) -> list[Fault]:
    """Check all entries of an index; report the first invalid one."""
    storage, key = index.storage, index.key
    try:
        size = storage.stat(key).size
        for number in range(place.level.tiles_per_width * place.level.tiles_per_height):
            entry = index.tile(number)
            if entry is not None and sum(entry) > size:
                raise SlabFormatError(
                    f"tile {number} ends at {sum(entry)}, the slab at {size}: it is truncated"
                )
    except SlabFormatError as error:
        return [_damaged(storage, key, "$", place, error)]
    except StorageError as error:
        return [_unreadable(storage, key, "$", place, error)]
    return []


def _tile_faults(
    place: _PublishedLevel, index: TileIndex, tiles: Iterable[tuple[int, int]]
) -> list[Fault]:
    """Decode the first stored tile of a slab; return its problem, if any."""
    storage, key = index.storage, index.key
    decode = _decoder(place.layer, place.level)
    for row, col in tiles:
        at = f"tile {place.reader.place_of(row, col)[1]}"
        try:
            tile = place.reader.locate(row, col)
            if tile is not None:
                decode(tile.read())
                return []
        except SlabFormatError as error:
            return [_damaged(storage, key, at, place, error)]
        except StorageError as error:
            return [_unreadable(storage, key, at, place, error)]
    return []


def _decoder(layer: Layer, level: Level) -> Callable[[bytes], object]:
    """Return what decodes a tile; without mastaba-render, tiles are only read."""
    raster = layer.pyramid.raster
    if raster is None:
        return check_vector_tile
    if not can_draw():
        return bool
    from mastaba_render.api.decoding import TileDecoder

    return TileDecoder(
        layer.pyramid.format, raster.channels, level.matrix.tile_width, level.matrix.tile_height
    ).decode


def _named(storage: Storage, key: str) -> str:
    return f"{storage.full_name}/{key}" if storage.is_remote else key


def _damaged(
    storage: Storage, key: str, at: str, place: _PublishedLevel, error: SlabFormatError
) -> Fault:
    reason = f"{place.described}: {error}"
    if error.__cause__ is not None:
        reason += f" ({error.__cause__})"
    name = _named(storage, key)
    return Fault(
        Severity.ERROR,
        name,
        at,
        reason,
        f"compare with the pyramid descriptor; mastaba slab {name} shows its contents",
    )


def _unreadable(
    storage: Storage, key: str, at: str, place: _PublishedLevel, error: Exception
) -> Fault:
    remedy = (
        "check credentials and permissions"
        if isinstance(error, AccessDeniedError)
        else "check address, network and permissions"
    )
    return Fault(Severity.ERROR, _named(storage, key), at, f"{place.described}: {error}", remedy)


def _nothing(place: _PublishedLevel, tries: int, key: str) -> Fault:
    """Return the fault for a level without slabs: an error if all were looked for."""
    total = slab_count(place.level)
    storage = place.reader.storage
    return Fault(
        Severity.ERROR if tries >= total else Severity.WARNING,
        _named(storage, key),
        "$",
        f"{place.described}: none of {tries} slabs exists, out of {total} that the "
        "tile limits allow",
        "correct image_directory, or container and image_prefix, or the limits of the level",
    )
