"""Real rasters of other projects: each is built as GDAL's warper draws it, or refused."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pyproj
import pytest
import rasterio
from _pytest.mark import ParameterSet
from rasterio._err import CPLE_BaseError
from rasterio.enums import ColorInterp
from rasterio.errors import NotGeoreferencedWarning, RasterioError
from rasterio.warp import Resampling, reproject
from tests.build.conftest import plan_in
from tests.build.ground import grid, read_tiles
from tests.sizes import sized

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
MOST_TILES = 140
"""Tiles of the finest level. Larger rasters are built with a coarser level, and compared too."""
COARSER_TILES = 64
"""Tiles of this level."""
NO_DATA = -99999

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


def expected_of(path: Path, transform: Any, crs: str, shape: tuple[int, int]) -> Any:
    """Return values and validity of the first band, as GDAL's nearest neighbour gives them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        with rasterio.open(gdal_name(path)) as dataset:
            values = dataset.read(1).astype(np.float64)
            valid = dataset.read_masks(1) > 0
            alphas = [i for i, one in enumerate(dataset.colorinterp, 1) if one == ColorInterp.alpha]
            if alphas:
                valid &= dataset.read(alphas[0]) > 0
            if dataset.nodata is not None and dataset.count > 1:
                # Colours have no data if all of them are nodata.
                valid = dataset.dataset_mask() > 0
            valid &= np.isfinite(values)
            where = {"src_transform": dataset.transform, "src_crs": dataset.crs}
    where |= {"dst_transform": transform, "dst_crs": crs, "resampling": Resampling.nearest}
    drawn, found = np.zeros(shape), np.zeros(shape, np.uint8)
    reproject(np.where(valid, values, 0), drawn, tolerance=0, **where)
    reproject(valid.astype(np.uint8), found, tolerance=0, **where)
    return drawn, found > 0


def around(image: np.ndarray, valid: np.ndarray, lowest: bool) -> np.ndarray:
    """Return the extremes of the valid pixels among each pixel and those beside it."""
    fill = np.inf if lowest else -np.inf
    padded = np.pad(np.where(valid, image, fill), 1, constant_values=fill)
    parts = [
        padded[row : row + image.shape[0], column : column + image.shape[1]]
        for row in range(3)
        for column in range(3)
    ]
    return np.minimum.reduce(parts) if lowest else np.maximum.reduce(parts)


def check_pixels(plan: Plan, path: Path) -> None:
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
    try:
        expected, valid = expected_of(path, transform, crs, (rows, columns))
    except CPLE_BaseError:
        return  # GDAL cannot draw it
    image = np.zeros((rows, columns, plan.pixel_type.channels))
    found = np.zeros((rows, columns), bool)
    for (identifier, row, column), tile in read_tiles(
        Path(plan.configuration.output.path("map.json"))
    ).items():
        if identifier == matrix.id:
            top, left = (row - limits.min_row) * 256, (column - limits.min_col) * 256
            part = np.s_[top : top + 256, left : left + 256]
            image[part] = tile
            nodata = np.array(plan.pixel_type.nodata, tile.dtype)
            found[part] = (tile != nodata).any(axis=2)
            if plan.pixel_type.has_alpha:
                found[part] = tile[:, :, -1] > 0
    # One pixel more or less at borders, where positions differ by a part of a pixel.
    inner = around(valid.astype(float), np.ones_like(valid), lowest=True) > 0
    outer = around(valid.astype(float), np.ones_like(valid), lowest=False) > 0
    source = plan.sources[0]
    is_same = not source.palette and source.scale is None
    if is_same and plan.pixel_type.has_alpha is (source.alpha is not None):
        white = np.zeros_like(valid)
        if not plan.pixel_type.has_alpha:
            white = around(expected, valid, lowest=False) == plan.pixel_type.nodata[0]
        lost = inner & ~found & ~white
        assert lost.sum() <= 2e-4 * valid.sum(), f"{lost.sum()} of {valid.sum()} lost"
    extra = found & ~outer
    if plan.crs.is_geographic:  # sets wider than a turn show the world again
        extra[:, int(360 / matrix.cell_size) :] = False
    assert extra.sum() <= 2e-4 * max(1, valid.sum()), f"{extra.sum()} where GDAL has none"
    if is_same:
        low = around(expected, valid, lowest=True) - 1e-3
        high = around(expected, valid, lowest=False) + 1e-3
        both = found & inner
        wrong = both & ((image[:, :, 0] < low) | (image[:, :, 0] > high))
        # Positions may be wrong by 1/16 source pixel, and pixels may be larger than those.
        assert wrong.sum() <= 5e-3 * max(1, both.sum()), f"{wrong.sum()} of {both.sum()} wrong"


def cases() -> Iterator[ParameterSet]:
    """Yield each file with one set; with all of them if tests have their full sizes.

    Together, the files are built in each set.
    """
    for number, name in enumerate(FILES):
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
    check_pixels(plan, path)
