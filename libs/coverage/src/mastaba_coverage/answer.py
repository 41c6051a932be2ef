"""The file of a plan, as a body of which any part can be made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

import mastaba
from mastaba.api.web import AddressableBody
from mastaba.errors import ObjectChangedError
from mastaba_coverage.block import TileBlock
from mastaba_coverage.errors import CoverageTooLargeError
from mastaba_coverage.layout import TiffImage, TiffLayout
from mastaba_coverage.sources import CopiedTiles, TileSource, WindowTiles
from mastaba_coverage.tags import COMPRESSIONS, image_fields, metadata_field, place_fields
from mastaba_render.api.decoding import TileDecoder

if TYPE_CHECKING:
    from mastaba_coverage.plan import CoveragePlan, ImagePlan

_UNCOMPRESSED: Final = 1
_SAMPLED: Final = 8
"""Tiles of each image that are read to find out whether they can be copied."""


@dataclass(frozen=True, slots=True)
class CoverageLimits:
    """Limits of one answer.

    Attributes:
        stream_bytes: bytes of the file.
        tiles: tiles of the file.
        indices: slabs whose indices are read.
    """

    stream_bytes: int = 16 * 1024**3
    tiles: int = 1_048_576
    indices: int = 8192


class NotCopyableError(Exception):
    """Stored tiles differ from what the tags would declare."""


class Answer(AddressableBody):
    """The file of a plan.

    Creating it reads the indices of all slabs. Its parts are made from the versions of slabs of
    that moment; if one is replaced, making them fails.

    Args:
        plan: what is in the file.
        limits: of this answer.

    Attributes:
        plan: as given.

    Raises:
        CoverageTooLargeError: a limit is exceeded.
        NotCopyableError: stored JPEG tiles are not all of one kind. Plan without copies.
        SlabFormatError, StorageError: an index cannot be read.
    """

    def __init__(self, plan: CoveragePlan, limits: CoverageLimits) -> None:
        self.plan = plan
        _check_tiles(plan, limits)
        left = limits.indices
        sources: list[TileSource] = []
        versions: list[str | None] = []
        self._blocks: list[TileBlock] = []
        for image in plan.images:
            block = TileBlock(image.grid.reader, image.tiles, left)
            self._blocks.append(block)
            left -= len(block.versions)
            versions += block.versions
            sources.append(_source(plan, image, block))
        self._layout = TiffLayout(
            [
                _image(plan, image, source, is_overview=number > 0)
                for number, (image, source) in enumerate(zip(plan.images, sources, strict=True))
            ]
        )
        if self._layout.size > limits.stream_bytes:
            raise CoverageTooLargeError(self._layout.size, limits.stream_bytes, "bytes")
        super().__init__(self._layout.size, _version(plan, self._layout.head, versions))

    def pieces(self, start: int, end: int) -> Iterator[bytes]:
        """Yield bytes of the file; see `AddressableBody.pieces`.

        Raises:
            ObjectChangedError: a slab has been replaced.
            SlabFormatError, StorageError: a tile cannot be read or decoded.
        """
        try:
            yield from self._layout.pieces(start, end)
        except ObjectChangedError:
            # Usually, more than one slab is replaced; the next answer must not use the others.
            for block in self._blocks:
                block.forget()
            raise


def extract(plan: CoveragePlan, limits: CoverageLimits) -> Answer:
    """Return the file of a plan, with its tiles copied if they all can be.

    Raises:
        CoverageTooLargeError: a limit is exceeded.
        SlabFormatError, StorageError: an index, or a sample of the tiles, cannot be read.
    """
    try:
        return Answer(plan, limits)
    except NotCopyableError:
        return Answer(plan.without_copies(), limits)


def _check_tiles(plan: CoveragePlan, limits: CoverageLimits) -> None:
    """Check what is known before any index is read."""
    count = size = 0
    for image in plan.images:
        matrix, cells = image.grid.matrix, image.cells
        tiles = -(-cells.rows // matrix.tile_height) * -(-cells.columns // matrix.tile_width)
        count += tiles
        if not (image.is_copied or plan.is_sparse):
            pixels = tiles * matrix.tile_height * matrix.tile_width
            size += pixels * len(plan.fields) * plan.coverage.dtype.itemsize
    if size > limits.stream_bytes:
        raise CoverageTooLargeError(size, limits.stream_bytes, "bytes")
    if count > limits.tiles:
        raise CoverageTooLargeError(count, limits.tiles, "tiles")


def _source(plan: CoveragePlan, image: ImagePlan, block: TileBlock) -> TileSource:
    coverage, matrix = plan.coverage, image.grid.matrix
    tile_format, size = coverage.layer.pyramid.format, (matrix.tile_width, matrix.tile_height)
    if image.is_copied:
        copied = CopiedTiles(block, tile_format.codec, size)
        if not copied.is_uniform(_SAMPLED):
            raise NotCopyableError
        # Simple readers do not know tiles that are left out.
        if plan.is_sparse or copied.sizes.all():
            return copied
        raise NotCopyableError
    return WindowTiles(
        block,
        TileDecoder(tile_format, len(coverage.fields), *size),
        image.cells,
        size,
        coverage.nodata,
        coverage.dtype,
        [coverage.fields.index(name) for name in plan.fields],
        is_sparse=plan.is_sparse,
    )


def _image(
    plan: CoveragePlan, image: ImagePlan, source: TileSource, *, is_overview: bool
) -> TiffImage:
    coverage = plan.coverage
    stored = coverage.layer.pyramid.format.codec
    compression = COMPRESSIONS[stored] if image.is_copied else _UNCOMPRESSED
    fields = image_fields(
        coverage, image.grid, image.cells, compression, plan.fields, is_overview=is_overview
    )
    if not is_overview:
        fields += [*place_fields(coverage, image.grid, image.cells), metadata_field(coverage)]
    return TiffImage(fields, source)


def _version(plan: CoveragePlan, head: bytes, versions: list[str | None]) -> str | None:
    """Return a text that changes with the bytes of the file; None if they may change unnoticed."""
    if None in versions:
        return None
    described = [
        (image.grid.matrix.id, image.cells, image.is_copied, image.grid.is_post)
        for image in plan.images
    ]
    digest = blake2b(head, digest_size=12)
    digest.update(repr((mastaba.__version__, plan.coverage.layer.id)).encode())
    digest.update(repr((described, plan.fields, plan.coverage.nodata, versions)).encode())
    return digest.hexdigest()
