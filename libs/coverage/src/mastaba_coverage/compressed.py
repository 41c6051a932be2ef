"""Compressed files of any size: made part by part, and completed with their head."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from mastaba.api.web import check_wanted
from mastaba_coverage.answer import blocks_of, check_tiles, fields_of, key_of, version_of, window_of
from mastaba_coverage.errors import CoverageTooLargeError
from mastaba_coverage.layout import LARGEST_CLASSIC, TiffImage, TiffLayout, framed
from mastaba_coverage.masks import masks_of
from mastaba_coverage.plan import MOST_COMPUTED
from mastaba_coverage.sources import READ_AT_A_TIME, BitTiles, WrittenTiles, packed

if TYPE_CHECKING:
    from mastaba.api.catalogue import TileMatrix
    from mastaba_coverage.limits import CoverageLimits
    from mastaba_coverage.plan import CoveragePlan
    from mastaba_coverage.sources import PixelTiles, TileSource
    from mastaba_render.api.decoding import Pixels

_PART: Final = 2 * READ_AT_A_TIME
"""Bytes of the values in a part."""
_MOST_CLASSIC: Final = LARGEST_CLASSIC // 3 * 2
"""Bytes of values. LZW makes up to half as much more of noise."""


Change: TypeAlias = "Callable[[TileMatrix, int, int, Pixels], Pixels]"


class FilePart(NamedTuple):
    """Tiles of a compressed file.

    Attributes:
        data: the tiles as they are in the file.
        sizes: bytes of each tile, 0 for one that is left out; if the file has masks, each followed
            by those of the tile of its mask.
    """

    data: bytes
    sizes: list[int]


class CompressedFile:
    """The file of a plan that is not addressable.

    Its parts follow each other after `reserved` bytes, which the head fills when all sizes are
    known. So the file has any size, is written once, and can be continued after any part. The
    same pixels may be compressed into other bytes the next time.

    Args:
        plan: of stored values, none of them copied.
        limits: of the file; ``tiles`` and ``indices`` count.
        change: changes the pixels of a tile: takes the grid of its image, the row and column of
            its first cell in that, and its pixels; returns the new ones. None to keep them.
        change_mask: the same for the tiles of masks, whose pixels are 0 where there is no data.

    Attributes:
        plan: as given.
        version: text that changes with the stored tiles; None if they may change unnoticed.
        reserved: bytes of the head.

    Raises:
        CoverageTooLargeError: a limit is exceeded.
        SlabFormatError, StorageError: an index cannot be read.
    """

    def __init__(
        self,
        plan: CoveragePlan,
        limits: CoverageLimits,
        change: Change | None = None,
        change_mask: Change | None = None,
    ) -> None:
        check_tiles(plan, limits)
        self.plan = plan
        self._change, self._change_mask = change, change_mask
        blocks = blocks_of(plan, limits)
        of_images = blocks[: len(plan.images)]
        self._fields = fields_of(plan, of_images)
        self._windows = [
            window_of(plan, image, block)
            for image, block in zip(plan.images, of_images, strict=True)
        ]
        self._masks = masks_of(plan, blocks)
        sources: list[TileSource] = [*self._windows]
        sources += [mask.source for mask in self._masks if mask is not None]
        self._is_big = sum(int(one.sizes.sum()) for one in sources) > _MOST_CLASSIC
        self.version = version_of(key_of(plan), b"", blocks)
        self.reserved = len(self._layout([np.zeros_like(one.sizes) for one in self._windows]).head)

    @property
    def count(self) -> int:
        """Number of parts."""
        return len(self._parts)

    def part(self, number: int) -> FilePart:
        """Return a part of the file.

        Raises:
            ObjectChangedError: a slab has been replaced since its index was read.
            SlabFormatError, StorageError: a tile cannot be read or decoded.
        """
        encode = self.plan.codec.encode
        tiles: list[bytes] = []
        masks = self.masks(number)
        for pixels in self.pixels(number):
            tiles.append(b"" if pixels is None else encode(pixels))
            tiles += islice(masks, 1)
        return FilePart(b"".join(framed(tile) for tile in tiles if tile), [len(t) for t in tiles])

    def pixels(self, number: int) -> Iterator[Pixels | None]:
        """Yield the pixels of the tiles of a part; None for one that is left out.

        Raises:
            ObjectChangedError, SlabFormatError, StorageError: as `part`.
        """
        image, first, stop = self._parts[number]
        yield from self._pixels(image, self._windows[image], first, stop, self._change)

    def masks(self, number: int) -> Iterator[bytes]:
        """Yield the tiles of masks of a part; empty for one that is left out.

        Nothing is yielded if the file has no masks.

        Raises:
            ObjectChangedError, SlabFormatError, StorageError: as `part`.
        """
        image, first, stop = self._parts[number]
        mask = self._masks[image]
        if mask is None:
            return
        assert isinstance(mask.source, BitTiles)
        source = mask.source.pixels
        for pixels in self._pixels(image, source, first, stop, self._change_mask):
            yield b"" if pixels is None else packed(pixels)

    def _pixels(
        self, image: int, source: PixelTiles, first: int, stop: int, change: Change | None
    ) -> Iterator[Pixels | None]:
        """Yield the pixels of some tiles of an image, or of its mask."""
        shape, place = self.plan.shape, self.plan.images[image]
        matrix, (top, left) = place.matrix, place.corner
        across = shape.across(place.columns)
        for number, pixels in enumerate(source.blocks(first, stop), first):
            if pixels is None or change is None:
                yield pixels
            else:
                row, column = divmod(number, across)
                first_row, first_column = top + row * shape.height, left + column * shape.width
                yield change(matrix, first_row, first_column, pixels)

    def present(self, number: int) -> list[bool]:
        """Return for each size of a part (`FilePart.sizes`) whether it is not 0."""
        image, first, stop = self._parts[number]
        found = self._windows[image].sizes[first:stop] > 0
        return [bool(one) for one in np.repeat(found, 1 + self.plan.has_mask)]

    def head(self, sizes: Sequence[int] | npt.NDArray[np.integer]) -> bytes:
        """Return the first `reserved` bytes of the file.

        Args:
            sizes: of all tiles, part by part (`FilePart.sizes`).

        Raises:
            CoverageTooLargeError: compression made the file too large for its offsets.
        """
        left = np.array(sizes, np.int64)[:: 1 + self.plan.has_mask]
        found = []
        for window in reversed(self._windows):
            found.append(left[: len(window.sizes)])
            left = left[len(window.sizes) :]
        layout = self._layout(found[::-1])
        if not self._is_big and layout.size >= 1 << 32:
            raise CoverageTooLargeError(layout.size, 1 << 32, "bytes")
        return bytes(layout.head)

    def estimate(self, most: int) -> tuple[int, list[tuple[list[int], int]]]:
        """Return about how many bytes the file will have, and what that was found from.

        Args:
            most: tiles of each image that are compressed to find out.

        Returns:
            the bytes; and for each image the sizes of those tiles, and the number of all.

        Raises:
            ClientGoneError, OverloadedError: the estimate is no longer wanted.
            ObjectChangedError, SlabFormatError, StorageError: as `part`.
        """
        total = self.reserved
        samples: list[tuple[list[int], int]] = []
        sizes: list[int] = []
        for image, window in enumerate(self._windows):
            numbers = np.flatnonzero(window.sizes)
            if not len(numbers):
                continue
            sampling = self.plan.images[image].sampling
            # A tile of a very coarse overview needs a large part of the level: those before it
            # stand for it.
            if not sizes or sampling is None or sampling.step <= MOST_COMPUTED:
                chosen = numbers[np.unique(np.linspace(0, len(numbers) - 1, most).astype(int))]
                sizes = []
                for one in chosen:
                    check_wanted()
                    tiles = self._pixels(image, window, int(one), int(one) + 1, self._change)
                    sizes += [
                        len(framed(self.plan.codec.encode(pixels)))
                        for pixels in tiles
                        if pixels is not None
                    ]
            samples.append((sizes, len(numbers)))
            total += round(sum(sizes) / len(sizes) * len(numbers))
            if (mask := self._masks[image]) is not None:
                # They are not compressed.
                total += int((mask.source.sizes[numbers] + len(framed(b""))).sum())
        return total, samples

    @cached_property
    def _parts(self) -> list[tuple[int, int, int]]:
        """Number of the image, first tile, and the one after the last; in the order of the file."""
        parts = []
        for image in reversed(range(len(self._windows))):
            window = self._windows[image]
            count = len(window.sizes)
            across = self.plan.shape.across(self.plan.images[image].columns)
            at_a_time = max(1, _PART // window.nbytes)
            if at_a_time > across:
                # Whole rows: their stored tiles are not decoded twice.
                at_a_time -= at_a_time % across
            starts = range(0, count, at_a_time)
            parts += [(image, first, min(first + at_a_time, count)) for first in starts]
        return parts

    def _layout(self, sizes: Sequence[np.ndarray[tuple[int], np.dtype[np.int64]]]) -> TiffLayout:
        images = [
            TiffImage(tags, WrittenTiles(found), self.plan.shape.is_tiled, mask)
            for tags, found, mask in zip(self._fields, sizes, self._masks, strict=True)
        ]
        return TiffLayout(images, is_big=self._is_big)
