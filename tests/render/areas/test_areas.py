"""Views of an area: nothing outside of it enters an answer, and everything inside stays."""

from __future__ import annotations

import io
import json
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.render.areas.pair import (
    FORMATS,
    HALF,
    TILE,
    World,
    addresses,
    answer,
    cell_size,
    centres,
    made,
)
from tests.render.areas.truth import area, box, certain, geojson, star
from tests.render.ground import KERNELS
from tests.sizes import sized
from werkzeug.test import Client

from mastaba.model.bbox import BoundingBox
from mastaba.model.crs import CRS
from mastaba.model.layer import FeatureInfo
from mastaba.model.tile_matrix_set import TileLimits, TileMatrix
from mastaba_render.api.areas import Area, Cut, masked_readers, narrowed
from mastaba_render.api.decoding import TileDecoder
from mastaba_render.areas.level import CUT, INSIDE, OUTSIDE, LevelArea
from mastaba_render.areas.projected import projected

OpenWorld = Callable[..., World]

TRIED = sized((0, 2, 3, 4, 6, 39), tuple(range(40)))
"""With 1 and 5, one of each kind of area."""
SEEDS = [1, 5, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in TRIED)]
NODATA = {"TIFF_RAW_FLOAT32": -99999.0, "TIFF_ZIP_FLOAT32": -99999.0}
# One with nodata, one with alpha, and one whose pixels are not exact.
QUICK = ("TIFF_ZIP_FLOAT32", "TIFF_PNG_UINT8", "TIFF_JPG_UINT8")
EXTENSIONS = {"RAW": "bil", "ZIP": "zbil", "LZW": "tif", "PNG": "png", "JPG": "jpg", "PKB": "tif"}


@pytest.fixture
def open_world(tmp_path: Path) -> Iterator[OpenWorld]:
    opened: list[World] = []

    def it(name: str, polygons: Any, seed: int | None = None, **options: Any) -> World:
        opened.append(World(tmp_path / str(len(opened)), name, polygons, seed, **options))
        return opened[-1]

    yield it
    for world in opened:
        world.close()


def level_area(polygons: Any, level: str, cut: Cut = Cut.MASK) -> LevelArea:
    cell = cell_size(level)
    size = 2 ** int(level)
    matrix = TileMatrix(level, cell, -HALF, HALF, TILE, TILE, size, size)
    crs, whole = CRS.from_code("EPSG:3857"), BoundingBox(-HALF, -HALF, HALF, HALF)
    edges = [
        projected(part, crs, whole, cell / 4) for part in Area.from_geojson(geojson(polygons)).parts
    ]
    return LevelArea(matrix, lambda: edges, cut)


def check_masks(polygons: Any, level: str, tiles: TileLimits) -> int:
    """Compare states and masks with the rasteriser; return the number of tiles that are cut."""
    shown = level_area(polygons, level)
    count = 0
    for row in range(tiles.min_row, tiles.max_row + 1):
        for col in range(tiles.min_col, tiles.max_col + 1):
            state, mask = shown.state(row, col), shown.mask(row, col)
            x, y = centres(level, row, col)
            # An edge may be off by a quarter of a pixel.
            yes, no = certain(polygons, x, y, 0.3)
            assert mask[yes].all()
            assert not mask[no].any()
            assert mask.all() or state != INSIDE
            assert not mask.any() or state != OUTSIDE
            count += state == CUT
    return count


@pytest.mark.parametrize("seed", SEEDS)
def test_masks_are_those_of_an_independent_rasteriser(seed: int) -> None:
    cut = check_masks(area(seed), "9", TileLimits(176, 181, 255, 260))
    assert cut > 0


def test_the_antimeridian_is_in_the_middle_of_an_area() -> None:
    beyond = [[box(178, -10, 183, 10), star(random.Random(3), 180.5, 0, 9, 0.5, 2)]]
    size = 2**6
    for columns in ((0, 1), (size - 2, size - 1)):
        assert check_masks(beyond, "6", TileLimits(29, 34, *columns)) > 0
    other = [[box(178 - 360, -10, 183 - 360, 10)]]
    assert level_area(other, "6").mask(31, 0).any()
    assert level_area(other, "6").mask(31, size - 1).any()


@pytest.mark.parametrize(
    ("seed", "name", "first", "every"),
    [
        (1, "TIFF_ZIP_FLOAT32", 0, 4),
        pytest.param(0, "TIFF_JPG_UINT8", 0, 1, marks=pytest.mark.thorough),
        pytest.param(1, "TIFF_ZIP_FLOAT32", 0, 1, marks=pytest.mark.thorough),
        *(
            pytest.param(seed, name, *sized((number % 3, 3), (0, 1)), marks=pytest.mark.thorough)
            for seed in TRIED
            for number, name in enumerate(FORMATS)
            if sized(seed == TRIED[number % len(TRIED)], True)
        ),
    ],
)
def test_no_answer_changes_with_the_pixels_outside(
    seed: int, name: str, first: int, every: int, open_world: OpenWorld
) -> None:
    polygons = area(seed)
    kernel = KERNELS[(seed + 4) % len(KERNELS)]
    one, other = (open_world(name, polygons, pixels, kernel=kernel) for pixels in (None, 7))
    views = one.view(), other.view()
    if None in views:
        assert views == (None, None)
        return
    public, changed = Client(one.application), Client(other.application)
    differences = 0
    for path, body in islice(addresses(name), first, None, every):
        answers = [answer(client, path, body) for client in views if client is not None]
        assert answers[0].status_code == answers[1].status_code, path
        assert answers[0].status_code < 500, path
        assert _content(answers[0]) == _content(answers[1]), path
        if seed < 2:
            differences += answer(public, path, body).data != answer(changed, path, body).data
    # Otherwise, equal answers would show nothing.
    assert seed >= 2 or differences > 50 / every


def _content(response: Any) -> Any:
    """Return the body without the version of the slabs that some documents contain."""
    if response.content_type == "application/json" and b'"version"' in response.data:
        return json.loads(response.data) | {"version": None}
    return response.data


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.thorough]) for name in FORMATS],
)
def test_tiles_keep_what_is_inside_and_nothing_else(name: str, open_world: OpenWorld) -> None:
    polygons = area(1)
    world = open_world(name, polygons)
    client = world.view()
    assert client is not None
    public = Client(world.application)
    layer = world.application.site.catalogue.layers["ground"]
    channels = FORMATS[name]
    decoder = TileDecoder(layer.pyramid.format, channels, TILE, TILE)
    nodata = NODATA.get(name, 255)
    states = {"cut": 0, "whole": 0, "outside": 0}
    for row in range(355, 361):
        for col in range(512, 520):
            path = f"/tms/1.0.0/ground/10/{col}/{row}.{EXTENSIONS[name.split('_')[1]]}"
            found, stored = client.get(path), public.get(path)
            x, y = centres("10", row, col)
            yes, no = certain(polygons, x, y, 0.3)
            if found.status_code == 404:
                assert not yes.any()
                states["outside"] += 1
                continue
            assert found.content_type == stored.content_type
            assert found.headers["ETag"] != stored.headers["ETag"]
            assert re.fullmatch(r'".*-a[0-9a-f]{8}"', found.headers["ETag"])
            again = client.get(path, headers={"If-None-Match": found.headers["ETag"]})
            assert again.status_code == 304
            assert (
                client.get(path, headers={"If-None-Match": stored.headers["ETag"]}).status_code
                == 200
            )
            if yes.all():
                assert found.data == stored.data
                states["whole"] += 1
                continue
            states["cut"] += 1
            pixels = decoded(decoder, name, found).astype(float)
            before = decoded(decoder, name, stored).astype(float)
            if "JPG" in name:
                assert np.abs(pixels - before)[yes].max(initial=0) <= 3
                assert np.abs(pixels - nodata)[no].max(initial=0) <= 3
                continue
            assert (pixels[yes] == before[yes]).all()
            colours = channels if channels != 4 else 3
            assert (pixels[no][:, :colours] == nodata).all()
            if channels == 4:
                assert not pixels[no][:, 3].any()
    assert all(states.values()), states


def decoded(decoder: TileDecoder, name: str, response: Any) -> Any:
    """Return the pixels of a tile as a client reads it."""
    if name.split("_")[1] in ("LZW", "PKB"):
        from PIL import Image

        pixels = np.array(Image.open(io.BytesIO(response.data)))
        return pixels if pixels.ndim == 3 else pixels[:, :, np.newaxis]
    return decoder.decode(response.data)


def test_maps_have_no_data_further_outside_than_a_kernel_reaches(open_world: OpenWorld) -> None:
    polygons = area(0)
    client = open_world("TIFF_RAW_FLOAT32", polygons).view()
    assert client is not None
    west, south, east, north = 20000, 5900000, 290000, 6200000
    width, height, cell = 135, 150, 2000
    response = client.get(
        f"/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&LAYERS=ground&STYLES=&CRS=EPSG:3857"
        f"&BBOX={west},{south},{east},{north}&WIDTH={width}&HEIGHT={height}"
        "&FORMAT=image/x-bil;bits=32"
    )
    values = np.frombuffer(response.data, "<f4").reshape(height, width)
    x = west + (np.arange(width) + 0.5) * cell
    y = north - (np.arange(height) + 0.5) * cell
    yes, no = certain(polygons, *np.meshgrid(x, y), 5)
    assert (values[no] == -99999).all()
    assert (values[yes] != -99999).all()
    assert yes.any()
    assert no.any()


def test_cut_tiles_are_dropped_or_kept(open_world: OpenWorld) -> None:
    polygons = area(1)
    world = open_world("TIFF_PNG_UINT8", polygons)
    public = Client(world.application)
    kept, dropped, masked = (world.view(cut) for cut in (Cut.KEEP, Cut.DROP, Cut.MASK))
    assert kept is not None
    assert dropped is not None
    assert masked is not None
    counts = {"cut": 0, "inside": 0}
    for row in range(355, 361):
        for col in range(512, 520):
            path = f"/tms/1.0.0/ground/10/{col}/{row}.png"
            state = level_area(polygons, "10").state(row, col)
            one, other = kept.get(path), dropped.get(path)
            assert (
                (one.status_code == 200)
                == (state != OUTSIDE)
                == (masked.get(path).status_code == 200)
            )
            assert (other.status_code == 200) == (state == INSIDE)
            assert state == OUTSIDE or one.data == public.get(path).data
            counts["cut"] += state == CUT
            counts["inside"] += state == INSIDE
    assert all(counts.values())


def test_documents_describe_the_area(open_world: OpenWorld) -> None:
    world = open_world("TIFF_RAW_FLOAT32", [[box(0.9, 47.2, 1.6, 47.9)]])
    client = world.view()
    assert client is not None
    layer = world.application.site.catalogue.layers["ground"]
    shown = narrowed(layer, world.area)
    assert shown is not None
    bounds = shown.geographic_bbox
    assert (bounds.xmin, bounds.ymin, bounds.xmax, bounds.ymax) == (0.9, 47.2, 1.6, 47.9)
    limits = {name: level.limits for name, level in shown.pyramid.levels.items()}
    assert limits["9"] == TileLimits(178, 179, 257, 258)
    capabilities = client.get("/wmts?SERVICE=WMTS&REQUEST=GetCapabilities").text
    assert "<MinTileRow>178</MinTileRow>" in capabilities
    collection = client.get("/ogcapi/collections/ground?f=json").json
    assert collection["extent"]["spatial"]["bbox"][0] == pytest.approx([0.9, 47.2, 1.6, 47.9])


def test_another_server_is_not_asked_for_features(open_world: OpenWorld) -> None:
    world = open_world("TIFF_RAW_FLOAT32", area(0))
    layer = world.application.site.catalogue.layers["ground"]
    own = narrowed(layer, world.area)
    assert own is not None
    assert own.feature_info is not None
    foreign = replace(layer, feature_info=FeatureInfo("http://other.example/wms"))
    shown = narrowed(foreign, world.area)
    assert shown is not None
    assert shown.feature_info is None


def test_nothing_is_left_of_an_area_elsewhere(open_world: OpenWorld) -> None:
    world = open_world("TIFF_RAW_FLOAT32", [[box(20, 10, 21, 11)]])
    assert world.view() is None
    # Its box meets the layer, and it does not.
    ring = [
        (-5.0, 40.0),
        (10.0, 40.0),
        (10.0, 46.0),
        (-3.0, 46.0),
        (-3.0, 52.0),
        (-5.0, 52.0),
        (-5.0, 40.0),
    ]
    around = Area.from_geojson(geojson([[ring]]))
    assert narrowed(world.application.site.catalogue.layers["ground"], around) is None


def test_a_coverage_has_the_masked_values(open_world: OpenWorld, tmp_path: Path) -> None:
    """The COG of the layer, of which any part can be asked for, is not copied from slabs."""
    rasterio = pytest.importorskip("rasterio")
    polygons = area(1)
    client = open_world("TIFF_LZW_UINT8", polygons).view()
    assert client is not None
    cog = "image/tiff%3Bprofile%3Dcloud-optimized"
    path = f"/wcs?service=WCS&version=2.0.1&request=GetCoverage&coverageId=ground&format={cog}"
    response = client.get(path, buffered=True)
    assert response.status_code == 200
    part = client.get(path, headers={"Range": "bytes=1000-200000"}, buffered=True)
    assert part.status_code == 206
    assert part.data == response.data[1000:200001]
    with rasterio.open(io.BytesIO(response.data)) as file:
        values, transform = np.moveaxis(file.read(), 0, -1), file.transform
    cell = cell_size("10")
    x, y = np.meshgrid(
        transform.c + (np.arange(values.shape[1]) + 0.5) * cell,
        transform.f - (np.arange(values.shape[0]) + 0.5) * cell,
    )
    yes, no = certain(polygons, x, y, 0.3)
    assert (values[no] == 255).all()
    row, col = round((HALF - transform.f) / cell), round((transform.c + HALF) / cell)
    for tile_row, tile_col in ((357, 515), (358, 514)):
        top, left = tile_row * TILE - row, tile_col * TILE - col
        here = slice(top, top + TILE), slice(left, left + TILE)
        expected = made("TIFF_LZW_UINT8", 1, "10", tile_row, tile_col)
        assert yes[here].any()
        assert (values[here][yes[here]] == expected[yes[here]]).all()


def test_an_area_in_a_crs_and_an_intersection(open_world: OpenWorld) -> None:
    world = open_world("TIFF_RAW_FLOAT32", [[box(0.9, 47.2, 1.6, 47.9)]])
    lambert = CRS.from_code("EPSG:2154")
    ring = "480000 6680000, 560000 6680000, 560000 6760000, 480000 6760000, 480000 6680000"
    wkt = f"MULTIPOLYGON ((({ring})))"
    other = Area.from_wkt(wkt, lambert)
    both = world.area & other
    assert both.digest not in (world.area.digest, other.digest)
    layer = world.application.site.catalogue.layers["ground"]
    shown = narrowed(layer, both)
    assert shown is not None
    readers = masked_readers(shown, world.application.site.catalogue.readers["ground"], both)
    mercator = CRS.from_code("EPSG:3857")
    for row, col in ((356, 515), (357, 516), (357, 515)):
        mask = readers["10"].mask(row, col)  # type: ignore[attr-defined]
        state = readers["10"].locate(row, col)
        x, y = centres("10", row, col)
        for j, i in ((3, 3), (20, 50), (60, 60)):
            expected = both.contains(float(x[j, i]), float(y[j, i]), mercator)
            found = state is not None if mask is None else bool(mask[j, i])
            assert found == expected


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {"type": "Point", "coordinates": [1, 2]},
        {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1]]]},
        {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 1]]]},
        {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [True, 1], [0, 0]]]},
        {"type": "Polygon", "coordinates": [[[0, 0], [1, float("nan")], [1, 1], [0, 0]]]},
        {"type": "Polygon", "coordinates": [[[0, 0], [47, 600000], [1, 1], [0, 0]]]},
        {"type": "Polygon", "coordinates": [[[0, 0], [1, 10**400], [1, 1], [0, 0]]]},
        {"type": "Polygon", "coordinates": [5]},
        {"type": "Polygon"},
        {"type": "MultiPolygon", "coordinates": []},
        {"type": "FeatureCollection", "features": []},
        {"type": "Feature", "geometry": None},
        {"type": "Polygon", "crs": {}, "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 0]]]},
        {"type": "MultiPolygon", "coordinates": [[[[0, 0]] * 50_001]] * 2},
    ],
    ids=lambda document: str(document)[:80],
)
def test_what_is_not_an_area_is_refused(document: Any) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        Area.from_geojson(document)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "POINT (1 2)",
        "POLYGON EMPTY",
        "POLYGON ((0 0, 1 0, 1 1))",
        "POLYGON ((0 0, 1 0, 1 1, 0 0)",
        "POLYGON ((0 0, 1 0, 1 1, 0 0))) x",
        "POLYGON ((0 0, 1 a, 1 1, 0 0))",
        "POLYGON ((0 0, 1 1e999, 1 1, 0 0))",
        "POLYGON " + "(" * 5000,
        "MULTIPOLYGON ((0 0, 1 0, 1 1, 0 0))",
    ],
    ids=lambda text: text[:30],
)
def test_what_is_not_well_known_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        Area.from_wkt(text, CRS.from_code("EPSG:2154"))


def test_rows_in_memory_are_bounded() -> None:
    shown = level_area([[box(-170, -80, 170, 80)]], "10")
    shown = LevelArea(
        replace(shown.matrix, matrix_height=2**20, cell_size=0.5), shown._edges, Cut.MASK
    )
    for row in range(9000):
        shown.state(row, 3)
    assert len(shown._rows) == 8192


def test_vector_tiles_are_whole_or_absent(open_world: OpenWorld) -> None:
    world = open_world("TIFF_RAW_FLOAT32", area(1))
    layer = world.application.site.catalogue.layers["ground"]
    vector = replace(
        layer,
        pyramid=replace(
            layer.pyramid, format=replace(layer.pyramid.format, sample=None), raster=None
        ),
    )
    readers = world.application.site.catalogue.readers["ground"]
    shown = narrowed(vector, world.area)
    assert shown is not None
    found = masked_readers(shown, readers, world.area, Cut.MASK)
    states = set()
    for row in range(355, 361):
        for col in range(512, 520):
            state = level_area(area(1), "10").state(row, col)
            tile = found["10"].locate(row, col)
            assert (tile is not None) == (state == INSIDE)
            states.add(state)
    assert states == {OUTSIDE, CUT, INSIDE}


def test_an_export_copies_no_slab(open_world: OpenWorld, tmp_path: Path) -> None:
    """A slab contains the tiles outside too, and what is cut of others."""
    from mastaba_export.plan import plan
    from mastaba_export.request import ExportRequest

    polygons = area(1)
    world = open_world("TIFF_PNG_UINT8", polygons)
    client = world.view()
    assert client is not None
    found = plan(ExportRequest("ground", format="pyramid"), client.application.site)
    assert found.levels
    for level in found.levels:
        for row, col in zip(level.rows.tolist(), level.columns.tolist(), strict=True):
            assert not level.source.is_whole(row, col)
            batch = level.source.read(row, col)
            for tile in batch.tiles:
                response = client.get(
                    f"/tms/1.0.0/ground/{level.matrix.id}/{tile.column}/{tile.row}.png"
                )
                assert tile.payload == response.data
            assert level.source.sizes(row, col) == [len(tile.payload) for tile in batch.tiles]
