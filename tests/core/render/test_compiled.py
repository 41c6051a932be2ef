"""Maps are the same with and without the compiled loops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.core.render.ground import KERNELS, MESH_CENTRE, World, around

from mastaba.model.style import Palette, PaletteEntry
from mastaba.render import styles, warp
from mastaba.render.kernels import Taps
from mastaba.render.styles import apply_palette

pytestmark = pytest.mark.skipif(not warp.HAS_COMPILER, reason="numba is not installed")


@pytest.mark.parametrize("scale", [0.3, 1.3, 3.3])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("crs", ["EPSG:2154", "EPSG:3035"])
def test_maps_across_crss(
    mesh: World, monkeypatch: pytest.MonkeyPatch, crs: str, kernel: str, scale: float
) -> None:
    # Part of the map lies beyond the data.
    east = MESH_CENTRE[0] + 150000, MESH_CENTRE[1]
    bbox = around(crs, 97 * 280 * scale, 83 * 280 * scale, east)
    for name in ("noise", "speckle"):
        layer = replace(mesh.layer(name), resampling=kernel)
        compiled = mesh.draw(layer, bbox, crs, (97, 83))
        with monkeypatch.context() as patch:
            patch.setattr(warp, "HAS_COMPILER", False)
            plain = mesh.draw(layer, bbox, crs, (97, 83))
        assert compiled.valid is not None
        assert plain.valid is not None
        assert 0.2 < compiled.valid.mean() < 0.9
        assert (compiled.valid != plain.valid).mean() < 1e-3
        both = compiled.valid & plain.valid
        difference = np.abs(compiled.pixels[both].astype(np.float64) - plain.pixels[both])
        # Positions are added up in another order: a few are cut to another 1/1024 of a pixel.
        assert np.quantile(difference, 0.99) < (1e-2 if name == "noise" else 1)
        assert (difference > 2.5).mean() < 2e-3


def test_pixels_without_position_are_left_out(mesh: World, monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = mesh.draw(
        "speckle", around("EPSG:3857", 64 * 400, 48 * 400, MESH_CENTRE), "EPSG:3857", (64, 48)
    ).pixels
    across, down = np.array([0.0, 16.0, 32.0, 40.0]), np.array([0.0, 16.0, 29.0])
    columns, rows = np.meshgrid(8 + across * 1.1, 9 + down * 0.9)
    columns[0, 0] = rows[0, 0] = np.nan
    columns[2, 2] = rows[2, 2] = np.nan
    positions = warp.CurvedPositions(across, down, columns, rows, 1.1, 0.9)
    # Cells of the grid with a corner that has no place
    expected = np.ones((30, 41), np.bool_)
    expected[:16, :16] = False
    expected[16:, 16:] = False
    assert not positions.is_complete
    placed = np.isfinite(positions.spread(columns))
    assert np.array_equal(placed, expected)
    # Rows of a map that is drawn in strips
    for first, last in ((0, 29), (0, 15), (5, 10), (16, 29), (20, 29), (10, 20)):
        cut = positions.cut(first, last)
        assert np.array_equal(np.isfinite(cut.spread(cut.rows)), expected[first : last + 1])
    linear = warp.stencil(Taps.of("linear", 1.0))
    brighter = np.maximum(pixels, 1)
    compiled = warp.warp(brighter, positions, linear, linear)
    monkeypatch.setattr(warp, "HAS_COMPILER", False)
    plain = warp.warp(brighter, positions, linear, linear)
    assert np.abs(compiled - plain).max() < 1.1
    for image in (compiled, plain):
        assert np.array_equal((image > 0).any(axis=2), expected)


@pytest.mark.parametrize("rgb", [False, True])
@pytest.mark.parametrize("alpha", [False, True])
def test_palettes(monkeypatch: pytest.MonkeyPatch, rgb: bool, alpha: bool) -> None:
    random = np.random.default_rng(1)
    values = np.sort(random.uniform(-100, 100, 25))
    entries = tuple(
        PaletteEntry(float(value), *map(int, random.integers(0, 256, 4))) for value in values
    )
    pixels = random.uniform(-130, 130, (64, 48, 1)).astype(np.float32)
    pixels[0, : len(values), 0] = values
    pixels[1, :4, 0] = (np.inf, -np.inf, 3e38, -99999)
    for palette in (
        Palette(entries, rgb_continuous=rgb, alpha_continuous=alpha),
        Palette(entries[:1], rgb_continuous=rgb, alpha_continuous=alpha),
        Palette(entries[:2], rgb_continuous=rgb, alpha_continuous=alpha, no_alpha=True),
    ):
        compiled = apply_palette(palette, pixels)
        with monkeypatch.context() as patch:
            patch.setattr(styles, "HAS_COMPILER", False)
            plain = apply_palette(palette, pixels)
        assert np.array_equal(compiled, plain)
        expected = [palette.colour(float(value)) for value in pixels[5:8].ravel()]
        shape = (3, 48, compiled.shape[2])
        assert np.array_equal(
            compiled[5:8], np.array(expected, np.uint8)[:, : shape[2]].reshape(shape)
        )
