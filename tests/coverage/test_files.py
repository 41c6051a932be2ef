"""Files of coverages, read by GDAL and tifffile."""

from __future__ import annotations

import io
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.coverage.ground import FORMATS, ORIGIN, TILE, Ground, is_stored, whole, written
from tests.tiny import tiny_installation
from tifffile import TiffFile

from mastaba.wsgi import create_application
from mastaba_coverage import (
    Cells,
    Coverage,
    CoverageLimits,
    CoveragePlan,
    CoverageRequest,
    Extractor,
    Scaling,
    StoredValues,
    TiffOptions,
    extract,
    sources,
)
from mastaba_coverage.answer import blocks_of, tiles_of
from mastaba_coverage.sources import CopiedTiles
from mastaba_writer.tile_encoder import encode_tile

rasterio = pytest.importorskip("rasterio")
cog_validate = pytest.importorskip("rio_cogeo.cogeo").cog_validate

# The tiles that are decoded alone are nowhere on the ground.
pytestmark = pytest.mark.filterwarnings("ignore:Dataset has no geotransform")

MakeGround = Callable[..., Ground]
PADDED_ROW, PADDED_COL = 4, 0
"""The first tile of the COG of the whole layer: a corner of a tile of both overviews."""


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeGround]:
    """Return a function that writes an installation, or returns one that exists."""
    opened: list[Ground] = []

    @cache
    def make(*args: Any, **options: Any) -> Ground:
        opened.append(Ground(tmp_path_factory.mktemp("ground"), *args, **options))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


def read(path: Path, overview: int | None = None) -> Any:
    options = {} if overview is None else {"overview_level": overview}
    with rasterio.open(path, **options) as source:
        return np.moveaxis(source.read(), 0, -1)


def equal_bits(one: Any, other: Any) -> bool:
    return one.shape == other.shape and bool(
        np.array_equal(
            np.ascontiguousarray(one).view(np.uint8), np.ascontiguousarray(other).view(np.uint8)
        )
    )


def alone(made: Ground) -> Any:
    """Return what decodes a tile: the library that reads the files, if decoders may differ."""
    if "JPG" not in made.name:
        return None

    def decoded(level: str, row: int, col: int) -> Any:
        pixels = made.made(level, row, col)
        if pixels is None:
            return None
        with rasterio.MemoryFile(encode_tile(made.name, pixels)) as file, file.open() as source:
            return np.moveaxis(source.read(), 0, -1)

    return decoded


def channels_of(name: str) -> tuple[int, ...]:
    if "FLOAT" in name:
        return (1,)
    return (3,) if "JPG" in name else (1, 2, 3, 4)


# Of the channel counts of a format, these are quick; together they are all counts.
QUICK = [("RAW", 4), ("PNG", 4), ("ZIP", 3), ("PKB", 2)]
QUICK_CHANNELS = {f"TIFF_{name}_UINT8": count for name, count in QUICK}
# Their compressions are quick with the other type of samples, or with another quality.
THOROUGH = ("TIFF_LZW_FLOAT32", "TIFF_PKB_FLOAT32", "TIFF_JPG90_UINT8")


def cases() -> list[Any]:
    """Return the formats and channel counts, the registration of their layer, and marks."""
    found: list[Any] = [("TIFF_ZIP_FLOAT32", 1, "post")]
    for name in FORMATS:
        counts = channels_of(name)
        for count in counts:
            is_quick = count == QUICK_CHANNELS.get(name, counts[0]) and name not in THOROUGH
            marks = [] if is_quick else [pytest.mark.thorough]
            found.append(pytest.param(name, count, "area", marks=marks))
    return found


@pytest.mark.parametrize(("name", "channels", "registration"), cases())
def test_cog_of_the_whole_layer(
    name: str, channels: int, registration: str, ground: MakeGround, tmp_path: Path
) -> None:
    made = ground(name, channels, registration=registration)
    plan = made.whole()
    path = written(made.extract(plan), tmp_path / "whole.tif")
    assert cog_validate(path, strict=True) == (True, [], [])
    cells = plan.cells
    assert cells == Cells(PADDED_ROW * TILE, 26 * TILE, PADDED_COL * TILE, 20 * TILE)
    is_copied = [image.is_copied for image in plan.images]
    assert is_copied == [True] * 3 if "PNG" not in name else [False] * 3

    with rasterio.open(path) as source:
        assert source.crs.to_epsg() == 2154
        assert source.overviews(1) == [2, 4]
        assert source.transform.c == ORIGIN[0] + cells.left
        assert source.transform.f == ORIGIN[1] - cells.top
        assert source.tags()["AREA_OR_POINT"] == ("Point" if registration == "post" else "Area")
        assert source.tags()["TITLE"] == "Ground & <water>"
        colours = [colour.name for colour in source.colorinterp]
        nodata = source.nodata
    names = ["gray"] if channels < 3 else ["red", "green", "blue"]
    assert colours == (names if channels % 2 else [*names, "alpha"])
    assert nodata == (-99999 if "FLOAT" in name else None if channels in (2, 4) else 255)
    for number, level in enumerate(["3", "2", "1"]):
        step = 1 << number
        edges = (cells.top, cells.bottom, cells.left, cells.right)
        # Beside alpha there is no nodata value: what is left out is transparent.
        blank = 0 if channels in (2, 4) else None
        expected = made.values(level, *(edge // step for edge in edges), blank, tile=alone(made))
        assert equal_bits(read(path, None if number == 0 else number - 1), expected)


def test_tiles_of_a_set_are_named_as_gdal_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mastaba_coverage.plan._SMALLEST", 128)
    site = create_application(str(tiny_installation(tmp_path / "tiny"))).site
    layer = site.catalogue.layers["RGB_JPG"]
    coverage = Coverage.of(layer, site.catalogue.readers[layer.id])
    finest, fields = coverage.finest, coverage.fields
    plan = CoveragePlan.cog(coverage, finest.window, fields)
    path = written(extract(plan, CoverageLimits()), tmp_path / "whole.tif")
    with rasterio.open(path) as source:
        tags = source.tags(ns="TILING_SCHEME")
        aligned = len(source.overviews(1)) + 1
        corner = source.transform.c, source.transform.f
    assert tags == {
        "NAME": "PM",
        "ZOOM_LEVEL": finest.matrix.id,
        "ALIGNED_LEVELS": str(aligned),
    }
    assert aligned > 1
    matrix = finest.matrix
    side = 256 * matrix.cell_size * 2 ** (aligned - 1)
    for distance in (corner[0] - matrix.origin_x, matrix.origin_y - corner[1]):
        assert distance / side == pytest.approx(round(distance / side), abs=1e-6)
    cells = replace(finest.window, top=finest.window.top + 1)
    beside = CoveragePlan.exact(coverage, finest, cells, fields, TiffOptions("none"))
    path = written(extract(beside, CoverageLimits()), tmp_path / "beside.tif")
    with rasterio.open(path) as source:
        assert source.tags(ns="TILING_SCHEME") == {}


def test_tifffile_reads_the_same(ground: MakeGround, tmp_path: Path) -> None:
    tifffile = pytest.importorskip("tifffile")
    made = ground()
    plan = made.whole()
    path = written(made.extract(plan), tmp_path / "whole.tif")
    with tifffile.TiffFile(path) as file:
        assert [page.shape for page in file.series[0].levels] == [
            (image.cells.rows, image.cells.columns) for image in plan.images
        ]
        part = file.series[0].asarray()[TILE : 2 * TILE, 3 * TILE : 4 * TILE]
    assert equal_bits(part[:, :, None], made.tile("3", 5, 3))


def plan_of(made: Ground, cells: Cells, fields: tuple[str, ...]) -> CoveragePlan:
    """Return a plan that copies tiles if it can, and has them uncompressed otherwise."""
    coverage = made.coverage
    plan = CoveragePlan.exact(coverage, coverage.finest, cells, fields)
    if plan.is_addressable:
        return plan
    return CoveragePlan.exact(coverage, coverage.finest, cells, fields, TiffOptions("none"))


WINDOWS = [
    Cells(400, 700, 300, 1000),
    Cells(401, 402, 333, 334),
    Cells(320, 321, 192, 1280),
    Cells(5 * TILE, 9 * TILE, 3 * TILE, 8 * TILE),
    Cells(5 * TILE, 9 * TILE - 7, 3 * TILE, 8 * TILE + 5),
    # Around the absent slab.
    Cells(12 * TILE - 3, 16 * TILE + 3, 8 * TILE - 3, 12 * TILE + 3),
]


@pytest.mark.parametrize("cells", WINDOWS)
@pytest.mark.parametrize(
    ("name", "channels"), [("TIFF_ZIP_FLOAT32", 1), ("TIFF_JPG_UINT8", 3), ("TIFF_PNG_UINT8", 4)]
)
def test_window_has_exactly_its_cells_and_their_bits(
    cells: Cells, name: str, channels: int, ground: MakeGround, tmp_path: Path
) -> None:
    made = ground(name, channels)
    plan = plan_of(made, cells, made.coverage.fields)
    path = written(made.extract(plan), tmp_path / "window.tif")
    decode = alone(made) if plan.images[0].is_copied else None
    expected = made.values("3", cells.top, cells.bottom, cells.left, cells.right, tile=decode)
    assert equal_bits(read(path), expected)
    with rasterio.open(path) as source:
        assert (source.transform.c, source.transform.f) == (
            ORIGIN[0] + cells.left,
            ORIGIN[1] - cells.top,
        )


def test_nan_infinities_and_zeros_keep_their_bits(ground: MakeGround, tmp_path: Path) -> None:
    made = ground("TIFF_RAW_FLOAT32")
    cells = Cells(321, 400, 193, 270)
    plan = plan_of(made, cells, ("value",))
    bits = read(written(made.extract(plan), tmp_path / "window.tif")).view(np.uint32)
    # Row 4 of the first tile begins one column before the window; the next tile is whole.
    assert bits[3, 63, 0] == 0x7FC01234
    assert bits[2, 63 + 3, 0] == 0x80000000


def test_channels_are_selected_in_order(ground: MakeGround, tmp_path: Path) -> None:
    made = ground("TIFF_JPG_UINT8", 3)
    cells = Cells(5 * TILE, 7 * TILE, 3 * TILE, 5 * TILE)
    plan = plan_of(made, cells, ("blue", "red"))
    path = written(made.extract(plan), tmp_path / "window.tif")
    expected = made.values("3", cells.top, cells.bottom, cells.left, cells.right)
    assert equal_bits(read(path), expected[:, :, [2, 0]])


def test_level_is_read_as_it_is_stored(ground: MakeGround, tmp_path: Path) -> None:
    made = ground(registration="post")
    grid = made.coverage.grids["2"]
    plan = CoveragePlan.exact(
        made.coverage, grid, Cells(130, 300, 70, 200), ("value",), TiffOptions("none")
    )
    path = written(made.extract(plan), tmp_path / "window.tif")
    assert equal_bits(read(path), made.values("2", 130, 300, 70, 200))
    with rasterio.open(path) as source:
        assert source.transform.a == 2.0
        # Averages of posts belong to areas.
        assert source.tags()["AREA_OR_POINT"] == "Area"


def test_jpeg_of_other_sampling_is_not_copied(ground: MakeGround, tmp_path: Path) -> None:
    import io

    from PIL import Image

    def full(level: str, row: int, col: int) -> bytes:
        stream = io.BytesIO()
        Image.fromarray(np.full((TILE, TILE, 3), 90, np.uint8)).save(
            stream, "JPEG", subsampling="4:4:4"
        )
        return stream.getvalue()

    made = ground("TIFF_JPG_UINT8", 3, title="Full chroma")
    made.write(tile=full)
    answer = made.extract(made.whole())
    assert not any(image.is_copied for image in answer.plan.images)
    assert (read(written(answer, tmp_path / "whole.tif"))[TILE, 3 * TILE] == 90).all()


@pytest.mark.parametrize("is_exact", [False, True], ids=["copied", "made"])
@pytest.mark.parametrize(("last", "has_nodata"), [(8, False), (12, True)])
def test_nodata_of_a_jpeg_is_that_of_tiles_without_data(
    ground: MakeGround, tmp_path: Path, is_exact: bool, last: int, has_nodata: bool
) -> None:
    """Readers would take white ground for nodata; JPEG does not even keep the value."""
    made = ground("TIFF_JPG_UINT8", 3)
    cells = Cells(8 * TILE, 16 * TILE, 4 * TILE, last * TILE)
    tiff = TiffOptions("jpeg", is_exact=True) if is_exact else TiffOptions()
    plan = CoveragePlan.cog(made.coverage, cells, made.coverage.fields, tiff)
    assert plan.images[0].is_copied != is_exact
    extractor = Extractor(made.application.site, CoverageLimits())
    with TiffFile(io.BytesIO(whole(extractor, plan))) as file:
        for page in (file.pages.first, *file.pages[1:]):
            assert (42113 in page.tags) == has_nodata


def test_a_resampled_jpeg_has_no_nodata(ground: MakeGround) -> None:
    made = ground("TIFF_JPG_UINT8", 3)
    extractor = Extractor(made.application.site, CoverageLimits())
    for compression, has_nodata in (("jpeg", False), ("deflate", True)):
        tiff = TiffOptions(compression)
        request = CoverageRequest(scaling=Scaling(width=50), tiff=tiff)
        plan = extractor.plan(made.coverage, request)
        with TiffFile(io.BytesIO(whole(extractor, plan))) as file:
            assert (42113 in file.pages.first.tags) == has_nodata


@pytest.mark.live
def test_gdal_reads_the_values(ground: MakeGround, tmp_path: Path) -> None:
    made = ground()
    path = written(made.extract(made.whole()), tmp_path / "whole.tif")
    raw = tmp_path / "whole.raw"
    subprocess.run(["gdal_translate", "-q", "-of", "ENVI", path, raw], check=True)
    cells = made.whole().cells
    expected = made.values("3", cells.top, cells.bottom, cells.left, cells.right)
    assert raw.read_bytes() == expected.tobytes()


def test_tiles_beside_each_other_decode_what_they_share_once(
    ground: MakeGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever else must be decoded again because there is no room to keep it."""
    monkeypatch.setattr(sources, "KEPT", 1)
    monkeypatch.setattr(sources, "_DECODED_AT_A_TIME", 1)
    decoded: Counter[tuple[int, int]] = Counter()
    decode = StoredValues.decode

    def counted(self: StoredValues, place: tuple[int, int], payload: bytes) -> Any:
        decoded[place] += 1
        return decode(self, place, payload)

    monkeypatch.setattr(StoredValues, "decode", counted)
    made = ground()
    cells = Cells(850, 850 + 5 * TILE, 410, 410 + 9 * TILE)
    tiff = TiffOptions("none")
    plan = CoveragePlan.exact(
        made.coverage, made.coverage.finest, cells, made.coverage.fields, tiff
    )
    answer = made.extract(plan)
    list(answer.pieces(0, answer.size))
    expected: Counter[tuple[int, int]] = Counter()
    for top in range(cells.top, cells.bottom, TILE):
        for row in (top // TILE, top // TILE + 1):
            columns = range(cells.left // TILE, (cells.right - 1) // TILE + 1)
            expected.update((row, col) for col in columns if is_stored(row, col))
    # At most one tile has room until the next row.
    assert sum((expected - decoded).values()) <= 5
    assert decoded <= expected


@pytest.mark.parametrize("most", [1, 5000, 20_000])
def test_copied_tiles_are_read_in_groups(
    ground: MakeGround, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sizes of tiles are added up once, not again for each group."""
    made = ground()
    plan = made.whole()
    (block, *_) = blocks_of(plan, CoverageLimits())
    source = tiles_of(plan, plan.images[0], block)
    expected = list(source.tiles(0, len(source.sizes)))
    monkeypatch.setattr(sources, "_COPIED_AT_A_TIME", most)
    added: list[int] = []
    groups: list[int] = []
    cumsum, group = np.cumsum, CopiedTiles._group

    def counted(sizes: Any) -> Any:
        added.append(len(sizes))
        return cumsum(sizes)

    def noted(self: CopiedTiles, first: int, stop: int) -> Iterator[bytes]:
        size = int(self.sizes[first:stop].sum())
        assert size <= most or stop == first + 1
        groups.append(size)
        return group(self, first, stop)

    monkeypatch.setattr(np, "cumsum", counted)
    monkeypatch.setattr(CopiedTiles, "_group", noted)
    assert list(source.tiles(3, len(source.sizes))) == expected[3:]
    assert len(groups) > 1
    assert sum(added) == len(source.sizes) - 3
