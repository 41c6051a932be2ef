"""What an extraction of stored values reads: the images of its file, and the cells of each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING, Final

from mastaba.api.catalogue import BoundingBox, TileLimits, TileMatrix
from mastaba.errors import InvalidParameterError
from mastaba_coverage.cells import Cells
from mastaba_coverage.codecs import NONE, STORED, TileCodec
from mastaba_coverage.grid import Coverage, CoverageGrid
from mastaba_coverage.request import TiffOptions
from mastaba_coverage.sampled import Sampling
from mastaba_coverage.shape import TileShape
from mastaba_coverage.sources import KEPT
from mastaba_render.api.geotiff import UNKNOWN, Origin
from mastaba_render.api.resampling import MEAN, NEAREST

if TYPE_CHECKING:
    from mastaba.api.catalogue import CRS

_SMALLEST: Final = 512
"""Cells of the longest side; a smaller image needs no overview."""
_ALWAYS_PADDED: Final = 4
"""Tiles that may precede the first one of an image so that overviews can be copied."""
_PADDED: Final = 8
"""The same, as the part of the image: one of eight."""
_ROUNDING: Final = 1e-9
MOST_COMPUTED: Final = 16
"""Stored cells along one side of a cell of a computed overview that a server makes.

Clients read the coarsest overview first, and a tile of it needs the square of this of stored tiles.
"""


@dataclass(frozen=True, slots=True, eq=False)
class ImagePlan:
    """One image of the file.

    Attributes:
        grid: the level.
        cells: its cells, some perhaps outside the level.
        is_copied: whether its tiles are those that are stored.
        sampling: how the image is computed from the cells; None if it consists of them.
    """

    grid: CoverageGrid
    cells: Cells
    is_copied: bool
    sampling: Sampling | None = None

    @property
    def rows(self) -> int:
        """Number of rows of the image."""
        return (self.sampling or self.cells).rows

    @property
    def columns(self) -> int:
        """Number of columns of the image."""
        return (self.sampling or self.cells).columns

    @property
    def is_aligned(self) -> bool:
        """Whether it consists of cells of the level, the first one in the corner of a tile."""
        matrix, cells = self.grid.matrix, self.cells
        is_corner = cells.top % matrix.tile_height == 0 == cells.left % matrix.tile_width
        return is_corner and self.sampling is None

    @property
    def matrix(self) -> TileMatrix:
        """The grid of its cells: the level, or one of larger cells if they are computed."""
        matrix, sampling = self.grid.matrix, self.sampling
        if sampling is None:
            return matrix
        return replace(
            matrix,
            cell_size=sampling.step * matrix.cell_size,
            origin_x=matrix.origin_x + sampling.left * matrix.cell_size,
            origin_y=matrix.origin_y - sampling.top * matrix.cell_size,
        )

    @property
    def corner(self) -> tuple[int, int]:
        """Row and column of its first cell in `matrix`."""
        return (self.cells.top, self.cells.left) if self.sampling is None else (0, 0)

    @property
    def tiles(self) -> TileLimits:
        """The stored tiles that it touches, some perhaps outside the level."""
        matrix, cells = self.grid.matrix, self.cells
        return TileLimits(
            cells.top // matrix.tile_height,
            (cells.bottom - 1) // matrix.tile_height,
            cells.left // matrix.tile_width,
            (cells.right - 1) // matrix.tile_width,
        )


@dataclass(frozen=True, slots=True, eq=False)
class CoveragePlan:
    """What is in the file of stored values.

    Attributes:
        coverage: the stored values.
        images: full resolution first, then overviews from fine to coarse.
        fields: names of the channels, in order.
        is_sparse: whether tiles without data are left out, as readers of COGs expect it.
        codec: of the tiles that are not copied.
        shape: of the tiles; that of stored tiles if some are copied.
        fixed: outer edges to declare instead of those of the cells.
        format: ``tiff``, or the name of an encoder of pictures.
        origin: of the values.
        has_mask: whether each image is followed by a mask of the cells that have data.
    """

    coverage: Coverage
    images: tuple[ImagePlan, ...]
    fields: tuple[str, ...]
    is_sparse: bool
    codec: TileCodec
    shape: TileShape
    fixed: BoundingBox | None = None
    format: str = "tiff"
    origin: Origin = UNKNOWN
    has_mask: bool = False

    @property
    def grid(self) -> CoverageGrid:
        """The grid of the full resolution."""
        return self.images[0].grid

    @property
    def cells(self) -> Cells:
        """The cells of the full resolution."""
        return self.images[0].cells

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.cells.rows

    @property
    def columns(self) -> int:
        """Number of columns."""
        return self.cells.columns

    @property
    def crs(self) -> CRS:
        """CRS of the cells: that of the layer."""
        return self.coverage.crs

    @property
    def kernel(self) -> str | None:
        """Name of the resampling kernel: None, because nothing is resampled."""
        return None

    @property
    def is_post(self) -> bool:
        """Whether a value belongs to the middle of its cell."""
        return self.grid.is_post

    @property
    def edges(self) -> BoundingBox:
        """Outer edges of the cells."""
        return self.fixed or self.grid.edges(self.cells)

    @property
    def bounds(self) -> BoundingBox:
        """The box that describes the cells, for clients.

        Their outer edges, or the first and last posts. Across the antimeridian, west is larger
        than east.
        """
        box = self.fixed or self.grid.bounds(self.cells)
        turn = self.grid.around * self.grid.matrix.tile_width * self.grid.matrix.cell_size
        return replace(box, xmax=box.xmax - turn) if self.grid.is_beyond(self.cells) else box

    @property
    def aligned(self) -> int:
        """Number of images, from the first one on, whose tiles are those of levels."""
        matrix = self.grid.matrix
        if self.fixed or self.shape != TileShape(matrix.tile_width, matrix.tile_height):
            return 0
        return sum(1 for _ in takewhile(lambda image: image.is_aligned, self.images))

    @property
    def is_addressable(self) -> bool:
        """Whether any part of the file can be made on its own."""
        is_plain = self.codec.name == NONE.name
        return self.format == "tiff" and all(image.is_copied or is_plain for image in self.images)

    @property
    def name(self) -> str:
        """What the answer is, as a part of its file name."""
        return self.grid.matrix.id

    def without_copies(self) -> CoveragePlan:
        """Return the plan of a file with the same cells, and without stored tiles.

        A COG is uncompressed then, so that it may have any size.
        """
        images = tuple(replace(image, is_copied=False) for image in self.images)
        return replace(self, images=images)

    @classmethod
    def exact(
        cls,
        coverage: Coverage,
        grid: CoverageGrid,
        cells: Cells,
        fields: tuple[str, ...],
        tiff: TiffOptions | None = None,
    ) -> CoveragePlan:
        """Return the plan of a file with exactly these cells.

        Tiles are copied if the first cell is the corner of a tile, and no compression is
        requested.

        Args:
            fields: names of channels; not all, or in another order, if tiles are not copied.
            tiff: how the file is written.

        Raises:
            InvalidParameterError: the compression cannot hold the values.
        """
        tiff = tiff or TiffOptions()
        matrix = grid.matrix
        name = "deflate" if tiff.compression == "stored" else tiff.compression
        codec = TileCodec.of(name, tiff.predictor, coverage.dtype, len(fields))
        if tiff.is_tiled:
            shape = _tiles(matrix, tiff)
        else:
            shape = _strips(coverage, matrix, cells, len(fields), codec)
        image = ImagePlan(grid, cells, False)
        if image.is_aligned and _is_copyable(coverage, grid, fields, tiff, shape):
            image = replace(image, is_copied=True)
        return cls(coverage, (image,), fields, False, codec, shape)

    @classmethod
    def cog(
        cls,
        coverage: Coverage,
        cells: Cells,
        fields: tuple[str, ...],
        tiff: TiffOptions | None = None,
        most: int | None = None,
    ) -> CoveragePlan:
        """Return the plan of a COG of the finest level that contains some cells.

        Its first cell is the corner of a tile, so it may begin before the cells. Overviews are
        the coarser levels, as far as their grids are nested. The others are computed from the
        coarsest level that is fine enough.

        Args:
            fields, tiff: as in `exact`.
            most: stored cells along one side of a cell of a computed overview. Overviews that need
                more are left out. None for no limit.

        Raises:
            InvalidParameterError: as `exact`.
        """
        tiff = tiff or TiffOptions()
        chain = _nested(coverage)
        matrix = chain[0].matrix
        shape = _tiles(matrix, tiff)
        is_copied = not tiff.is_exact and _is_copyable(coverage, chain[0], fields, tiff, shape)
        name = tiff.compression
        if name == "stored":
            name = "deflate" if tiff.is_exact else "none"
        codec = TileCodec.of(name, tiff.predictor, coverage.dtype, len(fields))
        width, height = matrix.tile_width, matrix.tile_height
        row, col = cells.top // height, cells.left // width
        top, left = (cells.top, cells.left) if tiff.is_exact else (row * height, col * width)
        sides = cells.bottom - top, cells.right - left
        count = 0
        while max(sides) >> count > _SMALLEST and count != tiff.overviews:
            count += 1
        depth = 0
        if not tiff.is_exact:
            depth = next(
                depth
                for depth in range(min(count, len(chain) - 1), -1, -1)
                if _is_near(row, sides[0], height, depth, tiff.pad)
                and _is_near(col, sides[1], width, depth, tiff.pad)
            )
            top, left = row >> depth << depth, col >> depth << depth
            top, left = top * height, left * width
        hull = Cells(top, cells.bottom, left, cells.right)
        images: list[ImagePlan] = []
        for level in range(count + 1):
            step = 1 << level
            rows, columns = -(-hull.rows // step), -(-hull.columns // step)
            if level < len(chain) and not (hull.top % step or hull.left % step):
                top, left = hull.top >> level, hull.left >> level
                part = Cells(top, top + rows, left, left + columns)
                images.append(ImagePlan(chain[level], part, is_copied and level <= depth))
            else:
                overview = _sampled(coverage, hull, step, rows, columns, most)
                # A stored level may be near enough to the next ones.
                if overview is not None:
                    images.append(overview)
        return cls(coverage, tuple(images), fields, tiff.is_sparse, codec, shape)


def _tiles(matrix: TileMatrix, tiff: TiffOptions) -> TileShape:
    return TileShape(tiff.tile_width or matrix.tile_width, tiff.tile_height or matrix.tile_height)


def _strips(
    coverage: Coverage, matrix: TileMatrix, cells: Cells, count: int, codec: TileCodec
) -> TileShape:
    """Return strips for some cells.

    Args:
        count: number of fields.

    Raises:
        InvalidParameterError: there are too many columns.
    """
    size = coverage.dtype.itemsize
    if cells.columns * matrix.tile_height * len(coverage.fields) * size > KEPT:
        raise InvalidParameterError("so many columns need tiles, not strips", "tiling")
    return codec.strips(cells.columns, count * size)


def _is_copyable(
    coverage: Coverage,
    grid: CoverageGrid,
    fields: tuple[str, ...],
    tiff: TiffOptions,
    shape: TileShape,
) -> bool:
    matrix = grid.matrix
    return (
        # The sizes of tiles that are made are not known before.
        (grid.reader.has_slabs and not grid.reader.is_masked)
        and tiff.compression == "stored"
        and coverage.layer.pyramid.format.codec in STORED
        and fields == coverage.fields
        and shape == TileShape(matrix.tile_width, matrix.tile_height)
    )


def _is_near(first: int, side: int, size: int, depth: int, most: int | None) -> bool:
    """Return whether few enough tiles precede a tile on the grid of an overview."""
    padding = first % (1 << depth)
    return padding <= (max(_ALWAYS_PADDED, -(-side // size) // _PADDED) if most is None else most)


def _sampled(
    coverage: Coverage, hull: Cells, step: int, rows: int, columns: int, most: int | None
) -> ImagePlan | None:
    """Return an overview of some cells of the finest level that is computed.

    Args:
        step: cells along one side of a cell of the overview.
        rows, columns: of the overview.
        most: as in `CoveragePlan.cog`.

    Returns:
        None if it needs more cells than ``most``; also if columns are beyond the antimeridian, and
        the level does not repeat there.
    """
    finest = coverage.finest
    size = step * finest.matrix.cell_size
    grid = next(
        (
            grid
            for grid in coverage.grids.values()
            if grid.matrix.cell_size <= size * (1 + _ROUNDING)
        ),
        finest,
    )
    if finest.is_beyond(hull) and not grid.around:
        return None
    if most is not None and size > most * grid.matrix.cell_size * (1 + _ROUNDING):
        return None
    matrix, edges = grid.matrix, finest.edges(hull)
    kernel = NEAREST if coverage.layer.resampling == NEAREST else MEAN
    sampling = Sampling(
        rows,
        columns,
        (matrix.origin_y - edges.ymax) / matrix.cell_size,
        (edges.xmin - matrix.origin_x) / matrix.cell_size,
        size / matrix.cell_size,
        kernel,
    )
    needed = sampling.needed(Cells(0, rows, 0, columns))
    width, height = matrix.tile_width, matrix.tile_height
    right = matrix.matrix_width * width * (2 if grid.around else 1)
    cells = needed.intersection(Cells(0, matrix.matrix_height * height, 0, right))
    return None if cells is None else ImagePlan(grid, cells, False, sampling)


def _nested(coverage: Coverage) -> list[CoverageGrid]:
    """Return the finest grid, and the coarser ones of which each has cells of 2 x 2."""
    grids = list(coverage.grids.values())[::-1]
    chain = grids[:1]
    for fine, coarse in pairwise(grids):
        if not _is_double(fine.matrix, coarse.matrix):
            break
        chain.append(coarse)
    return chain


def _is_double(fine: TileMatrix, coarse: TileMatrix) -> bool:
    return (
        abs(coarse.cell_size - 2 * fine.cell_size) <= _ROUNDING * fine.cell_size
        and (coarse.origin_x, coarse.origin_y) == (fine.origin_x, fine.origin_y)
        and (coarse.tile_width, coarse.tile_height) == (fine.tile_width, fine.tile_height)
    )
