"""Real rasters of other projects: each is built as GDAL's warper draws it, or refused."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator, Sequence
from io import StringIO
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZipFile

import numpy as np
import pyproj
import pytest
import rasterio
from _pytest.mark import ParameterSet
from affine import Affine
from rasterio._err import CPLE_BaseError
from rasterio.enums import ColorInterp
from rasterio.errors import NotGeoreferencedWarning, RasterioError
from rasterio.warp import Resampling, reproject
from tests.build.conftest import plan_in
from tests.build.ground import grid, read_tiles
from tests.sizes import FULL, sized

from mastaba.api.catalogue import BoundingBox, TileLimits
from mastaba_build.errors import BuildError
from mastaba_build.plan.plan import Plan
from mastaba_build.sources.sets import proj_crs
from mastaba_build.work.build import build
from mastaba_build.work.reports import Reports

CORPUS = Path(
    os.environ.get("MASTABA_CORPUS", Path(__file__).parents[3] / "shared" / "data" / "corpus")
)
SUFFIXES = (".tif", ".vrt", ".jpg", ".asc", ".nc", ".h5", ".png", ".img", ".zip")
FILES = sorted(
    path.relative_to(CORPUS).as_posix()
    for path in (CORPUS.rglob("*") if CORPUS.is_dir() else [])
    if path.suffix in SUFFIXES
)
SETS = ("PM", "4326", "own", "native")
QUICK = ("MapServer/msautotest/gdal/data/5band.vrt", "rasterio/tests/data/rgb4.tif")
"""Small files for the quick tests."""
LARGE = (
    "martin/tests/fixtures/cog/usda_naip_512_jpeg_z5.tif",
    "martin/tests/fixtures/cog/usda_naip_512_webp_z5.tif",
    "rio-cogeo/tests/fixtures/image_geos.tif",  # goes.tif is another view from space
    "rio-cogeo/tests/fixtures/image_web_z5_z11.tif",
)
"""Half of the processor time of all files: only with full sizes."""
MOST_TILES = 140
"""Tiles of the finest level. Larger rasters are built with a coarser level, and compared too."""
COARSER_TILES = 64
"""Tiles of this level."""
SLACK = 1 / 16
"""Pixels of the source by which a position may be wrong."""
TOLERATED = {
    "MapServer/msautotest/wxs/data/input_contour_rotated_pole.tif": 2 * SLACK,
    "MapServer/msautotest/wxs/data/input_rot_pole_lon_lat_space_lon0_beyond_180.tif": 2 * SLACK,
    "MapServer/msautotest/wxs/data/polar_stereo.tif": 2 * SLACK,
    "rio-cogeo/tests/fixtures/image_171px.tif": 2 * SLACK,
    "rio-cogeo/tests/fixtures/image_north.tif": 2 * SLACK,
}
"""Files with another slack: their errors along rows and columns add up."""
ROUNDING = 1e-6
"""Of values in single precision."""

pytestmark = pytest.mark.skipif(not FILES, reason="the corpus is not here")


def gdal_name(path: Path) -> str:
    """Return the name by which GDAL opens a file; of an archive, its first raster."""
    if path.suffix != ".zip":
        return str(path)
    with ZipFile(path) as archive:
        return f"/vsizip/{path}/{archive.namelist()[0]}"


def own_set(path: Path, folder: Path) -> bool:
    """Write a set with the CRS and about the pixels of a raster; return whether there is one."""
    try:
        with rasterio.open(gdal_name(path)) as dataset:
            code = dataset.crs.to_epsg() if dataset.crs else None
            bounds, size = dataset.bounds, max(abs(dataset.transform.a), abs(dataset.transform.e))
    except RasterioError:
        return False
    if code is None or size == 0:
        return False
    left, top = min(bounds.left, bounds.right), max(bounds.top, bounds.bottom)
    extent = max(abs(bounds.right - bounds.left), abs(bounds.top - bounds.bottom))
    # The finest level has no more tiles than MOST_TILES, wherever they begin.
    size = max(1.05 * size, extent / (256 * (MOST_TILES**0.5 - 1.5)))
    count = int(extent / size // 256) + 2
    geographic = pyproj.CRS.from_epsg(code).is_geographic
    matrices = [
        {
            "id": str(level),
            "scaleDenominator": 1,
            "cellSize": size * 2 ** (1 - level),
            "pointOfOrigin": [left - 3.3 * size, top + 2.6 * size],
            "tileWidth": 256,
            "tileHeight": 256,
            "matrixWidth": -(-count * 2**level // 2),
            "matrixHeight": -(-count * 2**level // 2),
        }
        for level in range(2)
    ]
    document = {"id": "own", "crs": f"EPSG:{code}", "tileMatrices": matrices}
    if geographic:
        document["orderedAxes"] = ["Lon", "Lat"]
    (folder / "own.json").write_text(json.dumps(document))
    return True


def planned(path: Path, folder: Path, set_name: str, **options: Any) -> Plan | str:
    """Return the plan of a file, or why it is refused."""
    more = {"tile_matrix_sets": str(folder)} if set_name == "own" else {}
    try:
        return plan_in(folder, path, tile_matrix_set=set_name, **more, **options)
    except BuildError as error:
        return str(error)


def coarser(plan: Plan) -> dict[str, str]:
    """Return the options with which a large raster is built; none for others."""

    def tiles(limits: TileLimits) -> int:
        rows = limits.max_row - limits.min_row + 1
        return rows * (limits.max_col - limits.min_col + 1)

    if tiles(plan.levels[0].limits) <= MOST_TILES:
        return {}
    level = next(level for level in plan.levels if tiles(level.limits) <= COARSER_TILES)
    return {"bottom": level.matrix.id}


def check_refusal(path: Path, reason: str) -> None:
    """Check that a message names the file and says more than that."""
    assert path.name in reason or path.stem in reason, reason
    assert len(reason.replace(str(path), "")) > 20, reason


class Reference:
    """A raster as GDAL's nearest neighbour draws it, with positions that are wrong by a part.

    Args:
        path: of the raster.
        bands: those that are drawn.
        slack: pixels of the raster by which a position may be wrong.
        shape, transform, crs: of the image.

    Attributes:
        always, ever: where there is data for all of these positions, and for some of them.
    """

    def __init__(
        self,
        path: Path,
        bands: Sequence[int],
        slack: float,
        shape: tuple[int, int],
        transform: Any,
        crs: str,
    ) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotGeoreferencedWarning)
            with rasterio.open(gdal_name(path)) as dataset:
                self._bands = dataset.read(list(bands))
                valid = dataset.read_masks(1) > 0
                colours = enumerate(dataset.colorinterp, 1)
                alphas = [band for band, one in colours if one == ColorInterp.alpha]
                if alphas:
                    valid &= dataset.read(alphas[0]) > 0
                if dataset.nodata is not None and dataset.count > 1:
                    # Colours have no data if all of them are nodata.
                    valid = dataset.dataset_mask() > 0
                self._source, source_crs = dataset.transform, dataset.crs
        self._valid = valid & np.isfinite(self._bands).all(axis=0)
        self._shifts = list(product((-slack, slack), repeat=2))
        self._shape = shape
        self._where = {"src_crs": source_crs, "dst_crs": crs, "dst_transform": transform}
        least, most = self._extremes(self._valid.astype(np.uint8))
        self.always, self.ever = least > 0, most > 0

    def bands(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the lowest and highest values of each band."""
        for band in self._bands:
            yield self._extremes(np.where(self._valid, band, 0).astype(np.float64))

    def _extremes(self, image: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        least, most = np.empty((2, *self._shape), image.dtype)
        for number, shift in enumerate(self._shifts):
            drawn = np.zeros(self._shape, image.dtype)
            reproject(
                image,
                drawn,
                src_transform=self._source @ Affine.translation(*shift),
                resampling=Resampling.nearest,
                tolerance=0,
                **self._where,
            )
            for found, extreme in ((least, np.minimum), (most, np.maximum)):
                found[:] = extreme(found, drawn) if number else drawn
        return least, most


class Wrong(NamedTuple):
    """Pixels of a build that GDAL draws in another way.

    Attributes:
        lost: without data, though GDAL has some there.
        extra: with data, where GDAL has none.
        wrong: with a value that is not one of those around it.
        drawn: of GDAL, with data.
    """

    lost: int
    extra: int
    wrong: int
    drawn: int


NONE = Wrong(0, 0, 0, 0)


def wrong_pixels(plan: Plan, path: Path, slack: float) -> Wrong:
    """Compare the finest level with that of GDAL, also beside the tiles that the file may touch."""
    level = plan.levels[0]
    matrix, own = level.matrix, level.limits
    limits = TileLimits(
        own.min_row - 1, own.max_row + 1, own.min_col - 1, own.max_col + 1
    ).intersection(matrix.all_tiles)
    assert limits is not None
    rows = (limits.max_row - limits.min_row + 1) * 256
    columns = (limits.max_col - limits.min_col + 1) * 256
    box: BoundingBox = matrix.bbox_of(limits)
    transform = grid(box.xmin, box.ymax, matrix.cell_size)
    with rasterio.open(gdal_name(path)) as dataset:
        is_own = plan.configuration.tile_matrix_set == "own"
        crs = dataset.crs.to_wkt() if is_own else proj_crs(plan.crs.code).to_wkt()
    source = plan.sources[0]
    try:
        expected = Reference(path, source.bands, slack, (rows, columns), transform, crs)
    except CPLE_BaseError:
        return NONE  # GDAL cannot draw it
    pixels = plan.pixel_type
    image = np.zeros((rows, columns, pixels.channels))
    found = np.zeros((rows, columns), bool)
    for (identifier, row, column), tile in read_tiles(
        Path(plan.configuration.output.path("map.json"))
    ).items():
        if identifier == matrix.id:
            top, left = (row - limits.min_row) * 256, (column - limits.min_col) * 256
            part = np.s_[top : top + 256, left : left + 256]
            image[part] = tile
            nodata = np.array(pixels.nodata, tile.dtype)
            found[part] = (tile != nodata).any(axis=2)
            if pixels.has_alpha:
                found[part] = tile[:, :, -1] > 0
    extra = found & ~expected.ever
    if plan.crs.is_geographic:  # sets wider than a turn show the world again
        extra[:, int(360 / matrix.cell_size) :] = False
    lost = expected.always & ~found
    wrong = np.zeros_like(found)
    is_same = not source.palette and source.scale is None
    colours = pixels.channels - pixels.has_alpha
    if is_same and colours == len(source.bands):
        # Data with the value of nodata cannot be told from it.
        is_nodata = np.full_like(found, not pixels.has_alpha)
        for number, (low, high) in enumerate(expected.bands()):
            low, high = low - ROUNDING * (1 + abs(low)), high + ROUNDING * (1 + abs(high))
            values, nodata = image[:, :, number], pixels.nodata[number]
            wrong |= found & expected.always & ((values < low) | (values > high))
            is_nodata &= (low <= nodata) & (nodata <= high)
        lost &= ~is_nodata
    elif not (pixels.has_alpha and source.alpha is not None):
        lost[:] = False
    return Wrong(int(lost.sum()), int(extra.sum()), int(wrong.sum()), int(expected.ever.sum()))


def cases() -> Iterator[ParameterSet]:
    """Yield each file with one set; with all of them if tests have their full sizes.

    Together, the files are built in each set.
    """
    for number, name in enumerate(FILES):
        if name in LARGE and not FULL:
            continue
        marks = [] if name in QUICK else [pytest.mark.thorough]
        for set_name in sized((SETS[number % len(SETS)],), SETS):
            yield pytest.param(name, set_name, marks=marks)


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
@pytest.mark.filterwarnings("ignore::rasterio.errors.NodataShadowWarning")
@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
@pytest.mark.parametrize(("name", "set_name"), list(cases()))
def test_a_file_is_right_or_refused(name: str, set_name: str, tmp_path: Path) -> None:
    path = CORPUS / name
    if set_name == "own" and not own_set(path, tmp_path):
        set_name = "PM"  # the EPSG register does not have its CRS
    default = planned(path, tmp_path, set_name, name="default")
    if isinstance(default, str):
        check_refusal(path, default)
        return
    limit = coarser(default)
    if limit:
        default = planned(path, tmp_path, set_name, name="default", **limit)
        assert isinstance(default, Plan)
    errors = StringIO()
    try:
        is_built = build(default, Reports(StringIO(), errors))
    except BuildError as error:
        check_refusal(path, str(error))
        return
    if not is_built:
        check_refusal(path, errors.getvalue())
        return
    lossless = "zip" if default.pixel_type.dtype == np.float32 else "png"
    plan = planned(path, tmp_path, set_name, interpolation="nn", format=lossless, **limit)
    assert isinstance(plan, Plan)
    assert build(plan, Reports(StringIO(), errors)), errors.getvalue()
    counts = wrong_pixels(plan, path, TOLERATED.get(name, SLACK))
    print(name, set_name, counts)
    assert not any((counts.lost, counts.extra, counts.wrong)), counts
