"""Sources of every kind, and which of their pixels have no data."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from rasterio.enums import ColorInterp, Resampling
from tests.build.conftest import Build
from tests.build.ground import checksums, grid, noise, read_tiles, write_raster
from tests.build.test_pixels import aligned, cell

from mastaba_build.errors import PlanError
from mastaba_build.pixels import reading
from mastaba_build.pixels.edges import outside
from mastaba_build.plan.plan import Plan
from mastaba_build.pyramid.publication import without_passwords
from mastaba_build.work.build import build
from mastaba_build.work.engine import ExecutorEngine
from mastaba_build.work.reports import Reports

PlanOf = Callable[..., Plan]
LEVEL = 10
TILE = (str(LEVEL), 300, 500)
HERE = grid(*aligned(LEVEL, 300, 500), cell(LEVEL))
OPTIONS = {"format": "zip", "top": str(LEVEL), "slab": [2, 2]}


def one_tile(path: Path, pixels: np.ndarray, **profile: Any) -> Path:
    """Write pixels of one tile of PM, in its grid."""
    return write_raster(path, pixels, HERE, "EPSG:3857", **profile)


def built(build_of: Build, *sources: Path | dict[str, Any], **options: Any) -> np.ndarray:
    """Return the tile that sources in its grid give."""
    return read_tiles(build_of(*sources, **{**OPTIONS, **options}))[TILE]


def test_ranges_of_nodata(tmp_path: Path, build_of: Build) -> None:
    pixels = np.broadcast_to(np.arange(256, dtype=np.uint8), (3, 256, 256)).copy()
    pixels[2, :128] = 100
    source = one_tile(tmp_path / "a.tif", pixels)
    entry = {"path": str(source), "nodata_ranges": [[0, 5], [250, 255]]}
    tile = built(build_of, entry, channels=4)
    gone = [*range(6), *range(250, 256)]
    assert (tile[128:, gone, 3] == 0).all()
    assert (tile[128:, 6:250, 3] == 255).all()
    assert (tile[:128, :, 3] == 255).all()  # the third band is in no range


@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize(
    ("dtype", "nodata", "tolerance", "values", "missing"),
    [
        ("uint8", 0, 2, [0, 2, 3, 255], 2),
        ("uint8", 255, 252.5, [0, 2, 3, 255], 2),
        ("uint8", -9999, 0, [0, 2, 3, 255], 0),
        ("int16", -9999, 0.5, [-9999, -9998, 0, 5], 1),
        ("float32", 0.1, 0, [0.1, 0.2, 0.10001, 5], 1),
        ("float32", float("nan"), 0, [np.nan, np.inf, 0, 1], 2),
        ("float64", -1e300, 0, [-1e300, 0, 1, 2], 1),
    ],
)
def test_values_without_data(
    tmp_path: Path,
    build_of: Build,
    dtype: str,
    nodata: float,
    tolerance: float,
    values: list[float],
    missing: int,
) -> None:
    pixels = np.resize(np.array(values, dtype), (1, 256, 256))
    source = one_tile(tmp_path / "a.tif", pixels)
    entry: dict[str, Any] = {"path": str(source), "tolerance": tolerance}
    if np.isnan(nodata):
        with rasterio.open(source, "r+") as dataset:
            dataset.nodata = nodata
    else:
        entry["nodata"] = [nodata]
    descriptor = build_of(entry, **(OPTIONS | {"channels": 1, "nodata": [77]}))
    tile = read_tiles(descriptor).get(TILE)
    found = 256 * 256 if tile is None else (tile == 77).sum()
    assert found == missing * 256 * 64


def test_only_nodata_that_touches_the_border_is_none(tmp_path: Path, build_of: Build) -> None:
    pixels = np.full((1, 256, 256), 90, np.uint8)
    pixels[0, :40] = 1  # a collar, almost 0
    pixels[0, 100:120, 100:120] = 0  # a lake
    pixels[0, 30:60, 200] = 0  # a bay
    source = one_tile(tmp_path / "a.tif", pixels)
    entry = {"path": str(source), "nodata": [0], "tolerance": 1, "touching_edges": True}
    tile = built(build_of, entry, channels=2)
    missing = tile[:, :, 1] == 0
    expected = np.zeros((256, 256), bool)
    expected[:40] = True
    expected[30:60, 200] = True
    assert np.array_equal(missing, expected)


@pytest.mark.thorough
def test_regions_that_touch_the_border_are_found_once_for_all_workers(
    tmp_path: Path, plan_of: PlanOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    monkeypatch.setattr(reading, "outside", lambda strips: found.append(1) or outside(strips))
    sources = []
    for number in range(3):
        pixels = noise(1, 700, 700, seed=number)
        pixels[:, :300] = 0
        place = grid(HERE.c + number * 900 * HERE.a, HERE.f, HERE.a)
        path = write_raster(tmp_path / f"{number}.tif", pixels, place, "EPSG:3857")
        sources.append({"path": str(path), "nodata": [0], "touching_edges": True})
    options: dict[str, Any] = {"format": "png", "top": str(LEVEL), "slab": [1, 1]}
    checked = []
    for workers in (1, 3):
        plan = plan_of(*sources, output=str(tmp_path / f"out{workers}"), **options)
        with ThreadPoolExecutor(workers) as executor:
            engine = ExecutorEngine(executor, workers)
            assert build(plan, Reports(StringIO(), StringIO()), engine=engine)
        assert len(found) == 3
        found.clear()
        checked.append(checksums(tmp_path / f"out{workers}"))
    assert len(checked[0]) > 10
    assert checked[0] == checked[1]
    # An update looks only at the sources of the slabs that it builds.
    os.utime(sources[2]["path"], (1, 1))
    plan = plan_of(*sources, output=str(tmp_path / "out3"), **options)
    assert build(plan, Reports(StringIO(), StringIO()), update="new")
    assert len(found) == 1


def test_regions_that_touch_the_border_are_those_of_a_flood(tmp_path: Path) -> None:
    generator = np.random.default_rng(4)
    for share in (0.3, 0.55, 0.7):
        image = generator.random((61, 83)) < share
        flood = np.zeros((63, 85), bool)
        flood[0] = flood[-1] = True
        flood[:, 0] = flood[:, -1] = True
        open_to = np.pad(image, 1, constant_values=True)
        while True:
            grown = flood.copy()
            grown[1:] |= flood[:-1]
            grown[:-1] |= flood[1:]
            grown[:, 1:] |= flood[:, :-1]
            grown[:, :-1] |= flood[:, 1:]
            grown &= open_to
            if (grown == flood).all():
                break
            flood = grown
        for rows in (1, 7, 61):
            found = outside(image[top : top + rows] for top in range(0, 61, rows))
            assert np.array_equal(found.mask(0, 61, 0, 83), flood[1:-1, 1:-1])
            assert np.array_equal(found.mask(5, 40, 10, 70), flood[6:41, 11:71])


def test_palettes_masks_and_alpha(tmp_path: Path, build_of: Build) -> None:
    index = np.broadcast_to(np.arange(256, dtype=np.uint8) % 3, (1, 256, 256)).copy()
    palette = tmp_path / "palette.tif"
    one_tile(palette, index, photometric="palette")
    with rasterio.open(palette, "r+") as dataset:
        dataset.write_colormap(1, {0: (9, 8, 7, 255), 1: (200, 100, 50, 255), 2: (0, 0, 255, 255)})
    tile = built(build_of, palette, name="palette")
    assert tile.shape == (256, 256, 3)
    assert tile[0, :3].tolist() == [[9, 8, 7], [200, 100, 50], [0, 0, 255]]

    masked = tmp_path / "masked.tif"
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True):
        one_tile(masked, noise(3, 256, 256))
        mask = np.full((256, 256), 255, np.uint8)
        mask[:, :100] = 0
        with rasterio.open(masked, "r+") as dataset:
            dataset.write_mask(mask)
    assert not list(tmp_path.glob("*.msk"))
    tile = built(build_of, masked, name="masked", channels=4)
    assert np.array_equal(tile[:, :, 3], mask)
    assert np.array_equal(tile[:, 100:, :3], np.moveaxis(noise(3, 256, 256), 0, -1)[:, 100:])

    black = np.moveaxis(noise(3, 256, 256), 0, -1)[10, 120]
    with rasterio.open(masked, "r+") as dataset:
        dataset.nodata = int(black[0])  # which the mask replaces
        values = dataset.read()
        values[:, 20:30, 120:200] = black[0]
        dataset.write(values)
    tile = built(build_of, masked, name="dark", channels=4)
    assert np.array_equal(tile[:, :, 3], mask)

    alpha = tmp_path / "alpha.tif"
    pixels = np.concatenate([noise(3, 256, 256), np.full((1, 256, 256), 100, np.uint8)])
    one_tile(alpha, pixels, photometric="rgb", alpha="yes")
    tile = built(build_of, alpha, name="alpha")
    assert np.array_equal(tile, np.moveaxis(pixels, 0, -1))
    flat = built(build_of, alpha, name="flat", channels=3, nodata=[255, 0, 0])
    part = pixels[:3].astype(float) * 100 / 255
    part[0] += 155
    assert np.abs(flat - np.moveaxis(part, 0, -1)).max() <= 0.51


def test_a_mask_may_have_losses(tmp_path: Path, build_of: Build) -> None:
    source = one_tile(tmp_path / "a.tif", noise(3, 256, 256))
    mask = np.zeros((1, 256, 256), np.uint8)
    for row, value in enumerate((0, 5, 127, 128, 250, 255)):
        mask[0, 40 * row : 40 * row + 40] = value
    with rasterio.open(source) as dataset:
        profile = {**dataset.profile, "count": 1}
    with rasterio.open(f"{source}.msk", "w", **profile) as dataset:
        dataset.update_tags(INTERNAL_MASK_FLAGS_1="2")
        dataset.write(mask)
    tile = built(build_of, source, channels=4)
    assert np.array_equal(tile[:, :, 3] > 0, mask[0] >= 128)


def test_the_build_record_has_no_passwords() -> None:
    for path, shown in (
        ("/vsicurl/https://me:secret@example.org/a.tif", "/vsicurl/https://example.org/a.tif"),
        ("PG:host=db password='my secret' mode=2", "PG:host=db mode=2"),
        ("PG:dbname=a user=b password=secret", "PG:dbname=a user=b"),
        ("/maps/me@home/password/a.tif", "/maps/me@home/password/a.tif"),
    ):
        assert without_passwords(path) == shown


def test_sixteen_bits_become_eight_by_a_scale(tmp_path: Path, build_of: Build) -> None:
    values = np.broadcast_to(np.arange(256, dtype=np.uint16) * 20, (3, 256, 256)).copy()
    source = tmp_path / "a.tif"
    pixels = np.concatenate([values, np.full((1, 256, 256), 32768, np.uint16)])
    one_tile(source, pixels)
    with rasterio.open(source, "r+") as dataset:
        dataset.colorinterp = [
            *(ColorInterp.red, ColorInterp.green, ColorInterp.blue),
            ColorInterp.alpha,
        ]
    tile = built(build_of, {"path": str(source), "scale": [1000, 4000]})
    expected = np.clip((np.arange(256) * 20 - 1000) * 255 / 3000, 0, 255)
    assert np.abs(tile[7, :, 1] - expected).max() <= 0.51
    assert (tile[:, :, 3] == 128).all()


def test_each_band_may_have_a_scale(tmp_path: Path, build_of: Build, plan_of: PlanOf) -> None:
    values = np.broadcast_to(np.arange(256, dtype=np.uint16) * 20, (3, 256, 256)).copy()
    source = one_tile(tmp_path / "a.tif", values)
    scales = [[0, 5100], [1000, 4000], [-100, 200]]
    tile = built(build_of, {"path": str(source), "scale": scales})
    for band, (low, high) in enumerate(scales):
        expected = np.clip((np.arange(256) * 20 - low) * 255 / (high - low), 0, 255)
        assert np.abs(tile[7, :, band] - expected).max() <= 0.51
    with pytest.raises(PlanError, match="2 scales for 3 bands"):
        plan_of({"path": str(source), "scale": scales[:2]})
    with pytest.raises(PlanError, match="the first value must be less than the second"):
        plan_of({"path": str(source), "scale": [7, 7]})


def test_pixels_with_data_never_have_the_colour_of_nodata(
    tmp_path: Path, build_of: Build, plan_of: PlanOf
) -> None:
    pixels = np.full((3, 256, 256), 255, np.uint8)
    pixels[:, :50] = 0
    pixels[:, 50:100] = 90
    source = one_tile(tmp_path / "a.tif", pixels, nodata=90)
    for nodata, last in ((255, 254), (0, 1)):
        options: dict[str, Any] = {"protect_nodata": True, "nodata": [nodata] * 3}
        tile = built(build_of, source, name=f"n{nodata}", **options)
        expected = np.moveaxis(pixels, 0, -1).copy()
        expected[(expected == nodata).all(axis=2), 2] = last
        expected[50:100] = nodata
        assert np.array_equal(tile, expected)
    with pytest.raises(PlanError, match="--protect-nodata is for PNG, ZIP"):
        plan_of(source, format="jpg", protect_nodata=True)


def test_overviews_are_read_if_they_are_wanted(tmp_path: Path, build_of: Build) -> None:
    corner = aligned(LEVEL, 300, 500)
    # Two sheets of one coverage, whose pixels are an eighth of those of the level.
    sheets = []
    for number, left in enumerate((0, 1024)):
        pixels = noise(1, 2048, 1024, seed=number)
        place = grid(corner[0] + left * cell(LEVEL + 3), corner[1], cell(LEVEL + 3))
        sheet = write_raster(tmp_path / f"{number}.tif", pixels, place, "EPSG:3857")
        with rasterio.open(sheet, "r+") as dataset:
            dataset.build_overviews([2, 4], Resampling.average)
        with rasterio.open(sheet, "r+", overview_level=1) as coarse:
            coarse.write(np.full((1, 512, 256), 50 + 100 * number, np.uint8))
        sheets.append({"path": str(sheet), "use_overviews": True})
    options = {"bottom": str(LEVEL), "channels": 1}
    tile = built(build_of, *sheets, name="overviews", **options)[:, :, 0]
    assert (tile[:, :126] == 50).all()
    assert (tile[:, 130:] == 150).all()
    plain = [{"path": one["path"]} for one in sheets]
    assert np.unique(built(build_of, *plain, name="plain", **options)).size > 50


def test_what_the_user_should_know_is_in_the_plan(tmp_path: Path, plan_of: PlanOf) -> None:
    fine = one_tile(tmp_path / "fine.tif", noise(1, 256, 256))
    coarse = write_raster(
        tmp_path / "coarse.tif", noise(1, 64, 64), grid(HERE.c, HERE.f, 4 * HERE.a), "EPSG:3857"
    )
    assert plan_of(fine).notes == ()
    (note,) = plan_of(coarse, fine).notes
    assert "coarse.tif are 4.0 times as large" in note
    classes = one_tile(tmp_path / "classes.tif", noise(1, 256, 256), photometric="palette")
    with rasterio.open(classes, "r+") as dataset:
        dataset.write_colormap(1, {0: (9, 8, 7, 255)})
    (note,) = plan_of(classes).notes
    assert "--decimation mode" in note
    assert plan_of(classes, decimation="mode").notes == ()


def stac_item(name: str, href: str, date: str, **asset: Any) -> dict[str, Any]:
    return {
        "type": "Feature",
        "stac_version": "1.0.0",
        "id": name,
        "properties": {"datetime": date},
        "geometry": None,
        "links": [],
        "assets": {
            "thumbnail": {"href": "none.png", "roles": ["thumbnail"]},
            "image": {"href": href, "roles": ["data"], **asset},
        },
    }


def test_stac_items_in_the_order_of_their_dates(tmp_path: Path, build_of: Build) -> None:
    (tmp_path / "data").mkdir()
    for name, value in (("a", 10), ("b", 200)):
        one_tile(tmp_path / f"data/{name}.tif", np.full((3, 256, 256), value, np.uint8))
    items = [
        stac_item("late", "./data/a.tif", "2024-05-01T00:00:00Z"),
        stac_item("early", "data/b.tif", "2023-05-01T00:00:00Z"),
    ]
    collection = tmp_path / "items.json"
    collection.write_text(json.dumps({"type": "FeatureCollection", "features": items}))
    by_date = built(build_of, {"path": str(collection), "order": "datetime"}, name="date")
    assert (by_date == 10).all()
    assert (built(build_of, {"path": str(collection)}, name="name") == 200).all()
    single = tmp_path / "item.json"
    single.write_text(json.dumps(items[0]))
    entry = {"path": str(single), "asset": "image"}
    assert (built(build_of, entry, name="single") == 10).all()


@pytest.mark.parametrize(
    "changes",
    [
        {"assets": {"a": 5}},
        {"assets": {"a": {"href": "a.tif", "roles": 5}}},
        {"links": [{"href": "b"}]},
        {"links": 5},
        {"properties": [1]},
    ],
)
def test_invalid_stac_items_are_reported(
    changes: dict[str, Any], tmp_path: Path, plan_of: PlanOf
) -> None:
    good = stac_item("x", "a.tif", "2024-05-01T00:00:00Z")
    items = tmp_path / "items.json"
    items.write_text(json.dumps({"features": [good, {**good, **changes}]}))
    with pytest.raises(PlanError, match=r"items\.json: item 1 is not a valid STAC item"):
        plan_of(items)


@pytest.mark.parametrize("name", ["whole.json", "file:///whole.json"])
def test_a_number_of_many_digits_is_named_by_its_key(
    tmp_path: Path, plan_of: PlanOf, name: str
) -> None:
    source = name.replace("///", f"//{tmp_path}/") if "://" in name else str(tmp_path / name)
    (tmp_path / "whole.json").write_text(f'{{"slab": [2, {"1" * 5000}]}}')
    with pytest.raises(PlanError) as caught:
        plan_of(source)
    assert str(caught.value) == f"{source}: $.slab[1]: is too large, or not a number"


def test_deep_json_is_not_a_source(tmp_path: Path, plan_of: PlanOf) -> None:
    deep = tmp_path / "deep.json"
    deep.write_text("[" * 100_000)
    with pytest.raises(PlanError, match="is nested deeper than 64 levels"):
        plan_of(deep)


def test_a_stac_item_may_have_no_properties(tmp_path: Path, build_of: Build) -> None:
    write_raster(tmp_path / "a.tif", noise(3, 100, 100), grid(9e5, 65e5, 9), "EPSG:2154")
    item = {**stac_item("x", "a.tif", ""), "properties": None}
    (tmp_path / "item.json").write_text(json.dumps(item))
    assert read_tiles(build_of(tmp_path / "item.json"))


def test_stac_items_without_the_wanted_asset(tmp_path: Path, plan_of: PlanOf) -> None:
    item = tmp_path / "item.json"
    item.write_text(json.dumps(stac_item("x", "a.tif", "2024-05-01T00:00:00Z", roles=[])))
    with pytest.raises(PlanError, match="item x: state one asset with --asset; it has thumbnail"):
        plan_of(item)
    with pytest.raises(PlanError, match="item x: state one asset"):
        plan_of({"path": str(item), "asset": "nir"})
    item.write_text('{"stac_version"')
    with pytest.raises(PlanError, match=r"item\.json: \$: is not valid JSON"):
        plan_of(item)


def test_lists_and_indices_of_tiles(tmp_path: Path, build_of: Build) -> None:
    low, high = (np.full((3, 256, 256), value, np.uint8) for value in (10, 200))
    first, second = one_tile(tmp_path / "a.tif", low), one_tile(tmp_path / "b.tif", high)
    listing = tmp_path / "files.txt"
    listing.write_text(f"{second}\n\n{first}\n")
    entry = {"path": str(listing), "order": "given"}
    assert (built(build_of, entry, name="given") == 10).all()
    assert (built(build_of, listing, name="byname") == 200).all()
    x, y = HERE.c, HERE.f
    side = 256 * cell(LEVEL)
    corners = [[x, y], [x + side, y], [x + side, y - side], [x, y - side], [x, y]]
    index = {
        "type": "FeatureCollection",
        "crs": {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::3857"}},
        "features": [
            {
                "type": "Feature",
                "properties": {"location": str(first)},
                "geometry": {"type": "Polygon", "coordinates": [corners]},
            }
        ],
    }
    (tmp_path / "index.geojson").write_text(json.dumps(index))
    tiles = f"GTI:{tmp_path / 'index.geojson'}"
    assert (built(build_of, {"path": tiles}, name="gti") == 10).all()


@pytest.mark.parametrize("format", ["png", "jpg", pytest.param("lzw", marks=pytest.mark.thorough)])
def test_a_pyramid_is_a_source(tmp_path: Path, build_of: Build, format: str) -> None:
    pixels = noise(3, 600, 700)
    source = write_raster(tmp_path / "a.tif", pixels, HERE, "EPSG:3857")
    first = build_of(source, name="first", format=format, top=str(LEVEL - 1), slab=[2, 2])
    again = build_of(first, name="again", format="zip", top=str(LEVEL - 1), slab=[4, 4])
    before, after = read_tiles(first), read_tiles(again)
    bottom = {tile for tile in before if tile[0] == str(LEVEL)}
    assert bottom
    assert bottom == {tile for tile in after if tile[0] == str(LEVEL)}
    for tile in bottom:
        assert np.array_equal(before[tile], after[tile])
    coarse = build_of({"path": str(first), "level": str(LEVEL - 1)}, name="coarse", format="zip")
    found = read_tiles(coarse)
    tile = next(tile for tile in before if tile[0] == str(LEVEL - 1))
    assert np.array_equal(found[tile], before[tile])


def test_the_masks_of_a_pyramid_say_which_pixels_have_data(tmp_path: Path, build_of: Build) -> None:
    pixels = noise(3, 256, 256)
    pixels[:, 100:130, 40:90] = 7
    source = one_tile(tmp_path / "a.tif", pixels, nodata=7)
    masked = build_of(source, **OPTIONS, name="masked", masks=True, nodata=[200, 100, 50])
    expected = np.full((256, 256), 255)
    expected[(pixels == 7).all(axis=0)] = 0
    tile = built(build_of, masked, name="again", format="png", channels=4)
    assert np.array_equal(tile[:, :, 3], expected)
    assert np.array_equal(tile[expected > 0][:, :3], np.moveaxis(pixels, 0, -1)[expected > 0])
    # Existing tools write no mask slab where every pixel has data.
    for path in (masked.parent / "masked/MASK").rglob("*.tif"):
        path.unlink()
    assert (built(build_of, masked, name="whole", format="png", channels=4)[:, :, 3] == 255).all()


@pytest.mark.thorough
def test_a_pyramid_of_elevations_is_projected(tmp_path: Path, build_of: Build) -> None:
    values = np.full((1, 300, 300), 431.5, np.float32)
    values[0, :, :100] = -5
    source = write_raster(tmp_path / "dem.tif", values, HERE, "EPSG:3857", nodata=-5)
    first = build_of(source, name="first", top=str(LEVEL))
    tiles = read_tiles(build_of(first, name="other", tile_matrix_set="4326"))
    found = np.unique(np.concatenate([tile.ravel() for tile in tiles.values()]))
    assert found[0] == -99999
    assert np.allclose(found[1:], 431.5)


def test_pyramids_that_cannot_be_sources(tmp_path: Path, build_of: Build, plan_of: PlanOf) -> None:
    source = one_tile(tmp_path / "a.tif", noise(3, 256, 256))
    descriptor = build_of(source, top=str(LEVEL))
    document = json.loads(descriptor.read_text())

    def fails(message: str, level: str | None = None, **changes: Any) -> None:
        broken = tmp_path / "broken.json"
        broken.write_text(json.dumps(document | changes))
        entry = {"path": str(broken)} | ({"level": level} if level else {})
        with pytest.raises(PlanError, match=message):
            plan_of(entry, name="other")

    fails("unknown tile matrix set 'NOPE'", tile_matrix_set="NOPE")
    fails("has no level '3'", level="3")
    fails("broken.json: format: ", format="TIFF_GIF_UINT8")
    level = document["levels"][0]
    fails("its levels are not those of PM", levels=[level | {"id": "99"}])
    fails("storage has no image_prefix", levels=[level | {"storage": {"type": "S3"}}])
    fails("no storage driver 'tape'", levels=[level | {"storage": {"type": "TAPE"}}])
    fails("has no tiles", levels=[level | {"tile_limits": dict.fromkeys(level["tile_limits"], -1)}])


@pytest.mark.parametrize("dtype", ["uint16", "int16", "float32", "float64"])
def test_colours_are_not_mixed_to_one_value(tmp_path: Path, plan_of: PlanOf, dtype: str) -> None:
    """Bands of a satellite image would become a mean that nobody measured."""
    values = np.array([10, 20, 30], dtype).reshape(3, 1, 1).repeat(256, 1).repeat(256, 2)
    source = one_tile(tmp_path / "a.tif", values)
    for options in ({}, {"channels": 1}, {"format": "zip"}):
        with pytest.raises(
            PlanError, match=f"a.tif: has 3 colours of type {dtype}, .*--bands 1.*--scale"
        ):
            plan_of(source, **options)
    relief = one_tile(tmp_path / "relief.tif", np.ones((1, 256, 256), np.float32))
    colours = one_tile(tmp_path / "colours.tif", noise(3, 256, 256))
    with pytest.raises(PlanError, match=r"colours\.tif: has 3 colours of type uint8"):
        plan_of(relief, colours)


def test_a_band_or_a_scale_makes_colours_usable(tmp_path: Path, build_of: Build) -> None:
    values = np.array([10, 20, 30], "uint16").reshape(3, 1, 1).repeat(256, 1).repeat(256, 2)
    source = one_tile(tmp_path / "a.tif", values)
    assert (built(build_of, {"path": str(source), "bands": [2]}, name="one") == 20).all()
    scaled = built(build_of, {"path": str(source), "scale": [0, 255]}, format="png", name="all")
    assert (scaled == [10, 20, 30]).all()


@pytest.mark.parametrize("dtype", ["float32", "uint16"])
def test_alpha_of_values_only_masks(tmp_path: Path, build_of: Build, dtype: str) -> None:
    values = np.full((2, 256, 256), 431, dtype)
    values[1] = np.linspace(0, 255, 256)[:, np.newaxis]
    source = one_tile(tmp_path / "a.tif", values)
    with rasterio.open(source, "r+") as dataset:
        dataset.colorinterp = [ColorInterp.gray, ColorInterp.alpha]
    tile = built(build_of, source)
    assert (tile[1:] == 431).all()
    assert (tile[0] == -99999).all()
