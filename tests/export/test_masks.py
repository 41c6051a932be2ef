"""Masks of exports: in smaller pyramids, and in rasters with the option."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from PIL import Image
from tests.coverage.ground import SET, TILE, Ground, is_stored
from tests.coverage.test_masks import (
    MaskedGround,
    check,
    mask_tile,
    not_halved,
    read_mask,
)
from werkzeug.test import Client

from mastaba.api.catalogue import TILE_FORMATS
from mastaba.wsgi import create_application
from mastaba_coverage import Cells, Coverage, CoverageLimits, CoveragePlan, TiffOptions, extract
from mastaba_export import plan as plan_module
from mastaba_export.errors import DamagedArchiveError, ExportTooLargeError, InvalidRequestError
from mastaba_export.plan import ExportPlan, plan
from mastaba_export.request import ExportRequest
from mastaba_export.run import run
from mastaba_export.selection import cells_inside, inside_of
from mastaba_export.verify import verify
from mastaba_render.api.decoding import TileDecoder
from mastaba_writer.installation import write_installation
from mastaba_writer.slab_names import slab_path

BOX = [600300.0, 6798700.0, 600900.0, 6799500.0]
AREA = {
    "type": "Polygon",
    "coordinates": [
        [[600250.0, 6799600.0], [601000.0, 6799300.0], [600500.0, 6798500.0], [600250.0, 6799600.0]]
    ],
}


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MaskedGround]:
    made = MaskedGround(tmp_path_factory.mktemp("ground"), "TIFF_JPG_UINT8", 3)
    yield made
    made.close()


def planned(ground: Ground, **inputs: Any) -> ExportPlan:
    request = ExportRequest.from_inputs({"layer": "ground", "crs": "EPSG:2154", **inputs})
    return plan(request, ground.application.site)


def reopened(folder: Path) -> Any:
    """Return the application that serves a pyramid LOW of a folder, as its layer ``ground``."""
    server = write_installation(
        folder / "installation",
        layers={"ground": json.loads((folder / "LOW.layer.json").read_text())},
        tile_matrix_sets={"LAMB": SET},
        services=["wmts"],
    )
    return create_application(str(server))


def test_a_smaller_pyramid_has_its_masks(ground: MaskedGround, tmp_path: Path) -> None:
    """Without them, what has no data would be white ground in whatever is made of it."""
    made = planned(ground, format="pyramid", bbox=BOX)
    estimate = made.estimate()
    result = run(made, tmp_path / "LOW.json")
    assert result.bytes == pytest.approx(estimate["bytes"], rel=0.02)
    selected = sum(level.selection.count for level in made.levels if not level.is_mask)
    assert made.tiles == selected
    assert result.tiles == estimate["tiles"] <= selected
    verified = verify(made, tmp_path / "LOW.json", deep=True)
    assert verified.tiles == result.tiles
    application = reopened(tmp_path)
    readers = application.site.catalogue.readers["ground"]
    limits = {level.matrix.id: level.selection.limits for level in made.levels}
    count = 0
    for name, reader in readers.items():
        assert reader.masks is not None
        for row in range(limits[name].min_row, limits[name].max_row + 1):
            for column in range(limits[name].min_col, limits[name].max_col + 1):
                tile = reader.masks.locate(row, column)
                expected = mask_tile(name, row, column)
                # The writer of these tests stores tiles without data in a slab that exists.
                if tile is None:
                    assert expected is None
                    continue
                decoder = TileDecoder(TILE_FORMATS["TIFF_ZIP_UINT8"], 1, TILE, TILE)
                found = decoder.decode(tile.read())
                assert np.array_equal(found, 0 * found if expected is None else expected)
                count += 1
    assert count > 60
    # A coverage of it has the cells with data of the whole layer.
    layer = application.site.catalogue.layers["ground"]
    coverage = Coverage.of(layer, readers)
    cells, tiff = coverage.finest.window, TiffOptions("none")
    window = CoveragePlan.exact(coverage, coverage.finest, cells, coverage.fields, tiff)
    path = tmp_path / "low.tif"
    answer = extract(replace(window, has_mask=True), CoverageLimits())
    path.write_bytes(b"".join(answer.pieces(0, answer.size)))
    assert np.array_equal(read_mask(path), ground.valid("3", cells))
    application.site.close_services()


def test_slabs_of_masks_do_not_count_in_the_limit(
    ground: MaskedGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    slabs = sum(
        len(one.rows) for one in planned(ground, format="pyramid").levels if not one.is_mask
    )
    monkeypatch.setattr(plan_module, "MOST_BLOCKS", slabs)
    assert planned(ground, format="pyramid").count == 2 * slabs
    monkeypatch.setattr(plan_module, "MOST_BLOCKS", slabs - 1)
    with pytest.raises(ExportTooLargeError, match=f"has {slabs} slabs"):
        planned(ground, format="pyramid")


def test_masks_are_clipped_as_the_pixels_are(ground: MaskedGround, tmp_path: Path) -> None:
    made = planned(ground, format="pyramid", area=AREA, clip=True, levels=["3"])
    estimate = made.estimate()
    result = run(made, tmp_path / "LOW.json")
    assert result.bytes == pytest.approx(estimate["bytes"], rel=0.02)
    verify(made, tmp_path / "LOW.json", deep=True)
    assert made.area is not None
    application = reopened(tmp_path)
    masks = application.site.catalogue.readers["ground"]["3"].masks
    (level,) = (one for one in made.levels if one.is_mask)
    rows, columns = level.selection.inside(level.selection.limits)
    cut = added = whole = 0
    for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
        if not is_stored(row, column):
            continue
        inside = inside_of(made.area, level.matrix, row, column)
        found = masks.locate(row, column)
        expected = mask_tile("3", row, column)
        if expected is None:
            # All of a tile without a mask is data, so what is cut off needs one.
            added += not inside.all()
            whole += bool(inside.all())
            if inside.all():
                assert found is None
                continue
            expected = np.full((TILE, TILE, 1), 255, np.uint8)
        expected[~inside] = 0
        decoder = TileDecoder(TILE_FORMATS["TIFF_ZIP_UINT8"], 1, TILE, TILE)
        assert np.array_equal(decoder.decode(found.read()), expected)
        cut += not inside.all()
    assert cut > 5
    assert added > 1
    assert whole > 1
    application.site.close_services()


@pytest.mark.parametrize("is_box", [True, False], ids=["box", "polygon"])
def test_masks_that_are_added_are_estimated(
    is_box: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slabs of whose tiles all are selected are cut too, and then they get a slab of masks."""
    # Only one tile of the layer has a mask of its own.
    monkeypatch.setattr(
        "tests.coverage.test_masks.has_mask",
        lambda level, row, col: (level, row, col) == ("3", 9, 5),
    )
    made = MaskedGround(tmp_path / "ground", "TIFF_JPG_UINT8", 3)
    matrix = made.coverage.finest.matrix
    size = matrix.cell_size * TILE
    west, south = matrix.origin_x + 4.2 * size, matrix.origin_y - 23.8 * size
    east, north = matrix.origin_x + 19.8 * size, matrix.origin_y - 8.2 * size
    box = [west, south, east, north]
    ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
    area = {"bbox": box} if is_box else {"area": {"type": "Polygon", "coordinates": [ring]}}
    asked = planned(made, format="pyramid", clip=True, levels=["3"], **area)
    estimate = asked.estimate()
    result = run(asked, tmp_path / "LOW.json")
    masks = sorted((tmp_path / "LOW/MASK").rglob("*.tif"))
    assert len(masks) == 12
    assert result.bytes == pytest.approx(estimate["bytes"], rel=0.02)
    made.close()


def test_an_interrupted_export_goes_on_with_its_masks(ground: MaskedGround, tmp_path: Path) -> None:
    made = planned(ground, format="pyramid", bbox=BOX)
    whole = run(made, tmp_path / "WHOLE.json")
    part = tmp_path / "part"
    part.mkdir()
    stops = 0
    while not run(
        made, part / "LOW.json", resume=stops > 0, should_stop=_every(made.count // 3), threads=1
    ).is_complete:
        stops += 1
    assert stops >= 2
    for kind in ("DATA", "MASK"):
        found = {
            path.relative_to(part / "LOW"): path.read_bytes()
            for path in (part / "LOW" / kind).rglob("*.tif")
        }
        expected = {
            path.relative_to(tmp_path / "WHOLE"): path.read_bytes()
            for path in (tmp_path / "WHOLE" / kind).rglob("*.tif")
        }
        assert found == expected
        assert found
    assert whole.tiles > 0


def _without_format(descriptor: dict[str, Any]) -> None:
    del descriptor["mask_format"]


def _without_masks(descriptor: dict[str, Any]) -> None:
    _without_format(descriptor)
    for level in descriptor["levels"]:
        del level["storage"]["mask_directory"]


def _without_those_of_a_level(descriptor: dict[str, Any]) -> None:
    del descriptor["levels"][0]["storage"]["mask_directory"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_without_format, "has no masks"),
        (_without_masks, "has no masks"),
        (_without_those_of_a_level, "has other masks than the layer"),
    ],
)
def test_verification_finds_masks_that_nobody_would_read(
    ground: MaskedGround, change: Any, reason: str, tmp_path: Path
) -> None:
    made = planned(ground, format="pyramid", bbox=BOX)
    path = tmp_path / "LOW.json"
    run(made, path)
    descriptor = json.loads(path.read_text())
    change(descriptor)
    path.write_text(json.dumps(descriptor))
    with pytest.raises(DamagedArchiveError, match=reason):
        verify(made, path)


def test_verification_compares_masks(ground: MaskedGround, tmp_path: Path) -> None:
    made = planned(ground, format="pyramid", bbox=BOX, levels=["3"])
    path = tmp_path / "LOW.json"
    run(made, path)
    slab = next((tmp_path / "LOW/MASK").rglob("*.tif"))
    data = bytearray(slab.read_bytes())
    data[-20] ^= 1
    slab.write_bytes(data)
    with pytest.raises(DamagedArchiveError, match="the mask of level 3, row"):
        verify(made, path, deep=True)
    slab.unlink()
    with pytest.raises(DamagedArchiveError, match="the mask of level 3, row"):
        verify(made, path, deep=True)


def test_masks_that_a_killed_export_wrote_too_many_are_removed(
    ground: MaskedGround, tmp_path: Path
) -> None:
    made = planned(ground, format="pyramid", bbox=BOX, levels=["3"])
    path = tmp_path / "LOW.json"
    assert not run(made, path, should_stop=_every(made.count // 2), threads=1).is_complete
    # The layer has lost this slab of masks since it was written.
    slab = tmp_path / "LOW/MASK/3" / slab_path(2, 2, 2)
    slab.parent.mkdir(parents=True, exist_ok=True)
    slab.write_bytes(b"of the killed export")
    assert run(made, path, resume=True).is_complete
    assert not slab.exists()
    verify(made, path, deep=True)


def _every(count: int) -> Any:
    """Return what stops an export after so many units."""
    left = iter([False] * count)
    return lambda: next(left, True)


@pytest.mark.parametrize(("form", "compression"), [("cog", "stored"), ("tif", "none")])
def test_rasters_have_masks_with_the_option(
    ground: MaskedGround, form: str, compression: str, tmp_path: Path
) -> None:
    made = planned(ground, format=form, mask=True, compression=compression, bbox=BOX)
    path = tmp_path / "one.tif"
    result = run(made, path)
    assert made.coverage is not None
    assert np.array_equal(read_mask(path), ground.valid("3", made.coverage.cells))
    assert result.bytes == made.estimate()["bytes"]
    verify(made, path, deep=True)
    if form == "cog":
        check(path)


@pytest.mark.parametrize(
    "inputs",
    [
        {"format": "cog", "compression": "deflate"},
        {"format": "cog", "fit": "exact", "compression": "jpeg"},
        {"format": "tif", "bbox": BOX},
        {"format": "tif", "bbox": BOX, "compression": "lzw"},
        {"format": "cog", "area": AREA},
        {"format": "tif", "area": AREA, "compression": "none"},
    ],
    ids=lambda inputs: "-".join(key if key in ("bbox", "area") else inputs[key] for key in inputs),
)
def test_rasters_that_are_compressed_again_have_masks(
    ground: MaskedGround, inputs: dict[str, Any], tmp_path: Path
) -> None:
    made = planned(ground, mask=True, **inputs)
    path = tmp_path / "one.tif"
    estimate = made.estimate()
    result = run(made, path)
    assert made.coverage is not None
    expected = ground.valid("3", made.coverage.cells)
    if made.request.area is not None:
        assert made.area is not None
        cells = made.coverage.cells
        matrix = made.coverage.grid.matrix
        expected &= cells_inside(made.area, matrix, cells.top, cells.left, expected.shape)
    assert np.array_equal(read_mask(path), expected)
    assert 0.1 < expected.mean() < 0.6
    assert result.tiles == verify(made, path, deep=True).compared
    low, high = estimate["interval"]
    assert low <= result.bytes <= high
    plain = planned(ground, **inputs)
    run(plain, tmp_path / "plain.tif")
    with rasterio.open(path) as one, rasterio.open(tmp_path / "plain.tif") as other:
        assert one.shape == other.shape
        assert np.array_equal(one.read()[:, expected], other.read()[:, expected])
    if inputs["format"] == "cog":
        check(path)


@pytest.mark.parametrize("inputs", [{"compression": "deflate"}, {"area": AREA}])
def test_an_interrupted_raster_goes_on_with_its_masks(
    ground: MaskedGround, inputs: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mastaba_coverage.compressed._PART", 1 << 19)
    made = planned(ground, format="cog", mask=True, **inputs)
    run(made, tmp_path / "whole.tif")
    stops = 0
    while not run(
        made, tmp_path / "one.tif", resume=stops > 0, should_stop=_every(3), threads=1
    ).is_complete:
        stops += 1
    assert stops >= 2
    assert (tmp_path / "one.tif").read_bytes() == (tmp_path / "whole.tif").read_bytes()


def test_verification_compares_the_masks_of_compressed_rasters(
    ground: MaskedGround, tmp_path: Path
) -> None:
    made = planned(ground, format="tif", mask=True, compression="deflate", bbox=BOX)
    path = tmp_path / "one.tif"
    run(made, path)
    data = bytearray(path.read_bytes())
    # The last tile of the mask is the end of the file.
    data[-100] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedArchiveError, match="a mask differs"):
        verify(made, path, deep=True)


@pytest.mark.parametrize(
    "inputs",
    [
        {"format": "tif"},
        {"format": "tif", "compression": "none"},
        {"format": "cog", "levels": ["2"], "bbox": [600256, 6798720, 600896, 6799360]},
        {"format": "cog"},
    ],
    ids=["tif", "tif, not compressed", "coarser cog", "cog"],
)
def test_masks_of_tiles_that_cannot_be_copied(inputs: dict[str, Any], tmp_path: Path) -> None:
    made = MaskedGround(tmp_path, "TIFF_JPG_UINT8", 3)
    made.write(tile=not_halved)
    asked = planned(made, mask=True, **inputs)
    assert asked.coverage is not None
    run(asked, tmp_path / "one.tif")
    level = inputs.get("levels", ["3"])[0]
    expected = made.valid(level, asked.coverage.cells)
    assert np.array_equal(read_mask(tmp_path / "one.tif"), expected)
    verify(asked, tmp_path / "one.tif", deep=True)
    made.close()


def test_layers_without_masks_have_none(tmp_path: Path) -> None:
    made = Ground(tmp_path)
    with pytest.raises(InvalidRequestError, match="no stored masks") as found:
        planned(made, format="cog", mask=True)
    assert found.value.parameter == "mask"
    with pytest.raises(InvalidRequestError, match="mask is an input of cog, tif only"):
        planned(made, format="pyramid", mask=True)
    assert not any(level.is_mask for level in planned(made, format="pyramid").levels)
    made.close()


@pytest.mark.parametrize("is_masked", [True, False])
def test_pages_learn_which_downloads_have_masks(is_masked: bool, tmp_path: Path) -> None:
    switches = {"coverages": True, "export": {"enabled": True}}
    services: dict[str, Any] = {"ogcapi": {"coverages": True}}
    services["export"] = {"directory": str(tmp_path / "jobs")}
    kind = MaskedGround if is_masked else Ground
    made = kind(tmp_path / "ground", services=services, **switches)
    site, client = made.application.site, Client(made.application)
    box = dict(zip(("xmin", "ymin", "xmax", "ymax"), BOX, strict=True))
    expected = ["cog", "tif"] if is_masked else []
    found = site.services["ogcapi"].downloads(made.layer)
    assert [one.format for one in found if "mask" in one.takes] == expected
    for one in found:
        address = one.template.format(**box, level="3").removeprefix("http://maps.example")
        answer = client.get(f"{address}&mask=true", buffered=True)
        assert answer.status_code == (200 if is_masked else 400)
    found = site.services["export"].downloads(made.layer)
    assert [one.format for one in found if "mask" in one.takes] == expected
    for one in found:
        if "mask" in one.takes:
            inputs = {**one.inputs, "bbox": BOX, "crs": "EPSG:2154", "mask": True}
            assert plan(ExportRequest.from_inputs(inputs), site).estimate()["bytes"] > 0
    made.close()


def test_archives_of_a_cog_with_masks_are_transparent(ground: MaskedGround, tmp_path: Path) -> None:
    path = tmp_path / "masked.tif"
    run(planned(ground, format="cog", mask=True), path)
    server = write_installation(
        tmp_path / "installation",
        layers={"cog": {"title": "COG", "styles": [], "pyramids": [{"path": str(path)}]}},
        tile_matrix_sets={"LAMB": SET},
        services=["wmts"],
    )
    application = create_application(str(server))
    asked = plan(ExportRequest.from_inputs({"layer": "cog", "format": "dir"}), application.site)
    run(asked, tmp_path / "tiles")
    finest = asked.levels[-1].matrix
    assert finest.id == "3"
    found = sorted((tmp_path / "tiles" / str(asked.levels[-1].zoom)).rglob("*.webp"))
    assert len(found) > 200
    for tile in found:
        row, col = int(tile.stem), int(tile.parent.name)
        cells = Cells(row * TILE, (row + 1) * TILE, col * TILE, (col + 1) * TILE)
        with Image.open(tile) as image:
            alpha = np.asarray(image.convert("RGBA"))[:, :, 3]
        assert np.array_equal(alpha > 0, ground.valid("3", cells))
    application.site.close_services()
