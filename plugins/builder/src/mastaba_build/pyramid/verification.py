"""Verification of a pyramid: what is stored against its build record."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from typing import Any, TypeAlias

import numpy as np

from mastaba.api.catalogue import TILE_FORMATS, TileLimits
from mastaba.errors import MastabaError
from mastaba_build.errors import VerificationError
from mastaba_build.output.destination import Destination
from mastaba_build.output.numbers import NumberedSlab
from mastaba_build.output.records import Record, RecordedSlab
from mastaba_build.output.source_records import SUMS, read_source_record
from mastaba_build.output.storage import OutputStore
from mastaba_build.output.versions import read_record
from mastaba_build.pixels.stored import HEADER, slab_index
from mastaba_build.plan.levels import union
from mastaba_build.plan.names import SOURCE, SOURCE_FORMAT, placed_key, recorded_key
from mastaba_build.pyramid.parents import Parents
from mastaba_build.vector.payload import layers
from mastaba_build.vector.plan import FORMAT
from mastaba_render.api.decoding import TileDecoder

Decode: TypeAlias = Callable[[bytes], object]
"""Decodes a tile; raises an error if it is damaged."""

_ALIGNMENT = 16
_MOST_REPORTED = 20


def verify(output: Destination, name: str, *, full: bool = False) -> int:
    """Check a published pyramid and return the number of its slabs.

    Compares sizes and MD5 sums with the build record, the list with the objects, and checks the
    index of every slab. Links must lead to slabs.

    Args:
        full: also decode every tile, and compare the levels with each other; see `Parents`.

    Raises:
        VerificationError: something differs; the message names the slabs.
        OutputError: the output cannot be read.
    """
    with closing(output.open()) as store:
        return _verify(output, store, name, full=full)


def _verify(output: Destination, store: OutputStore, name: str, *, full: bool) -> int:
    record = read_record(store, name)
    if record is None:
        raise VerificationError(f"{output.path(f'{name}.build.json')} does not exist")
    try:
        descriptor = json.loads(store.read(f"{name}.json"))
        lines = store.read(f"{name}.list").decode().splitlines()
    except FileNotFoundError as error:
        raise VerificationError(f"{error.filename or error} does not exist") from None
    except ValueError as error:
        raise VerificationError(f"{output.path(f'{name}.json')} cannot be read: {error}") from None
    tiles = {
        level["id"]: level["tiles_per_width"] * level["tiles_per_height"]
        for level in descriptor["levels"]
    }
    decode = _decode(descriptor, record.tile_size) if full else None
    parents = Parents(store, record, descriptor) if full else None
    problems: list[str] = []
    listed = {line.partition(" ")[0] for line in lines}  # an MD5 sum may follow
    roots = _roots(lines)
    expected: set[str] = set()
    for slab in record.stored():
        key, holder = recorded_key(descriptor, slab), slab.holder or record.root
        expected.add(key)
        problem = _slab_problem(store, record, slab, key, tiles[slab.level], decode)
        if problem is None and f"{roots.get(output.listed(holder))}/{key}" not in listed:
            problem = "is missing from the list"
        if problem is None and parents is not None:
            problem = parents.problem(slab)
        if problem:
            problems.append(f"{key}: {problem}")
    stored = {key.removeprefix(f"{record.root}/") for key in store.list(f"{record.root}/DATA")}
    problems += _wrong_limits(record, descriptor)
    problems += [f"{key}: is not in the build record" for key in sorted(stored - expected)]
    problems += _numbers_problems(store, descriptor, name, record.tile_size, full=full)
    if problems:
        more = len(problems) - _MOST_REPORTED
        shown = problems[:_MOST_REPORTED] + ([f"and {more} more"] if more > 0 else [])
        raise VerificationError("\n".join(shown))
    return len(expected)


def _wrong_limits(record: Record, descriptor: dict[str, Any]) -> list[str]:
    """Return the levels whose limits are not those of their tiles with data."""
    found: dict[str, list[TileLimits]] = {}
    for slab in record.stored():
        if slab.limits is not None:
            found.setdefault(slab.level, []).append(slab.limits)
    return [
        f"level {level['id']}: its tile limits are not those of its slabs"
        for level in descriptor["levels"]
        if level["id"] in found and TileLimits(**level["tile_limits"]) != union(found[level["id"]])
    ]


def _roots(lines: list[str]) -> dict[str, str]:
    """Return the number of each root in a list."""
    head = lines[: lines.index("#")] if "#" in lines else []
    pairs = [line.partition("=") for line in head]
    return {path: number for number, _, path in pairs}


def _slab_problem(
    store: OutputStore,
    record: Record,
    slab: RecordedSlab,
    key: str,
    tiles: int,
    decode: Decode | None,
) -> str | None:
    try:
        data = _stored(store, record.root, slab, key)
    except ValueError as error:
        return str(error)
    return slab_problem(data, tiles, decode)


def _stored(store: OutputStore, root: str, slab: RecordedSlab | NumberedSlab, key: str) -> bytes:
    """Return the bytes of a slab.

    Raises:
        ValueError: they are not those of the record, or a link does not lead to them.
    """
    try:
        data = store.read(f"{slab.holder or root}/{key}")
        link = None if slab.holder is None else store.read(f"{root}/{key}")
    except FileNotFoundError:
        raise ValueError("does not exist") from None
    md5 = hashlib.md5(data, usedforsecurity=False).hexdigest()
    if len(data) != slab.size or slab.md5 not in ("", md5):  # "" of joined slabs: not known
        raise ValueError("differs from the build record")
    if link is not None and link != data and not link.endswith(f"/{slab.holder}/{key}".encode()):
        raise ValueError(f"does not lead to the slab of {slab.holder}")
    return data


def _numbers_problems(
    store: OutputStore,
    descriptor: dict[str, Any],
    name: str,
    tile_size: tuple[int, int],
    *,
    full: bool,
) -> list[str]:
    """Return what is wrong with the slabs of source numbers, one line each.

    Args:
        full: also count the pixels of each source.
    """
    record = read_source_record(store, name)
    if record is None:
        return [f"{name}{SUMS}: does not exist"] if "provenance" in descriptor else []
    level = descriptor["levels"][0]
    tiles = level["tiles_per_width"] * level["tiles_per_height"]
    decoder = TileDecoder(TILE_FORMATS[SOURCE_FORMAT], 1, *tile_size)
    problems = []
    keys = {placed_key(descriptor, *place, SOURCE): slab for place, slab in record.slabs.items()}
    for key, slab in keys.items():
        try:
            data = _stored(store, record.root, slab, key)
            problem = slab_problem(data, tiles, None, shared=True)
            if problem is None and full:
                problem = _wrong_shares(data, tiles, slab, decoder)
        except (ValueError, MastabaError) as error:
            problem = str(error)
        if problem:
            problems.append(f"{key}: {problem}")
    stored = {key.removeprefix(f"{record.root}/") for key in store.list(f"{record.root}/{SOURCE}")}
    return problems + [f"{key}: is not in {name}{SUMS}" for key in sorted(stored - keys.keys())]


def _wrong_shares(data: bytes, tiles: int, slab: NumberedSlab, decoder: TileDecoder) -> str | None:
    """Return what is wrong with the recorded shares of the sources in a slab, or None."""
    counts: Counter[int] = Counter()
    of_payload: dict[bytes, Counter[int]] = {}
    for offset, size in slab_index(data, tiles):
        payload = data[offset : offset + size]
        if size and payload not in of_payload:
            numbers, pixels = np.unique(decoder.decode(payload), return_counts=True)
            of_payload[payload] = Counter(
                dict(zip(map(int, numbers.tolist()), pixels.tolist(), strict=True))
            )
        counts += of_payload.get(payload, Counter())
    del counts[0]
    is_right = counts == {share.number: share.pixels for share in slab.shares}
    return None if is_right else "its numbers are not those of the record"


def slab_problem(
    data: bytes, tiles: int, decode: Decode | None, *, shared: bool = False
) -> str | None:
    """Return what is wrong with the bytes of a slab of some tiles, or None.

    Args:
        shared: whether tiles may share their bytes.
    """
    try:
        index = slab_index(data, tiles)
    except ValueError as error:
        return str(error)
    end = HEADER + 8 * tiles
    decoded = b""
    known: set[tuple[int, int]] = set()
    for number, (offset, size) in enumerate(index):
        if not size:
            continue  # an absent tile
        if shared and (offset, size) in known:
            continue
        known.add((offset, size))
        if offset < end or offset + size > len(data) or (number and offset % _ALIGNMENT):
            return f"the position of tile {number} is wrong"
        end = offset + size
        tile = data[offset:end]
        # Most tiles of a sparse slab are nodata, one after another.
        if decode is not None and tile != decoded:
            try:
                decode(tile)
            except (MastabaError, ValueError) as error:
                return f"tile {number} cannot be decoded: {error}"
            decoded = tile
    return None if end == len(data) else "it has bytes after its last tile"


def _decode(descriptor: dict[str, Any], tile_size: tuple[int, int]) -> Decode:
    if descriptor["format"] == FORMAT:
        return lambda tile: list(layers(tile))
    channels = descriptor["raster_specifications"]["channels"]
    return TileDecoder(TILE_FORMATS[descriptor["format"]], channels, *tile_size).decode
