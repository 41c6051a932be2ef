"""Files that are made before they are sent: compressed or resampled."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import TYPE_CHECKING, Final

import numpy as np

from mastaba.api.web import SizedBody, SpooledBody, check_wanted
from mastaba.errors import OverloadedError
from mastaba_coverage.answer import blocks_of, check_tiles, fields_of, window_of
from mastaba_coverage.errors import CoverageTooLargeError
from mastaba_coverage.layout import TiffImage, TiffLayout, framed
from mastaba_coverage.masks import masks_of
from mastaba_coverage.sources import KEPT, READ_AT_A_TIME, WrittenTiles
from mastaba_coverage.tags import image_fields, metadata_fields
from mastaba_render.api.geotiff import place_fields
from mastaba_render.api.maps import Sources

if TYPE_CHECKING:
    from mastaba.api.web import Body
    from mastaba_coverage.drawn import DrawnPlan
    from mastaba_coverage.limits import CoverageLimits
    from mastaba_coverage.plan import CoveragePlan
    from mastaba_render.api.decoding import Pixels
    from mastaba_render.api.geotiff import Field

IN_MEMORY: Final = 1024 * 1024
"""Bytes; a smaller file leaves its temporary file at once."""
_WRITTEN: Final = 256 * 1024
"""Bytes that are written together."""
_EXPANSION: Final = 8
"""How many bytes of values may become one byte of a file, when work is limited beforehand."""
_MEMORY: Final = 32 * 1024**2
"""Bytes that making stored values holds, in addition to a row of decoded tiles."""


class MadeStored:
    """The cells of a plan, read when they are needed.

    Args:
        plan: of stored values.
        limits: of the answer.

    Attributes:
        plan, limits: as given.
        fields: tags of each image.
        masks: the mask of each image; None for images without masks.
        cost: upper estimate of the bytes that are held while the file is made.
        advice: what to request if the file exceeds its limit.

    Raises:
        CoverageTooLargeError: a limit is exceeded.
        SlabFormatError, StorageError: an index cannot be read.
    """

    advice = (
        "request a smaller area, or compression=none, which is made while it is sent, so it may be "
        "larger"
    )

    def __init__(self, plan: CoveragePlan, limits: CoverageLimits) -> None:
        cell = len(plan.fields) * plan.coverage.dtype.itemsize
        size = sum(image.rows * image.columns * cell for image in plan.images)
        if size > limits.spool * _EXPANSION:
            raise CoverageTooLargeError(size, limits.spool * _EXPANSION, "bytes", self.advice)
        check_tiles(plan, limits)
        self.plan, self.limits = plan, limits
        self._blocks = blocks_of(plan, limits)
        self.fields = fields_of(plan, self._blocks[: len(plan.images)])
        self.masks = masks_of(plan, self._blocks)
        # Decoded tiles of a row, tiles that are read together, and those of the file.
        row = min(plan.columns * cell * plan.grid.matrix.tile_height, KEPT)
        tiles = max(READ_AT_A_TIME, plan.shape.width * plan.shape.height * cell)
        self.cost = _MEMORY + row * (1 + plan.has_mask) + 3 * tiles

    def sources(self) -> Sources:
        """Return the state of the stored tiles."""
        times = [block.modified for block in self._blocks]
        known = [time for time in times if time is not None]
        modified = max(known) if len(known) == len(times) else None
        if not all(block.has_versions for block in self._blocks):
            return Sources(None, modified)
        return Sources(repr([block.digests.tobytes() for block in self._blocks]), modified)

    def blocks(self, number: int) -> Iterator[Pixels | None]:
        """Yield the tiles of an image; None for one that is left out."""
        plan = self.plan
        return window_of(plan, plan.images[number], self._blocks[number]).blocks()


class MadeDrawn:
    """The cells of a plan, drawn when they are needed.

    Args:
        plan: of resampled values.
        limits: of the answer.

    Attributes:
        plan, limits, fields, masks, cost, advice: as those of `MadeStored`.
    """

    advice = "request a smaller area, or larger cells"

    def __init__(self, plan: DrawnPlan, limits: CoverageLimits) -> None:
        coverage = plan.coverage
        self.plan, self.limits = plan, limits
        self.masks: list[TiffImage | None] = [None] * len(plan.images)
        self.fields: list[list[Field]] = []
        for number, image in enumerate(plan.images):
            size = image.rows, image.columns
            tags = image_fields(
                *(coverage, size, plan.shape, plan.codec, plan.fields),
                is_overview=number > 0,
                # JPEG keeps no value exactly, and no tile is left out.
                has_nodata=plan.codec.name != "jpeg",
            )
            if number == 0:
                tags += place_fields(
                    plan.edges, size, plan.crs, is_post=plan.is_post, vertical=coverage.vertical
                )
                tags += metadata_fields(coverage, plan.origin)
            self.fields.append(tags)
        cell = len(coverage.fields) * coverage.dtype.itemsize
        drawing = sum(part.memory for part in plan.images[0].parts)
        self.cost = drawing + 3 * plan.columns * plan.shape.height * cell

    def sources(self) -> Sources:
        """Return the state of the stored tiles. After drawing, of those drawn."""
        parts = [part.sources() for image in self.plan.images for part in image.parts]
        return Sources.joined(parts, "\n")

    def blocks(self, number: int) -> Iterator[Pixels]:
        """Yield the tiles of an image."""
        plan, shape = self.plan, self.plan.shape
        coverage = plan.coverage
        channels = [coverage.fields.index(name) for name in plan.fields]
        nodata = np.array(coverage.nodata, coverage.dtype)[channels]
        for strip in plan.images[number].rows_of(channels, shape.height):
            check_wanted()
            rows, columns, _ = strip.shape
            for left in range(0, columns, shape.width):
                part = strip[:, left : left + shape.width]
                if shape.is_tiled and part.shape[:2] != (shape.height, shape.width):
                    tile = np.empty((shape.height, shape.width, len(channels)), coverage.dtype)
                    tile[:] = nodata
                    tile[:rows, : part.shape[1]] = part
                    part = tile
                yield part.astype(coverage.dtype, copy=False)


Made = MadeStored | MadeDrawn


class HeadedBody(SizedBody):
    """A head, and a spooled body after it.

    Args:
        head: bytes.
        rest: closed with this body.
    """

    def __init__(self, head: bytes, rest: SpooledBody) -> None:
        self._head = head
        self._rest = rest

    def __len__(self) -> int:
        return len(self._head) + len(self._rest)

    def __iter__(self) -> Iterator[bytes]:
        for start in range(0, len(self._head), IN_MEMORY):
            yield self._head[start : start + IN_MEMORY]
        yield from self._rest

    def close(self) -> None:
        """Remove the file."""
        self._rest.close()


def made_file(made: Made) -> Body:
    """Return the GeoTIFF of a plan, which is written to a temporary file if it is large.

    Raises:
        CoverageTooLargeError: it has more bytes than the limit.
        OverloadedError: the temporary file cannot be written.
        SlabFormatError, StorageError: the data cannot be read.
    """
    plan = made.plan
    try:
        spool = SpooledBody()
    except OSError as error:
        raise _no_file(error) from error
    try:
        # The coarsest image first, as in every file of this library.
        sizes = [_write(spool, made, number) for number in reversed(range(len(made.fields)))]
        layout = TiffLayout(
            [
                TiffImage(tags, WrittenTiles(np.array(found, np.int64)), plan.shape.is_tiled, mask)
                for tags, found, mask in zip(made.fields, reversed(sizes), made.masks, strict=True)
            ]
        )
        body = HeadedBody(bytes(layout.head), spool)
        assert len(body) == layout.size
        if len(body) > IN_MEMORY:
            return body
        found = b"".join(body)
    except BaseException:
        spool.close()
        raise
    spool.close()
    return found


def rows_of(made: Made) -> Iterator[Pixels]:
    """Yield the rows of the full resolution, if the plan has strips.

    Raises:
        SlabFormatError, StorageError: the data cannot be read.
    """
    for strip in made.blocks(0):
        assert strip is not None
        yield strip


def _write(spool: SpooledBody, made: Made, number: int) -> list[int]:
    """Write the tiles of an image, each with that of its mask.

    Returns:
        the size of each tile of the image; 0 for one that is left out.
    """
    sizes: list[int] = []
    waiting = bytearray()
    mask = made.masks[number]
    bits = repeat(b"") if mask is None else mask.source.tiles(0, len(mask.source.sizes))
    for pixels, behind in zip(made.blocks(number), bits, strict=False):
        if pixels is None:
            sizes.append(0)
            continue
        encoded = made.plan.codec.encode(pixels)
        sizes.append(len(encoded))
        waiting += framed(encoded)
        if behind:
            waiting += framed(behind)
        if len(waiting) >= _WRITTEN:
            _append(spool, waiting, made)
            check_wanted()
    _append(spool, waiting, made)
    return sizes


def _append(spool: SpooledBody, waiting: bytearray, made: Made) -> None:
    size, limit = len(spool) + len(waiting), made.limits.spool
    if size > limit:
        raise CoverageTooLargeError(size, limit, "bytes", made.advice)
    try:
        spool.append(bytes(waiting))
    except OSError as error:
        raise _no_file(error) from error
    waiting.clear()


def _no_file(error: OSError) -> OverloadedError:
    return OverloadedError(f"no temporary file can be written: {error.strerror}")
