"""The sources of joined pyramids: their numbers collide, so all but the first get others."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mastaba.api.catalogue import TILE_FORMATS
from mastaba_build.errors import BuildError
from mastaba_build.output.destination import Destination
from mastaba_build.output.numbers import NumberedSlab, SourceKey
from mastaba_build.output.source_records import SlabPosition, SourceRecord, read_source_record
from mastaba_build.output.storage import OutputStore
from mastaba_build.pixels.number_slabs import NumberTiles
from mastaba_build.pixels.stored import slab_index
from mastaba_build.plan.names import SOURCE, SOURCE_FORMAT, slab_key
from mastaba_build.plan.plan import Plan
from mastaba_build.plan.provenance import Provenance
from mastaba_build.pyramid.journal import Row
from mastaba_build.pyramid.provenance import place_of, read_table, with_numbers
from mastaba_build.pyramid.stored import StoredPyramid, reader_of
from mastaba_render.api.decoding import TileDecoder
from mastaba_writer.slab_writer import SlabAssembler

_THREADS = 16


class SourcesOf(NamedTuple):
    """The sources of one of the joined pyramids.

    Attributes:
        slabs: its slabs of numbers; their holders are relative to the output.
        numbers: the number that each of its numbers becomes.
    """

    slabs: Mapping[SlabPosition, NumberedSlab]
    numbers: Mapping[int, int]

    @property
    def is_kept(self) -> bool:
        """Whether the numbers stay as they are."""
        return all(old == new for old, new in self.numbers.items())


def joined_sources(
    store: OutputStore, output: Destination, pyramids: Sequence[StoredPyramid]
) -> tuple[Provenance, tuple[SourcesOf, ...]] | None:
    """Return the sources of a pyramid that joins others, and those of each of them.

    Args:
        store: the output, opened.
        output: the same.
        pyramids: the lowest first.

    Returns:
        None unless each of them has source numbers.

    Raises:
        VerificationError: a document is damaged.
        OutputError: a document cannot be read.
    """
    reader = reader_of(store, output)
    records: list[SourceRecord] = []
    for one in pyramids:
        record = read_source_record(reader.store, reader.key(one.key.removesuffix(".json")))
        if record is None:
            return None
        records.append(record)
    numbers: dict[SourceKey, int] = {}
    rows: dict[int, Mapping[str, object]] = {}
    overrides: dict[str, Mapping[str, object]] = {}
    following = records[0].next
    parts = []
    for position, (one, record) in enumerate(zip(pyramids, records, strict=True)):
        stem = one.key.removesuffix(".json")
        changes: dict[int, int] = {}
        for row in read_table(reader.store, reader.key(stem))["sources"]:
            old = int(row["number"])
            key = record.keys.get(old, SourceKey(one.key, "", str(old)))
            if key not in numbers:
                numbers[key] = old if position == 0 else following
                following += position > 0
            new = changes[old] = numbers[key]
            rows.setdefault(new, row)
            if str(old) in record.overrides:
                overrides.setdefault(str(new), record.overrides[str(old)])
        folder = posixpath.dirname(stem)
        slabs = {
            place: slab._replace(
                holder=posixpath.normpath(posixpath.join(folder, slab.holder or record.root))
            )
            for place, slab in record.slabs.items()
        }
        parts.append(SourcesOf(slabs, changes))
    keys = sorted(numbers, key=numbers.__getitem__)
    provenance = Provenance(
        tuple(keys),
        tuple(numbers[key] for key in keys),
        tuple(rows[numbers[key]] for key in keys),
        following,
        frozenset(place.level for part in parts for place in part.slabs),
        overrides=overrides,
    )
    return provenance, tuple(parts)


def rewritten(
    plan: Plan, store: OutputStore, rows: Sequence[Row], sources: Mapping[SlabPosition, SourcesOf]
) -> list[Row]:
    """Return linked slabs with their slabs of numbers, rewritten where the numbers change.

    Args:
        store: the output, opened.
        sources: those of the pyramid that has the slab.

    Raises:
        BuildError: a slab cannot be read or is damaged.
        OutputError: a slab cannot be written.
    """

    def numbered(row: Row) -> Row:
        place = place_of(plan, row)
        part = sources.get(place)
        slab = None if part is None else part.slabs.get(place)
        if part is None or slab is None or not row.result.size:
            return row
        if part.is_kept:
            return with_numbers(row, slab)
        key = slab_key(plan, row.result.slab, SOURCE)
        data = _mapped(plan, store.read(f"{slab.holder}/{key}"), part.numbers, key)
        md5 = store.write(f"{plan.root}/{key}", data).md5
        shares = sorted(one._replace(number=part.numbers[one.number]) for one in slab.shares)
        return with_numbers(row, NumberedSlab(len(data), md5, tuple(shares)))

    with ThreadPoolExecutor(_THREADS) as threads:
        return list(threads.map(numbered, rows))


def decoder_of(plan: Plan) -> TileDecoder:
    """Return the decoder of tiles of numbers."""
    matrix = plan.levels[0].matrix
    return TileDecoder(TILE_FORMATS[SOURCE_FORMAT], 1, matrix.tile_width, matrix.tile_height)


def _mapped(plan: Plan, data: bytes, numbers: Mapping[int, int], name: str) -> bytes:
    """Return a slab of numbers with others."""
    matrix = plan.levels[0].matrix
    width, height = plan.configuration.slab
    slab = SlabAssembler(
        format=SOURCE_FORMAT,
        channels=1,
        tile_width=matrix.tile_width,
        tile_height=matrix.tile_height,
        tiles_per_width=width,
        tiles_per_height=height,
        shared=True,
    )
    decoder, tiles = decoder_of(plan), NumberTiles()
    known: dict[bytes, bytes] = {b"": b""}
    try:
        for offset, size in slab_index(data, width * height):
            payload = data[offset : offset + size]
            if payload not in known:
                pixels = decoder.decode(payload)[:, :, 0].astype(np.int64)
                changed = changed_numbers(pixels, numbers).astype(np.float32)
                known[payload] = tiles.encoded(changed)
            slab.add(known[payload])
    except (ValueError, KeyError) as error:
        raise BuildError(f"{name}: is damaged: {error}") from None
    return bytes(slab.finish())


def changed_numbers(
    pixels: npt.NDArray[np.int64], numbers: Mapping[int, int]
) -> npt.NDArray[np.uint32]:
    """Return a tile of numbers with others; 0 stays.

    Raises:
        KeyError: a number is unknown.
    """
    found, places = np.unique(pixels, return_inverse=True)
    others = [0 if one == 0 else numbers[one] for one in found.tolist()]
    return np.array(others, np.uint32)[places.reshape(pixels.shape)]
