"""Files that are compressed or resampled before they are sent."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.coverage.ground import ORIGIN, TILE, Ground, whole

from mastaba.api.catalogue import CRS, BoundingBox
from mastaba.errors import InvalidParameterError, OverloadedError, UnsupportedFormatError
from mastaba_coverage import (
    Cells,
    CoverageLimits,
    CoveragePlan,
    CoverageRequest,
    CoverageTooLargeError,
    DrawnPlan,
    Extractor,
    Interval,
    InvalidIntervalError,
    InvalidScalingError,
    OutsideCoverageError,
    Scaling,
    TiffOptions,
    TileCodec,
    Trim,
    UnknownFieldError,
    UnknownLevelError,
    offered_compressions,
)
from mastaba_render.api.maps import MapLayer, MapRequest

rasterio = pytest.importorskip("rasterio")

LAMBERT, DEGREES = CRS.from_code("EPSG:2154"), CRS.from_code("CRS:84")
WEST, NORTH = ORIGIN
# Columns and rows of the finest level, 1 m wide. The window has parts of 6 x 5 tiles.
LEFT, TOP, COLUMNS, ROWS = 333, 444, 300, 270


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    opened = Ground(tmp_path_factory.mktemp("ground"))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def colours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    opened = Ground(tmp_path_factory.mktemp("colours"), "TIFF_PNG_UINT8", 4)
    yield opened
    opened.close()


def trim(left: float, top: float, columns: float, rows: float) -> Trim:
    """Return an area of cells of the finest level."""
    return Trim(
        LAMBERT,
        Interval(WEST + left, WEST + left + columns),
        Interval(NORTH - top - rows, NORTH - top),
    )


WINDOW = trim(LEFT, TOP, COLUMNS, ROWS)


def extractor(ground: Ground, **limits: int) -> Extractor:
    return Extractor(ground.application.site, CoverageLimits(**limits))


def file_of(ground: Ground, request: CoverageRequest, **limits: int) -> bytes:
    found = extractor(ground, **limits)
    return whole(found, found.plan(ground.coverage, request))


@contextmanager
def opened(data: bytes) -> Iterator[Any]:
    # GDAL reads the bytes of the file in memory, so they must stay.
    with rasterio.MemoryFile(data) as file, file.open() as source:
        yield source


def pixels(data: bytes) -> Any:
    with opened(data) as source:
        return np.moveaxis(source.read(), 0, -1)


def equal_bits(one: Any, other: Any) -> bool:
    return (
        one.shape == other.shape and one.dtype == other.dtype and one.tobytes() == other.tobytes()
    )


PLAIN = [("deflate", None), ("lzw", None), ("zstd", None), ("packbits", None), ("none", None)]
PLAIN += [("deflate", "none"), ("lzw", "none"), ("zstd", "none")]


@pytest.mark.parametrize("is_tiled", [True, False])
@pytest.mark.parametrize(("compression", "predictor"), PLAIN)
def test_values_keep_their_bits_in_each_compression(
    compression: str, predictor: str | None, is_tiled: bool, ground: Ground, colours: Ground
) -> None:
    if compression not in offered_compressions():
        pytest.skip("imagecodecs is not installed")
    for made in (ground, colours):
        options = TiffOptions(compression, predictor, is_tiled)
        data = file_of(made, CoverageRequest(WINDOW, tiff=options))
        expected = made.values("3", TOP, TOP + ROWS, LEFT, LEFT + COLUMNS)
        assert equal_bits(pixels(data), expected)
        with opened(data) as source:
            assert source.profile["tiled"] is is_tiled
            assert (source.transform.c, source.transform.f) == (WEST + LEFT, NORTH - TOP)


def test_tifffile_reads_predictors(ground: Ground, colours: Ground) -> None:
    tifffile = pytest.importorskip("tifffile")
    for made in (ground, colours):
        data = file_of(made, CoverageRequest(WINDOW, tiff=TiffOptions("deflate")))
        expected = made.values("3", TOP, TOP + ROWS, LEFT, LEFT + COLUMNS)
        found = tifffile.imread(io.BytesIO(data)).reshape(expected.shape)
        assert equal_bits(found, expected)


def test_lerc_keeps_finite_values(ground: Ground) -> None:
    if "lerc" not in offered_compressions():
        pytest.skip("imagecodecs is not installed")
    found = pixels(file_of(ground, CoverageRequest(WINDOW, tiff=TiffOptions("lerc"))))
    expected = ground.values("3", TOP, TOP + ROWS, LEFT, LEFT + COLUMNS)
    finite = np.isfinite(expected)
    assert np.array_equal(found[finite], expected[finite])
    assert np.isnan(found[np.isnan(expected)]).all()


def test_jpeg_and_webp_of_colours(colours: Ground) -> None:
    expected = colours.values("3", TOP, TOP + ROWS, LEFT, LEFT + COLUMNS)
    rgb = ("red", "green", "blue")
    request = CoverageRequest(WINDOW, fields=rgb, tiff=TiffOptions("jpeg"))
    found = pixels(file_of(colours, request)).astype(int)
    assert found.shape == (ROWS, COLUMNS, 3)
    assert np.abs(found - expected[:, :, :3]).mean() < 12
    if "webp" in offered_compressions():
        data = file_of(colours, CoverageRequest(WINDOW, tiff=TiffOptions("webp")))
        visible = expected[:, :, 3] > 0
        assert np.array_equal(pixels(data)[visible], expected[visible])


def test_jpeg_of_one_field_is_read_by_gdal(colours: Ground) -> None:
    expected = colours.values("3", TOP, TOP + ROWS, LEFT, LEFT + COLUMNS)
    request = CoverageRequest(WINDOW, fields=("red",), tiff=TiffOptions("jpeg"))
    with opened(file_of(colours, request)) as source:
        found = source.read(1).astype(int)
    assert np.abs(found - expected[:, :, 0]).mean() < 12


@pytest.mark.parametrize("fields", [("red",), ("red", "green", "blue")])
def test_jpeg_in_strips_has_whole_blocks(fields: tuple[str, ...], colours: Ground) -> None:
    """Readers of old files refuse other strips (TIFF, technical note 2)."""
    tifffile = pytest.importorskip("tifffile")
    window = trim(LEFT, TOP, 700, 600)
    request = CoverageRequest(window, fields=fields, tiff=TiffOptions("jpeg", is_tiled=False))
    data = file_of(colours, request)
    expected = colours.values("3", TOP, TOP + 600, LEFT, LEFT + 700)[:, :, : len(fields)]
    assert np.abs(pixels(data).reshape(expected.shape).astype(int) - expected).mean() < 12
    with tifffile.TiffFile(io.BytesIO(data)) as file:
        rows = file.pages[0].rowsperstrip
    assert rows % 16 == 0
    assert rows < 600


@pytest.mark.parametrize(("compression", "columns"), [("webp", 16_383), ("jpeg", 65_501)])
def test_strips_wider_than_a_format_allows_are_refused(
    compression: str, columns: int, colours: Ground
) -> None:
    if compression not in offered_compressions():
        pytest.skip("imagecodecs is not installed")
    coverage, fields = colours.coverage, ("red", "green", "blue")
    whole = TiffOptions(compression)
    CoveragePlan.exact(coverage, coverage.finest, Cells(400, 401, 0, columns), fields, whole)
    tiff = TiffOptions(compression, is_tiled=False)
    cells = Cells(400, 401, 0, columns - 1)
    widest = CoveragePlan.exact(coverage, coverage.finest, cells, fields, tiff)
    assert widest.codec.encode(np.zeros((widest.shape.height, columns - 1, 3), np.uint8))
    cells = Cells(400, 401, 0, columns)
    with pytest.raises(InvalidParameterError, match=f"{compression} needs tiles") as raised:
        CoveragePlan.exact(coverage, coverage.finest, cells, fields, tiff)
    assert raised.value.parameter == "tiling"


@pytest.mark.parametrize(
    ("compression", "columns", "channels", "rows"),
    [
        ("webp", 1, 3, 16_382),
        ("webp", 5, 3, 16_382),
        ("jpeg", 1, 3, 65_488),
        ("jpeg", 4, 1, 65_488),
        *((name, 1, 3, 87_381) for name in ("none", "deflate", "lzw", "packbits", "zstd", "lerc")),
    ],
)
def test_narrow_strips_are_no_higher_than_a_format_allows(
    compression: str, columns: int, channels: int, rows: int
) -> None:
    if compression not in offered_compressions():
        pytest.skip("imagecodecs is not installed")
    codec = TileCodec.of(compression, None, np.dtype("u1"), channels)
    assert codec.strips(columns, channels).height == rows
    assert codec.encode(np.zeros((rows, columns, channels), np.uint8))


@pytest.mark.parametrize(("width", "height"), [(128, 256), (1024, 144)])
@pytest.mark.parametrize("compression", ["none", "deflate"])
def test_tiles_of_another_size(compression: str, width: int, height: int, ground: Ground) -> None:
    options = TiffOptions(compression, tile_width=width, tile_height=height)
    data = file_of(ground, CoverageRequest(WINDOW, tiff=options))
    assert equal_bits(pixels(data), ground.values("3", TOP, TOP + ROWS, LEFT, LEFT + COLUMNS))
    with opened(data) as source:
        assert source.block_shapes == [(height, width)]


def test_cog_with_exactly_its_cells_is_compressed_and_has_overviews(
    ground: Ground, tmp_path: Path
) -> None:
    validate = pytest.importorskip("rio_cogeo.cogeo").cog_validate
    area = trim(256, 448, 1021, 1000)
    request = CoverageRequest(area, is_cog=True, tiff=TiffOptions(is_exact=True))
    data = file_of(ground, request)
    assert equal_bits(pixels(data), ground.values("3", 448, 1448, 256, 1277))
    with opened(data) as source:
        assert source.overviews(1) == [2]
        assert source.compression.value == "DEFLATE"
    path = tmp_path / "exact.tif"
    path.write_bytes(data)
    assert validate(path, strict=True) == (True, [], [])


def test_missing_tiles_are_nodata_in_copies(ground: Ground) -> None:
    # The corner of a tile, and an absent slab in the window.
    area = trim(7 * TILE, 11 * TILE, 6 * TILE, 6 * TILE)
    found = extractor(ground)
    plan = found.plan(ground.coverage, CoverageRequest(area))
    assert plan.is_addressable
    data = file_of(ground, CoverageRequest(area))
    expected = ground.values("3", 11 * TILE, 17 * TILE, 7 * TILE, 13 * TILE)
    assert equal_bits(pixels(data), expected)
    tifffile = pytest.importorskip("tifffile")
    assert equal_bits(tifffile.imread(io.BytesIO(data))[:, :, None], expected)


def test_cog_that_is_not_sparse_holds_all_tiles(ground: Ground) -> None:
    tifffile = pytest.importorskip("tifffile")
    found = []
    for is_sparse in (True, False):
        request = CoverageRequest(is_cog=True, tiff=TiffOptions(is_sparse=is_sparse))
        data = file_of(ground, request)
        with tifffile.TiffFile(io.BytesIO(data)) as file:
            assert (0 in file.pages.first.databytecounts) is is_sparse
        found.append(pixels(data))
    assert equal_bits(*found)


def drawn(ground: Ground, box: BoundingBox, crs: CRS, columns: int, rows: int) -> Any:
    """Return the values of a map."""
    request = MapRequest((MapLayer(ground.layer, None),), box, crs, columns, rows)
    return ground.application.site.renderer.render(request).pixels


@pytest.mark.parametrize("compression", ["deflate", "none"])
def test_resampled_values_are_those_of_maps(compression: str, ground: Ground) -> None:
    size = Scaling(width=211, height=97)
    request = CoverageRequest(WINDOW, scaling=size, tiff=TiffOptions(compression))
    data = file_of(ground, request)
    box = BoundingBox(WEST + LEFT, NORTH - TOP - ROWS, WEST + LEFT + COLUMNS, NORTH - TOP)
    assert equal_bits(pixels(data), drawn(ground, box, LAMBERT, 211, 97))
    with opened(data) as source:
        assert tuple(source.bounds) == pytest.approx(box.corners(northing_first=False))


def test_resampled_cog_has_overviews(ground: Ground, tmp_path: Path) -> None:
    validate = pytest.importorskip("rio_cogeo.cogeo").cog_validate
    request = CoverageRequest(crs=DEGREES, scaling=Scaling(width=1200), is_cog=True)
    data = file_of(ground, request)
    path = tmp_path / "drawn.tif"
    path.write_bytes(data)
    assert validate(path, strict=True) == (True, [], [])
    with opened(data) as source:
        assert source.crs.to_epsg() == 4326
        assert source.overviews(1)[0] == 2


def planned(ground: Ground, request: CoverageRequest) -> Any:
    return extractor(ground).plan(ground.coverage, request)


@pytest.mark.parametrize(
    ("scaling", "level", "size"),
    [
        (Scaling(width=COLUMNS, height=ROWS), "3", (ROWS, COLUMNS)),
        (Scaling(resolution=(1.0, 1.0)), "3", (ROWS, COLUMNS)),
        (Scaling(resolution=(2.0000001, 2.0)), "2", (135, 151)),
        (Scaling(factor=(1.0, 1.0)), "3", (ROWS, COLUMNS)),
    ],
)
def test_stored_values_are_sent_where_the_size_is_that_of_a_level(
    scaling: Scaling, level: str, size: tuple[int, int], ground: Ground
) -> None:
    plan = planned(ground, CoverageRequest(WINDOW, scaling=scaling))
    assert plan.kernel is None
    assert (plan.grid.matrix.id, (plan.rows, plan.columns)) == (level, size)


@pytest.mark.parametrize(
    ("scaling", "size"),
    [
        (Scaling(width=150), (135, 150)),
        (Scaling(height=90), (90, 100)),
        (Scaling(factor=(0.5, 0.25)), (68, 150)),
        (Scaling(resolution=(3.0, 7.0)), (39, 100)),
    ],
)
def test_size_of_resampled_values(scaling: Scaling, size: tuple[int, int], ground: Ground) -> None:
    plan = planned(ground, CoverageRequest(WINDOW, scaling=scaling, kernel="nn"))
    assert isinstance(plan, DrawnPlan)
    assert ((plan.rows, plan.columns), plan.kernel) == (size, "nn")


def test_kernel_is_that_of_the_request(ground: Ground) -> None:
    found = {
        kernel: file_of(ground, CoverageRequest(WINDOW, scaling=Scaling(width=77), kernel=kernel))
        for kernel in ("nn", "linear")
    }
    expected = ground.values("3", TOP, TOP + ROWS, LEFT, LEFT + COLUMNS)
    finite = pixels(found["nn"])
    assert found["nn"] != found["linear"]
    assert finite.shape == (69, 77, 1)
    assert expected.dtype == finite.dtype


def fixed(ground: Ground, box: tuple[float, float, float, float], width: int, height: int) -> Any:
    west, south, east, north = box
    return planned(
        ground,
        CoverageRequest(
            Trim(LAMBERT, Interval(west, east), Interval(south, north)),
            scaling=Scaling(width=width, height=height),
            is_fixed=True,
        ),
    )


def test_fixed_extent_is_that_of_the_request(ground: Ground) -> None:
    near = 0.003
    box = (WEST + 333 + near, NORTH - 600, WEST + 433 + near, NORTH - 500)
    plan = fixed(ground, box, 100, 100)
    assert plan.kernel is None
    assert plan.edges == BoundingBox(*box)
    # Beyond the coverage too.
    beyond = (WEST - 50.0, NORTH - 600.0, WEST + 450.0, NORTH - 100.0)
    found = fixed(ground, beyond, 500, 500)
    assert found.edges == BoundingBox(*beyond)
    values = pixels(whole(extractor(ground), found))
    assert (values[:200] == -99999).all()
    assert equal_bits(values[220:, 242:], ground.values("3", 320, 600, 192, 450))
    far = fixed(ground, (WEST + 300.1, NORTH - 600, WEST + 400.1, NORTH - 500), 100, 100)
    assert far.kernel is not None
    assert far.edges.xmin == WEST + 300.1


ERRORS: list[tuple[CoverageRequest, type[Exception]]] = [
    (CoverageRequest(level="9"), UnknownLevelError),
    (CoverageRequest(fields=("red",)), UnknownFieldError),
    (CoverageRequest(fields=("value", "value")), InvalidParameterError),
    (CoverageRequest(kernel="cubic"), InvalidParameterError),
    (CoverageRequest(trim(5000, 0, 10, 10)), OutsideCoverageError),
    (CoverageRequest(trim(500, 500, -3, 10)), InvalidIntervalError),
    (CoverageRequest(trim(500, 500, 1e300, 10)), InvalidIntervalError),
    (CoverageRequest(trim(500, float("nan"), 10, 10)), InvalidIntervalError),
    (CoverageRequest(trim(500, 500, 0, 0), scaling=Scaling(width=4)), InvalidScalingError),
    (CoverageRequest(WINDOW, scaling=Scaling(width=3000)), InvalidScalingError),
    (CoverageRequest(WINDOW, scaling=Scaling(resolution=(0.0, 1.0))), InvalidScalingError),
    (CoverageRequest(WINDOW, scaling=Scaling(factor=(1e-9, float("inf")))), InvalidScalingError),
    (CoverageRequest(scaling=Scaling(factor=(70.0, 1.0))), CoverageTooLargeError),
    (CoverageRequest(scaling=Scaling(width=20000, height=20000)), CoverageTooLargeError),
    (CoverageRequest(WINDOW, format="png"), UnsupportedFormatError),
    (CoverageRequest(WINDOW, is_fixed=True), InvalidParameterError),
]


@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_invalid_requests_are_refused_before_anything_is_read(number: int, ground: Ground) -> None:
    request, error = ERRORS[number]
    with pytest.raises(error):
        planned(ground, request)


def test_file_larger_than_the_spool_is_refused_with_what_works(ground: Ground) -> None:
    for options in (TiffOptions(), TiffOptions("zstd")):
        with pytest.raises(CoverageTooLargeError, match="compression=none") as raised:
            file_of(ground, CoverageRequest(WINDOW, tiff=options), spool=100_000)
        assert raised.value.unit == "bytes"
    # Before any work, if it is far too large.
    with pytest.raises(CoverageTooLargeError, match="compression=none"):
        file_of(ground, CoverageRequest(WINDOW, tiff=TiffOptions("deflate")), spool=1000)


def test_unwritable_temporary_directory_is_an_overload(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    with pytest.raises(OverloadedError, match="temporary file"):
        file_of(ground, CoverageRequest(WINDOW, tiff=TiffOptions("deflate")))


def test_value_at_a_position(ground: Ground, colours: Ground) -> None:
    found = extractor(ground)
    expected = ground.values("3", 700, 701, 500, 501)[0, 0, 0].item()
    x, y = WEST + 500.2, NORTH - 700.9
    assert found.value_at(ground.coverage, LAMBERT, x, y, ("value",)) == {"value": expected}
    nan = WEST + 3 * TILE + 0.5, NORTH - 5 * TILE - 3.5
    assert found.value_at(ground.coverage, LAMBERT, *nan, ("value",)) == {"value": None}
    with pytest.raises(OutsideCoverageError):
        found.value_at(ground.coverage, LAMBERT, WEST, NORTH, ("value",))
    several = extractor(colours).value_at(colours.coverage, LAMBERT, x, y, ("blue", "alpha"))
    stored = colours.values("3", 700, 701, 500, 501)[0, 0].tolist()
    assert several == {"blue": stored[2], "alpha": stored[3]}


def test_nothing_stays_in_the_cache_of_decoded_tiles(ground: Ground) -> None:
    cache = ground.application.site.renderer.tiles
    before = cache.used
    file_of(ground, CoverageRequest(WINDOW, scaling=Scaling(width=211)))
    file_of(ground, CoverageRequest(WINDOW))
    assert cache.used == before


@pytest.mark.parametrize("code", ["EPSG:5720", "EPSG:5698"])
def test_heights_name_their_vertical_crs(code: str, tmp_path: Path) -> None:
    services: dict[str, Any] = {"wmts": {}, "elevation": {}}
    ground = Ground(tmp_path, services=services, vertical={"crs": code, "unit": "m"})
    assert ground.coverage.fields == ("elevation",)
    assert ground.coverage.unit == "m"
    data = file_of(ground, CoverageRequest(WINDOW))
    with rasterio.Env(GTIFF_REPORT_COMPD_CS=True), opened(data) as source:
        assert "IGN69" in source.crs.to_wkt()
    ground.close()
