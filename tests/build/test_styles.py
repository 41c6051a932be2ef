"""Styles in the pixels of a pyramid."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.build.conftest import Build
from tests.build.ground import grid, noise, read_tiles, write_raster
from tests.build.test_sources import HERE, LEVEL

from mastaba_build.errors import PlanError
from mastaba_build.plan.plan import Plan
from mastaba_render.relief import apply_relief

COLOURS = [
    {"value": 0, "red": 0, "green": 0, "blue": 200, "alpha": 255},
    {"value": 500, "red": 200, "green": 100, "blue": 0, "alpha": 255},
]


def style(path: Path, **parts: Any) -> str:
    path.write_text(json.dumps({"identifier": path.stem, "title": path.stem, **parts}))
    return str(path)


def hills(tmp_path: Path) -> Path:
    x, y = np.meshgrid(np.arange(700), np.arange(600))
    values = (400 + 300 * np.sin(x / 40) * np.cos(y / 30)).astype(np.float32)
    values[250:270, 300:330] = -9999
    return write_raster(tmp_path / "dem.tif", values[np.newaxis], HERE, "EPSG:3857", nodata=-9999)


def test_a_palette_is_applied_after_resampling(tmp_path: Path, build_of: Build) -> None:
    values = np.zeros((1, 300, 300), np.float32)
    values[:, :, 150:] = 1000
    source = write_raster(tmp_path / "a.tif", values, grid(900000, 6500000, 50), "EPSG:2154")
    palette = style(tmp_path / "two.json", palette={"no_alpha": True, "colours": COLOURS})
    tiles = read_tiles(build_of(source, style=palette, format="png", channels=4))
    finest = max(int(tile[0]) for tile in tiles)
    seen = {
        tuple(pixel)
        for tile, pixels in tiles.items()
        if int(tile[0]) == finest
        for pixel in np.unique(pixels[pixels[:, :, 3] > 0], axis=0).tolist()
    }
    # Colours of a palette in steps are not mixed: it is applied after resampling.
    assert seen == {(0, 0, 200, 255), (200, 100, 0, 255)}


@pytest.mark.thorough
def test_a_relief_has_no_seams(tmp_path: Path, build_of: Build) -> None:
    source = hills(tmp_path)
    shade = style(tmp_path / "shade.json", estompage={"zenith": 45, "azimuth": 315, "z_factor": 2})
    options = {"style": shade, "top": str(LEVEL), "format": "zip"}
    layouts = [read_tiles(build_of(source, name=f"s{n}", slab=[n, n], **options)) for n in (1, 4)]
    assert layouts[0].keys() == layouts[1].keys()
    for tile, pixels in layouts[0].items():
        assert np.array_equal(pixels, layouts[1][tile])
    plain = read_tiles(build_of(source, name="plain", top=str(LEVEL)))
    elevations = np.block(
        [[plain[str(LEVEL), 300 + i, 500 + j][:, :, 0] for j in range(2)] for i in range(2)]
    )
    settings = json.loads(Path(shade).read_text())["estompage"]
    size = HERE.a
    expected, valid = apply_relief("estompage", settings, elevations, None, size, size)
    found = np.block(
        [[layouts[1][str(LEVEL), 300 + i, 500 + j][:, :, 0] for j in range(2)] for i in range(2)]
    )[1:-1, 1:-1]
    assert valid is not None
    assert np.array_equal(found[valid], expected[valid])
    assert (found[~valid] == -99999).all()


def test_styles_that_do_not_fit(tmp_path: Path, plan_of: Callable[..., Plan]) -> None:
    colours = write_raster(tmp_path / "rgb.tif", noise(3, 64, 64), HERE, "EPSG:3857")
    numbers = style(tmp_path / "numbers.json", terrainrgb={"min_elevation": 0, "step": 0.1})
    broken = style(tmp_path / "broken.json", palette={"colours": [{"value": "x"}]})
    with pytest.raises(PlanError, match="the style needs one band; choose it with --bands"):
        plan_of(colours, style=numbers)
    with pytest.raises(PlanError, match="which have no mean; use --decimation nn"):
        plan_of({"path": str(colours), "bands": [1]}, style=numbers)
    with pytest.raises(PlanError, match=r"broken\.json: palette/colours/0"):
        plan_of(colours, style=broken)
    with pytest.raises(PlanError, match=r"none\.json: the style cannot be read"):
        plan_of(colours, style=str(tmp_path / "none.json"))
    plan = plan_of({"path": str(colours), "bands": [1]}, style=numbers, decimation="nn")
    assert plan.pixel_type.channels == 3
