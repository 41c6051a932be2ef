"""The file of a plan, as a body of which any part can be made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

import numpy as np

import mastaba
from mastaba.api.catalogue import Codec
from mastaba.api.web import AddressableBody
from mastaba.errors import ObjectChangedError
from mastaba_coverage.block import TileBlock
from mastaba_coverage.codecs import STORED, TileCodec
from mastaba_coverage.container_block import ContainerBlock
from mastaba_coverage.errors import CoverageTooLargeError, NotCopyableError
from mastaba_coverage.layout import TiffImage, TiffLayout
from mastaba_coverage.making import made_modestly
from mastaba_coverage.masks import masks_of
from mastaba_coverage.sampled import SampledTiles
from mastaba_coverage.sources import CopiedTiles, PixelTiles, StoredCells, TileSource, WindowTiles
from mastaba_coverage.stored_values import StoredValues
from mastaba_coverage.tags import image_fields, metadata_fields
from mastaba_render.api.geotiff import place_fields

if TYPE_CHECKING:
    from mastaba.api.containers import TileReader
    from mastaba_coverage.heads import HeadCache
    from mastaba_coverage.limits import CoverageLimits
    from mastaba_coverage.plan import CoveragePlan, ImagePlan
    from mastaba_render.api.geotiff import Field

_FEW: Final = 4096
"""Tiles of a file that is planned quickly, so that its head is not kept."""

_SIDE: Final = 256
"""Pixels of a side of tiles whose scheme GDAL names."""

_SAMPLED: Final = 8
"""Tiles of each image that are read to find out whether they can be copied."""


class Answer(AddressableBody):
    """The file of a plan.

    Creating it reads the indices of all slabs. Its parts are made from the versions of slabs of
    that moment; if one is replaced, making them fails.

    Args:
        plan: what is in the file.
        limits: of this answer.
        give_way: is called before each piece is made, and returns when others have had their turn.
            Pieces are then made by a thread of low priority. None where nobody else is served.
        note: is called when a stored JPEG tile proves to be of another kind than the others.
        heads: keeps the heads of files of many tiles; None to keep none.

    Attributes:
        plan: as given.

    Raises:
        CoverageTooLargeError: a limit is exceeded.
        NotCopyableError: stored JPEG tiles are not all of one kind. Plan without copies.
        SlabFormatError, StorageError: an index cannot be read.
    """

    def __init__(
        self,
        plan: CoveragePlan,
        limits: CoverageLimits,
        give_way: Callable[[], object] | None = None,
        note: Callable[[], object] | None = None,
        heads: HeadCache | None = None,
    ) -> None:
        if not plan.is_addressable:
            raise ValueError("the plan is of a file that is made before it is sent")
        self.plan = plan
        self._give_way, self._note = give_way, note
        check_tiles(plan, limits)
        # Heads are kept with the versions of slabs.
        has_slabs = all(image.grid.reader.has_slabs for image in plan.images)
        self._heads = heads if has_slabs and count_of_tiles(plan) > _FEW else None
        self._key = key_of(plan)
        saved = None if self._heads is None else self._heads.find(self._key)
        if saved is None:
            self._blocks = blocks_of(plan, limits)
        else:
            self._blocks = [
                TileBlock.restored(reader, image.tiles, _around(image), sizes, digests)
                for (reader, image), sizes, digests in zip(
                    _looked_up(plan), saved.sizes, saved.digests, strict=True
                )
            ]
        blocks = self._blocks[: len(plan.images)]
        images = [
            TiffImage(
                fields,
                tiles_of(plan, image, block, is_checked=saved is not None),
                plan.shape.is_tiled,
                mask,
            )
            for fields, image, block, mask in zip(
                *(fields_of(plan, blocks), plan.images, blocks, masks_of(plan, self._blocks)),
                strict=True,
            )
        ]
        self._layout = TiffLayout(images, None if saved is None else saved.head)
        if self._layout.size > limits.stream_bytes:
            raise CoverageTooLargeError(self._layout.size, limits.stream_bytes, "bytes")
        if saved is not None:
            version: str | None = saved.version
        else:
            head = bytes(self._layout.head)
            version = version_of(self._key, head, self._blocks)
            if self._heads is not None and version is not None:
                self._heads.save(self._key, version, head, self._blocks)
        super().__init__(self._layout.size, version)

    def pieces(self, start: int, end: int) -> Iterator[bytes]:
        """Yield bytes of the file; see `AddressableBody.pieces`.

        Raises:
            ObjectChangedError: a slab has been replaced.
            NotCopyableError: a stored JPEG tile is of another kind than the others.
            SlabFormatError, StorageError: a tile cannot be read or decoded.
        """
        pieces = self._layout.pieces(start, end)
        try:
            while True:
                if self._give_way is None:
                    piece = next(pieces, None)
                else:
                    self._give_way()
                    piece = made_modestly(pieces)
                if piece is None:
                    return
                yield piece
        except ObjectChangedError:
            # Usually, more than one slab is replaced; the next answer must not use the others.
            for block in self._blocks:
                block.forget()
            if self._heads is not None:
                self._heads.drop(self._key)
            raise
        except NotCopyableError:
            if self._note is not None:
                self._note()
            raise


def extract(
    plan: CoveragePlan,
    limits: CoverageLimits,
    give_way: Callable[[], object] | None = None,
    note: Callable[[], object] | None = None,
    heads: HeadCache | None = None,
) -> Answer:
    """Return the file of an addressable plan, with its tiles copied if they all can be.

    Args:
        plan: what is in the file.
        limits: of the answer.
        give_way, note, heads: as in `Answer`.

    Raises:
        CoverageTooLargeError: a limit is exceeded.
        NotCopyableError: the tiles cannot be copied, and would be compressed otherwise.
        SlabFormatError, StorageError: an index, or a sample of the tiles, cannot be read.
    """
    try:
        return Answer(plan, limits, give_way, note, heads)
    except NotCopyableError:
        plan = plan.without_copies()
        if not plan.is_addressable:
            raise
        return Answer(plan, limits, give_way, note, heads)


def check_tiles(plan: CoveragePlan, limits: CoverageLimits) -> None:
    """Check what is known before any index is read.

    Raises:
        CoverageTooLargeError: a limit is exceeded.
    """
    size = 0
    for image in plan.images:
        if not (image.is_copied or plan.is_sparse):
            shape = plan.shape
            pixels = shape.across(image.columns) * shape.width * shape.down(image.rows)
            pixels *= shape.height
            size += pixels * len(plan.fields) * plan.coverage.dtype.itemsize
    count = count_of_tiles(plan)
    if size > limits.stream_bytes:
        raise CoverageTooLargeError(size, limits.stream_bytes, "bytes")
    if count > limits.tiles:
        raise CoverageTooLargeError(count, limits.tiles, "tiles")


def count_of_tiles(plan: CoveragePlan) -> int:
    """Return the number of tiles of a file, or of the stored ones, if these are more."""
    count = 0
    for image in plan.images:
        tiles = image.tiles
        stored = (tiles.max_row - tiles.min_row + 1) * (tiles.max_col - tiles.min_col + 1)
        count += max(stored, plan.shape.across(image.columns) * plan.shape.down(image.rows))
    return 2 * count if plan.has_mask else count


def _looked_up(plan: CoveragePlan) -> list[tuple[TileReader, ImagePlan]]:
    """Return the readers whose indices a file needs: those of its images, then of their masks."""
    found = [(image.grid.reader, image) for image in plan.images]
    if not plan.has_mask:
        return found
    masks = [(reader.masks, image) for reader, image in found]
    return [*found, *((reader, image) for reader, image in masks if reader is not None)]


def _first(image: ImagePlan) -> tuple[int, int]:
    limits = image.grid.level.limits
    return limits.min_row, limits.min_col


def _around(image: ImagePlan) -> int:
    return image.grid.around if image.grid.is_beyond(image.cells) else 0


def block_kind(reader: TileReader) -> type[TileBlock]:
    """Return the class of the blocks of a level."""
    return TileBlock if reader.has_slabs else ContainerBlock


def blocks_of(plan: CoveragePlan, limits: CoverageLimits) -> list[TileBlock]:
    """Return the stored tiles of each image, and then of the mask of each if there are masks.

    Raises:
        CoverageTooLargeError: they are in too many slabs.
        SlabFormatError, StorageError: an index cannot be read.
    """
    left = limits.indices
    blocks: list[TileBlock] = []
    for reader, image in _looked_up(plan):
        blocks.append(block_kind(reader).look_up(reader, image.tiles, left, _around(image)))
        left -= blocks[-1].slabs
    return blocks


def tiles_of(
    plan: CoveragePlan, image: ImagePlan, block: TileBlock, *, is_checked: bool = False
) -> TileSource:
    """Return the tiles of an image, copied or uncompressed.

    Args:
        is_checked: whether a sample of them has been read before.

    Raises:
        NotCopyableError: they would be copied, and some differ from what the tags would declare.
        SlabFormatError, StorageError: a sample of the tiles cannot be read.
    """
    coverage, matrix = plan.coverage, image.grid.matrix
    if not image.is_copied:
        return window_of(plan, image, block)
    stored = STORED[coverage.layer.pyramid.format.codec]
    size = matrix.tile_height, matrix.tile_width
    blank = b""
    if not plan.is_sparse:
        # Simple readers do not know tiles that are left out.
        nodata = np.array(coverage.nodata, coverage.dtype)
        blank = TileCodec(stored).encode(np.broadcast_to(nodata, (*size, len(nodata))))
    is_jpeg = coverage.layer.pyramid.format.codec is Codec.JPEG
    copied = CopiedTiles(block, size[::-1], is_jpeg=is_jpeg, blank=blank)
    if not (is_checked or copied.is_uniform(_SAMPLED)):
        raise NotCopyableError("the stored JPEG tiles are of several kinds")
    return copied


def window_of(plan: CoveragePlan, image: ImagePlan, block: TileBlock) -> PixelTiles:
    """Return the tiles of an image, uncompressed."""
    coverage, matrix = plan.coverage, image.grid.matrix
    size = matrix.tile_width, matrix.tile_height
    values = StoredValues(coverage.layer.pyramid, image.grid.reader, _around(image))
    channels = [coverage.fields.index(name) for name in plan.fields]
    stored = StoredCells(block, values, size, coverage.nodata, coverage.dtype)
    target = image.cells, plan.shape, channels
    if image.sampling is None:
        return WindowTiles(stored, *target, is_sparse=plan.is_sparse)
    return SampledTiles(stored, image.sampling, *target, is_sparse=plan.is_sparse)


def fields_of(plan: CoveragePlan, blocks: Sequence[TileBlock] | None = None) -> list[list[Field]]:
    """Return the tags of each image.

    Args:
        blocks: the stored tiles of each image, if they are known.
    """
    coverage = plan.coverage
    stored = STORED.get(coverage.layer.pyramid.format.codec, "none")
    codecs = [TileCodec(stored) if image.is_copied else plan.codec for image in plan.images]
    # JPEG keeps no value exactly, so nodata only says what tiles without data contain. Where there
    # are none, readers would take the brightest ground for nodata.
    is_full = blocks is not None and all(bool((block.sizes > 0).all()) for block in blocks)
    has_nodata = not (is_full and codecs[0].name == "jpeg")
    # Nor would cells with data that have this value, of which a mask says that they have.
    has_nodata = has_nodata and not (plan.has_mask and coverage.dtype.kind == "u")
    found = []
    for number, (image, codec) in enumerate(zip(plan.images, codecs, strict=True)):
        size = image.rows, image.columns
        tags = image_fields(
            *(coverage, size, plan.shape, codec, plan.fields),
            is_overview=number > 0,
            has_nodata=has_nodata,
        )
        if number == 0:
            tags += place_fields(
                plan.edges, size, plan.crs, is_post=plan.is_post, vertical=coverage.vertical
            )
            tags += metadata_fields(coverage, plan.origin, _tiling_of(plan))
        found.append(tags)
    return found


def _tiling_of(plan: CoveragePlan) -> dict[str, str]:
    """Return the items of the domain TILING_SCHEME, as GDAL writes them; none for other tiles."""
    matrix, matrices = plan.grid.matrix, plan.coverage.layer.pyramid.tile_matrix_set.matrices
    if not plan.aligned or (matrix.tile_width, matrix.tile_height) != (_SIDE, _SIDE):
        return {}
    zoom = matrix.id if matrix.id.isdecimal() else str(list(matrices).index(matrix.id))
    name = plan.coverage.layer.pyramid.tile_matrix_set.id
    return {"NAME": name, "ZOOM_LEVEL": zoom, "ALIGNED_LEVELS": str(plan.aligned)}


def key_of(plan: CoveragePlan) -> str:
    """Return a text that changes with everything but the stored tiles that decides on a file."""
    layer = plan.coverage.layer
    described = [
        (
            image.grid.reader.place_of(*_first(image))[0],
            image.grid.matrix.id,
            image.cells,
            image.is_copied,
            image.sampling,
            image.grid.is_post,
        )
        for image in plan.images
    ]
    digest = blake2b(digest_size=16)
    digest.update(repr((mastaba.__version__, layer.id, layer.generation, described)).encode())
    digest.update(repr((plan.fields, plan.coverage.nodata, plan.codec, plan.shape)).encode())
    digest.update(repr((plan.is_sparse, plan.edges, fields_of(plan))).encode())
    digest.update(b"masked" if plan.has_mask else b"")
    return digest.hexdigest()


def version_of(key: str, head: bytes, blocks: Sequence[TileBlock]) -> str | None:
    """Return a text that changes with the bytes of the file; None if they may change unnoticed."""
    if not all(block.has_versions for block in blocks):
        return None
    digest = blake2b(head, digest_size=12)
    digest.update(key.encode())
    for block in blocks:
        digest.update(np.ascontiguousarray(block.digests).tobytes())
    return digest.hexdigest()
