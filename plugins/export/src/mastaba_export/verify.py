"""Verification of exports: the rules of each format, and tiles compared with the layer."""

from __future__ import annotations

import random
import sqlite3
import struct
import zlib
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple

from mastaba.errors import ObjectChangedError
from mastaba_coverage import CompressedFile, CoverageTooLargeError
from mastaba_export.archives import ARCHIVES, Archive
from mastaba_export.errors import DamagedArchiveError
from mastaba_export.raster_tiles import check_tile
from mastaba_export.sources import StoredTiles

if TYPE_CHECKING:
    import numpy.typing as npt

    from mastaba_export.plan import ExportPlan

_SAMPLED: Final = 1000
"""Tiles that are compared if not all are."""
_OF_UNIT: Final = 16
"""Tiles of a slab that are compared if not all are."""
_SEED: Final = 1
_PIECE: Final = 8 * 1024 * 1024
_LEAST_TILE: Final = 65536
"""Bytes of a tile that are read, however few its pixels are."""


class Verified(NamedTuple):
    """Numbers of tiles in the output, and of those that were compared with the layer."""

    tiles: int
    compared: int


def verify(plan: ExportPlan, path: str | Path, *, deep: bool = False) -> Verified:
    """Verify the output of an export.

    Args:
        plan: of an export with the same inputs.
        path: of the output.
        deep: compare every tile, not only about 1,000.

    Raises:
        DamagedArchiveError: it breaks a rule of its format, or differs from the layer.
        SlabFormatError, StorageError: the layer cannot be read.
    """
    path = Path(str(path).rstrip("/"))
    if not path.exists():
        raise DamagedArchiveError(f"{path} does not exist")
    if plan.coverage is not None:
        return _verify_file(plan, path, deep=deep)
    try:
        with closing(ARCHIVES[plan.format](plan, path)) as archive:
            archive.check()
            return _compare(plan, archive, deep=deep)
    except (sqlite3.Error, OSError, ValueError, KeyError, struct.error, zlib.error) as error:
        raise DamagedArchiveError(f"{path.name} is damaged: {error}") from None


def _verify_file(plan: ExportPlan, path: Path, *, deep: bool) -> Verified:
    answer = plan.file()
    if isinstance(answer, CompressedFile):
        return _verify_compressed(plan, answer, path, deep=deep)
    size = path.stat().st_size
    if size != answer.size:
        raise DamagedArchiveError(f"{path.name} has {size:,} bytes instead of {answer.size:,}")
    starts = range(0, size, _PIECE)
    chosen = list(starts) if deep else random.Random(_SEED).sample(starts, min(8, len(starts)))  # noqa: S311
    try:
        with path.open("rb") as file:
            for start in sorted({0, *chosen}):
                file.seek(start)
                end = min(start + _PIECE, size)
                if file.read(end - start) != b"".join(answer.pieces(start, end)):
                    raise DamagedArchiveError(
                        f"{path.name} differs from the layer after byte {start:,}"
                    )
    except ObjectChangedError:
        raise DamagedArchiveError("the layer changes while it is compared") from None
    return Verified(plan.tiles, plan.tiles if deep else 0)


def _verify_compressed(
    plan: ExportPlan, whole: CompressedFile, path: Path, *, deep: bool
) -> Verified:
    """Compare the values of a compressed raster with the layer: its bytes may be others."""
    numbers = range(whole.count)
    chosen = set(numbers if deep else random.Random(_SEED).sample(numbers, min(8, len(numbers))))  # noqa: S311
    sizes: list[int] = []
    compared = 0
    with path.open("rb") as file:
        file.seek(whole.reserved)
        try:
            for number in numbers:
                if number in chosen:
                    masks = whole.masks(number)
                    for pixels in whole.pixels(number):
                        sizes.append(0 if pixels is None else _check_next(file, pixels, whole))
                        compared += pixels is not None
                        sizes += [_check_mask(file, mask) for mask in islice(masks, 1)]
                    continue
                for is_there in whole.present(number):
                    size = struct.unpack("<I", file.read(4))[0] if is_there else 0
                    file.seek(size + 4 if is_there else 0, 1)
                    sizes.append(size)
            is_whole = file.tell() == path.stat().st_size
            file.seek(0)
            if not is_whole or file.read(whole.reserved) != whole.head(sizes):
                raise DamagedArchiveError("its head or its length is wrong")
        except ObjectChangedError:
            raise DamagedArchiveError("the layer changes while it is compared") from None
        except (DamagedArchiveError, CoverageTooLargeError, struct.error) as error:
            raise DamagedArchiveError(f"{path.name} is damaged: {error}") from None
    return Verified(plan.tiles, compared)


def _check_next(file: BinaryIO, pixels: npt.NDArray[Any], whole: CompressedFile) -> int:
    """Check the tile at the position of a file; return its size."""
    size: int = struct.unpack("<I", file.read(4))[0]
    tile = file.read(min(size, 2 * pixels.nbytes + _LEAST_TILE))
    check_tile(tile, pixels, whole.plan.codec)
    if file.read(4) != tile[-4:]:
        raise DamagedArchiveError("what follows a tile is wrong")
    return size


def _check_mask(file: BinaryIO, mask: bytes) -> int:
    """Check the tile of a mask at the position of a file; return its size."""
    found = struct.pack("<I", len(mask)), mask, mask[-4:].rjust(4, b"\0")
    if mask and file.read(len(mask) + 8) != b"".join(found):
        raise DamagedArchiveError("a mask differs from the layer")
    return len(mask)


def _compare(plan: ExportPlan, archive: Archive, *, deep: bool) -> Verified:
    """Compare tiles with the layer."""
    numbers = list(range(plan.count))
    chance = random.Random(_SEED)  # noqa: S311 - a sample, no secret
    if not deep:
        chance.shuffle(numbers)
    compared = expected = 0
    for number in numbers:
        unit = plan.unit(number)
        level = plan.levels[unit.level]
        source = level.source
        places = source.places(unit.row, unit.column)
        if not deep and len(places) > _OF_UNIT:
            places = chance.sample(places, _OF_UNIT)
        if isinstance(source, StoredTiles):
            batch = source.read(unit.row, unit.column)
            wanted = {(tile.row, tile.column): tile.payload for tile in batch.tiles}
        else:
            drawn = ((place, source.tile(*place)) for place in places)
            wanted = {place: payload for place, payload in drawn if payload is not None}
        for place in places:
            if archive.tile(unit, level, *place) != wanted.get(place):
                kind = "mask" if level.is_mask else "tile"
                raise DamagedArchiveError(
                    f"the {kind} of level {level.matrix.id}, row {place[0]}, column {place[1]} "
                    "differs from that of the layer"
                )
        compared += len(places)
        expected += 0 if level.is_mask else len(wanted)
        if not deep and compared >= _SAMPLED:
            break
    if deep and expected != archive.count:
        raise DamagedArchiveError(f"there are {archive.count:,} tiles instead of {expected:,}")
    return Verified(archive.count, compared)
