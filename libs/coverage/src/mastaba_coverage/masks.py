"""Masks of images: which cells have data, as mask slabs say (slab.md section 6)."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from mastaba.api.catalogue import MASK_FORMAT, TILE_FORMATS, Pyramid, RasterSpecification
from mastaba_coverage.block import TileBlock, TileIndices
from mastaba_coverage.layout import TiffImage
from mastaba_coverage.sampled import SampledTiles
from mastaba_coverage.sources import BitTiles, StoredCells, WindowTiles
from mastaba_coverage.stored_values import StoredValues
from mastaba_render.api.geotiff import Field

if TYPE_CHECKING:
    from mastaba_coverage.plan import CoveragePlan, ImagePlan

_NOTHING: Final = 0
_SOMETHING: Final = 255
_MASK, _MASK_OF_OVERVIEW = 4, 5
"""Values of the tag NewSubfileType (TIFF 6.0, section 8)."""


def mask_pyramid(pyramid: Pyramid) -> Pyramid:
    """Return what the mask slabs of a raster pyramid would be by themselves."""
    raster = RasterSpecification(1, (float(_NOTHING),), "gray")
    return replace(pyramid, format=TILE_FORMATS[MASK_FORMAT], raster=raster)


class MaskBlock(TileBlock):
    """The tiles of a mask: as many as there are tiles of the image.

    Where a tile has no mask, all of it is data.

    Args:
        image: the stored tiles of the image.
        masks: those of its mask.
        full: a tile of which all is data.
    """

    def __init__(self, image: TileBlock, masks: TileBlock, full: bytes) -> None:
        self.tiles, self.sizes = image.tiles, image.sizes
        self._masks, self._full = masks, full

    @property
    def is_remote(self) -> bool:
        """Whether reading waits for another machine."""
        return self._masks.is_remote

    def read(self, places: Sequence[TileIndices]) -> list[bytes]:
        """Return the stored bytes of tiles; see `TileBlock.read`."""
        stored = [place for place in places if self._masks.has(place)]
        found = dict(zip(stored, self._masks.read(stored), strict=True))
        return [found.get(place, self._full) for place in places]


def masks_of(plan: CoveragePlan, blocks: Sequence[TileBlock]) -> list[TiffImage | None]:
    """Return the mask of each image: tiles of one bit, of the same shape as those of the image.

    Args:
        blocks: the stored tiles of each image, then those of each mask; see
            `mastaba_coverage.answer.blocks_of`.

    Returns:
        None for each image if the file has no masks.
    """
    if not plan.has_mask:
        return [None] * len(plan.images)
    count = len(plan.images)
    found = zip(plan.images, blocks[:count], blocks[count:], strict=True)
    return [_mask_of(plan, image, block, masks) for image, block, masks in found]


def _mask_of(plan: CoveragePlan, image: ImagePlan, block: TileBlock, masks: TileBlock) -> TiffImage:
    """Return the mask of an image.

    Args:
        block: the stored tiles of the image.
        masks: those of its mask.
    """
    reader, matrix = image.grid.reader.masks, image.grid.matrix
    assert reader is not None
    size = matrix.tile_width, matrix.tile_height
    pyramid = mask_pyramid(plan.coverage.layer.pyramid)
    around = image.grid.around if image.grid.is_beyond(image.cells) else 0
    full = zlib.compress(bytes([_SOMETHING]) * (size[0] * size[1]))
    stored = StoredCells(
        MaskBlock(block, masks, full),
        StoredValues(pyramid, reader, around),
        size,
        (_NOTHING,),
        np.dtype(np.uint8),
    )
    target = image.cells, plan.shape, [0]
    pixels: WindowTiles | SampledTiles
    if image.sampling is None:
        pixels = WindowTiles(stored, *target, is_sparse=plan.is_sparse)
    else:
        pixels = SampledTiles(stored, image.sampling, *target, is_sparse=plan.is_sparse)
    bits = BitTiles(pixels, plan.shape.width)
    return TiffImage(mask_fields(plan, image), bits, plan.shape.is_tiled)


def mask_fields(plan: CoveragePlan, image: ImagePlan) -> list[Field]:
    """Return the tags of the mask of an image."""
    is_first = image is plan.images[0]
    found = [
        Field.of(254, "I", _MASK if is_first else _MASK_OF_OVERVIEW),
        Field.of(256, "I", image.columns),
        Field.of(257, "I", image.rows),
        Field.of(258, "H", 1),
        Field.of(259, "H", 1),
        Field.of(262, "H", 4),
        Field.of(277, "H", 1),
        Field.of(284, "H", 1),
    ]
    if plan.shape.is_tiled:
        return [*found, Field.of(322, "I", plan.shape.width), Field.of(323, "I", plan.shape.height)]
    return [*found, Field.of(278, "I", plan.shape.height)]
