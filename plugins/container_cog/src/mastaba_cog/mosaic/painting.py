"""Tiles of a mosaic: which files they need, and their pixels."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mastaba.api.catalogue import TileMatrix
from mastaba.errors import InvalidParameterError
from mastaba_cog.mosaic.members import Kind, Member, Placement
from mastaba_cog.reader import CogTile
from mastaba_render.api.resampling import Axis, StraightPositions, Window, resampled_with_gaps
from mastaba_server.threads.per_process import ThreadPool

Pixels = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]

MOST_IN_TILE: Final = 16
"""Files that a tile may need."""
MOST_IN_MAP: Final = 64
"""Files that a map may need."""
MOST_STORED: Final = 64
"""Stored tiles of a file that a tile may need."""
_MOST_PIXELS: Final = 16 * 1024 * 1024
"""Pixels of a file that a tile may need."""
_MOST_BYTES: Final = 128 * 1024 * 1024
"""Stored bytes of a file that a tile may need."""
_READS: Final = ThreadPool(16, "mosaic-read")
"""The threads that read the parts of one tile in parallel."""


def too_many(reason: str) -> InvalidParameterError:
    """Return the error of a tile or map that needs more than the limits allow."""
    return InvalidParameterError(f"too many sources: {reason}; request a finer scale")


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one file adds to a tile.

    Attributes:
        row: of the table.
        member: the file.
        image: number of its image.
        placement: of the image in the matrix.
        where: pixels of the matrix that it may paint, inside the tile.
        source: pixels of the image that these need, and some beyond its edges.
        tiles: stored tiles, by row and column; sparse ones are absent.
        is_full: whether none is absent.
    """

    row: int
    member: Member
    image: int
    placement: Placement
    where: Window
    source: Window
    tiles: dict[tuple[int, int], CogTile]
    is_full: bool


@dataclass(frozen=True)
class Recipe:
    """How a tile is made.

    Attributes:
        parts: from the top.
        stored: the only stored tile, sent as it is; None if pixels are painted.
    """

    parts: Sequence[Contribution]
    stored: CogTile | None

    @cached_property
    def place(self) -> tuple[int, int]:
        """A number that changes with all that the tile is made of, and its stored bytes."""
        digest = hashlib.blake2b(digest_size=8)
        length = 0
        for part in self.parts:
            member = part.member
            # Without versions, two reads may give other bytes of the same place.
            version = member.version if member.version is not None else id(member)
            digest.update(f"{member.identity[:2]}{version}{member.row_version}".encode())
            for tile in part.tiles.values():
                digest.update(b"%x-%x" % (tile.offset, tile.length))
                length += tile.length
        return int.from_bytes(digest.digest(), "big"), max(1, length)

    @cached_property
    def is_versioned(self) -> bool:
        """Whether all files have versions."""
        return all(part.member.version is not None for part in self.parts)

    @cached_property
    def modified(self) -> float | None:
        """When the last of the files was changed."""
        found = [part.member.modified for part in self.parts]
        return max((one for one in found if one is not None), default=None)


class UnknownError(Exception):
    """What a tile needs is not known without a read."""


def part_of(
    row: int,
    member: Member,
    matrix: TileMatrix,
    tile: Window,
    kernel: str,
    *,
    only_known: bool = False,
) -> Contribution | None:
    """Return what a file adds to a tile, or None if nothing.

    Args:
        row: of the table.
        tile: the pixels of the tile in the matrix.
        kernel: for files with other pixels than the matrix.
        only_known: read nothing.

    Raises:
        InvalidParameterError: it needs too many stored tiles.
        UnknownError: the places of its tiles must be read, with ``only_known``.
        SlabFormatError, StorageError: the places of its tiles cannot be read.
    """
    number, place = member.placed(matrix)
    where = Window(
        max(tile.top, math.ceil(place.top - 0.5)),
        min(tile.bottom, math.ceil(place.bottom - 0.5)),
        max(tile.left, math.ceil(place.left - 0.5)),
        min(tile.right, math.ceil(place.right - 0.5)),
    )
    if where.top >= where.bottom or where.left >= where.right:
        return None
    image = member.geotiff.images[number]
    if place.is_exact:
        down, over = int(place.top), int(place.left)
        source = Window(
            where.top - down, where.bottom - down, where.left - over, where.right - over
        )
    else:
        positions = _positions(place, where, (image.height, image.width))
        source = positions.needs(kernel, slice(0, where.bottom - where.top)).window
    # Kernels may read beyond the edges.
    bottom, right = min(source.bottom, image.height), min(source.right, image.width)
    rows = range(max(0, source.top) // image.tile_height, (bottom - 1) // image.tile_height + 1)
    columns = range(max(0, source.left) // image.tile_width, (right - 1) // image.tile_width + 1)
    pixels = (source.bottom - source.top) * (source.right - source.left)
    if len(rows) * len(columns) > MOST_STORED or pixels > _MOST_PIXELS:
        raise too_many("a file has no overviews for this scale")
    if only_known and not all(member.knows(number, at, col) for at in rows for col in columns):
        raise UnknownError
    tiles = {
        (at, col): found
        for at in rows
        for col in columns
        if (found := member.stored(number, at, col, is_framed=True)) is not None
    }
    if sum(found.length for found in tiles.values()) > _MOST_BYTES:
        raise too_many("the tiles of a file are too large")
    is_full = len(tiles) == len(rows) * len(columns)
    return (
        Contribution(row, member, number, place, where, source, tiles, is_full) if tiles else None
    )


def whole_tile(part: Contribution, tile: Window) -> CogTile | None:
    """Return the stored tile that has exactly the pixels of a tile, in the delivered format.

    Raises:
        SlabFormatError, StorageError: its place cannot be read.
    """
    image, source = part.member.geotiff.images[part.image], part.source
    height, width = tile.shape
    is_whole = (
        part.member.is_stored
        and part.placement.is_exact
        and (image.tile_height, image.tile_width) == (height, width)
        and source.shape == (height, width)
        and source.top % height == 0
        and source.left % width == 0
    )
    if not is_whole:
        return None
    at = source.top // height, source.left // width
    return part.member.stored(part.image, *at, is_framed=False)


def _positions(place: Placement, where: Window, size: tuple[int, int]) -> StraightPositions:
    def axis(start: int, end: int, corner: float, most: int) -> Axis:
        centres = (np.arange(start, end, dtype=np.float64) + 0.5 - corner) / place.scale - 0.5
        return Axis(centres, 1 / place.scale, None, (0, most))

    return StraightPositions(
        axis(where.left, where.right, place.left, size[1]),
        axis(where.top, where.bottom, place.top, size[0]),
    )


def read_parts(
    parts: Sequence[Contribution],
) -> Iterator[tuple[Contribution, dict[tuple[int, int], bytes]]]:
    """Yield the payloads of each part, from the top; together if storages are remote.

    Raises:
        the errors of `CogTile.read_once`.
    """
    if any(part.member.storage.is_remote for part in parts):
        tiles = [tile for part in parts for tile in part.tiles.values()]
        payloads = iter(_READS.map(lambda tile: tile.read_once(), tiles))
        for part in parts:
            yield part, {place: next(payloads) for place in part.tiles}
        return
    for part in parts:
        yield part, {place: tile.read_once() for place, tile in part.tiles.items()}


def painted(recipe: Recipe, tile: Window, kind: Kind, kernel: str) -> Pixels:
    """Return the pixels of a tile: shape (rows, columns, channels), uint8 or float32.

    Raises:
        SlabFormatError: a file is damaged.
        StorageError: a file cannot be read, or was replaced.
    """
    dtype = np.float32 if kind.is_float else np.uint8
    pixels: Pixels = np.empty((*tile.shape, kind.channels), dtype)
    pixels[:] = kind.nodata
    if kind.has_alpha:
        pixels[:] = 0
    todo = np.ones(tile.shape, np.bool_)
    for part, payloads in read_parts(recipe.parts):
        inside = part.where.counted_from(tile.top, tile.left)
        found, valid = _drawn(part, payloads, kernel)
        wanted = todo[inside] if valid is None else todo[inside] & valid
        target = pixels[inside]
        target[..., : kind.colours][wanted] = found[..., : kind.colours][wanted]
        if kind.has_alpha:
            alpha = found[..., -1][wanted] if part.member.how.adds_alpha else 255
            target[..., -1][wanted] = alpha
        todo[inside] &= ~wanted
        if not todo.any():
            break
    return pixels


def _drawn(
    part: Contribution, payloads: dict[tuple[int, int], bytes], kernel: str
) -> tuple[Pixels, Mask | None]:
    """Return the pixels of a part, and which have data; None for all."""
    pixels, valid = _source(part, payloads)
    if part.placement.is_exact:
        return pixels, valid
    image, where = part.member.geotiff.images[part.image], part.where
    positions = _positions(part.placement, where, (image.height, image.width))
    how = part.member.how
    corner = part.source.top, part.source.left
    if how.adds_alpha:
        # Colours without data must not be mixed with others.
        drawn, found = resampled_with_gaps(
            positions, kernel, corner, pixels[..., :-1].astype(np.float32), valid
        )
        alpha, _ = resampled_with_gaps(
            positions, kernel, corner, pixels[..., -1:].astype(np.float32), valid
        )
        drawn = np.concatenate([drawn, alpha], axis=2)
    else:
        drawn, found = resampled_with_gaps(
            positions, kernel, corner, pixels.astype(np.float32, copy=False), valid
        )
    if not how.is_float:
        drawn = np.clip(np.rint(drawn), 0, 255).astype(np.uint8)
    return drawn, found


def _source(
    part: Contribution, payloads: dict[tuple[int, int], bytes]
) -> tuple[Pixels, Mask | None]:
    """Return the pixels of the image that a part needs, and which have data; None for all."""
    member, window = part.member, part.source
    image, how = member.geotiff.images[part.image], member.how
    converter = member.converter(part.image)
    dtype = np.float32 if how.is_float else np.uint8
    pixels: Pixels = np.zeros((*window.shape, converter.channels), dtype)
    there = np.zeros(window.shape, np.bool_)
    for (row, col), payload in payloads.items():
        decoded = converter.decode(payload)
        top, left = row * image.tile_height, col * image.tile_width
        shared = Window(
            max(top, window.top),
            min(top + image.tile_height, image.height, window.bottom),
            max(left, window.left),
            min(left + image.tile_width, image.width, window.right),
        )
        inside = shared.counted_from(window.top, window.left)
        pixels[inside] = decoded[shared.counted_from(top, left)]
        there[inside] = True
    if how.is_float:
        there &= pixels[..., 0] != np.float32(how.nodata)
    elif how.adds_alpha:
        there &= pixels[..., -1] != 0
    return pixels, None if there.all() else there
