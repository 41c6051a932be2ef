"""Maps side by side show what one big map shows, so that clients may cut as they like."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from tests.render.ground import KERNELS, MESH_CENTRE, World, around

from mastaba.model.bbox import BoundingBox
from mastaba.model.layer import Layer
from mastaba_render import layer_map

CRSS = ["EPSG:3857", "EPSG:4326", "EPSG:2154", "EPSG:3035"]
# Odd cuts: pieces begin at no multiple of the step of the position grid, nor of a block of rows.
CUTS_X = [0, 37, 90, 131]
CUTS_Y = [0, 23, 24, 77]


def extent(crs: str, scale: float) -> tuple[BoundingBox, tuple[int, int]]:
    """Return a box and a size; ``scale`` is the cell in cells of the finest level."""
    size = CUTS_X[-1], CUTS_Y[-1]
    cell = 400.0 if crs == "EPSG:3857" else 278.0
    cells = (cell / 77000, cell / 111000) if crs == "EPSG:4326" else (cell, cell)
    centre = (MESH_CENTRE[0] - 4321.0, MESH_CENTRE[1] + 987.0)
    return around(crs, size[0] * cells[0] * scale, size[1] * cells[1] * scale, centre), size


def pieces(bbox: BoundingBox, size: tuple[int, int]) -> Iterator[tuple[slice, slice, BoundingBox]]:
    """Return rows, columns and box of each piece of a map."""
    cell_x, cell_y = (bbox.xmax - bbox.xmin) / size[0], (bbox.ymax - bbox.ymin) / size[1]
    for top, bottom in pairwise(CUTS_Y):
        for left, right in pairwise(CUTS_X):
            yield (
                slice(top, bottom),
                slice(left, right),
                BoundingBox(
                    bbox.xmin + left * cell_x,
                    bbox.ymax - bottom * cell_y,
                    bbox.xmin + right * cell_x,
                    bbox.ymax - top * cell_y,
                ),
            )


def stitched(world: World, layer: Layer, bbox: BoundingBox, crs: str, size: tuple[int, int]):
    channels = layer.pyramid.raster.channels
    result = np.empty((*size[::-1], channels), np.float64)
    for rows, columns, box in pieces(bbox, size):
        piece = (columns.stop - columns.start, rows.stop - rows.start)
        image = world.draw(layer, box, crs, piece)
        assert image.valid is None
        result[rows, columns] = image.pixels
    return result


@pytest.mark.sampled
@pytest.mark.parametrize("scale", [0.37, 1.0, 1.21, 1.55, 3.1])
@pytest.mark.parametrize("kernel", KERNELS)
def test_noise_is_stitched_in_the_same_crs(mesh: World, kernel: str, scale: float) -> None:
    """Noise shows any pixel that is elsewhere, or has other weights."""
    layer = replace(mesh.layer("noise"), resampling=kernel)
    bbox, size = extent("EPSG:3857", scale)
    whole = mesh.draw(layer, bbox, "EPSG:3857", size).pixels
    parts = stitched(mesh, layer, bbox, "EPSG:3857", size)
    assert np.abs(parts - whole).max() < 1e-2  # the amplitude is 500
    colours = replace(mesh.layer("speckle"), resampling=kernel)
    whole = mesh.draw(colours, bbox, "EPSG:3857", size).pixels
    parts = stitched(mesh, colours, bbox, "EPSG:3857", size)
    assert np.abs(parts - whole).max() <= 1
    assert (parts != whole).mean() < 1e-3


@pytest.mark.sampled
@pytest.mark.parametrize("scale", [0.37, 1.0, 1.55, 3.1])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("crs", CRSS[1:])
def test_waves_are_stitched_across_crss(mesh: World, crs: str, kernel: str, scale: float) -> None:
    """Positions are interpolated, and widths of kernels measured, in each piece by itself."""
    layer = replace(mesh.layer("wave"), resampling=kernel)
    bbox, size = extent(crs, scale)
    whole = mesh.draw(layer, bbox, crs, size).pixels
    parts = stitched(mesh, layer, bbox, crs, size)
    difference = np.abs(parts - whole)
    if kernel == "nn":
        # The neighbour is another pixel only where a position lies between two of them.
        assert (difference > 1e-3).mean() < 0.05
        assert difference.max() < 180
    else:
        # The amplitude is 1000, a pixel of the coarsest level up to 168 of it.
        assert difference.max() < 6


@pytest.mark.sampled
@pytest.mark.parametrize("crs", CRSS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_strips_of_a_large_map_fit_together(
    mesh: World, monkeypatch: pytest.MonkeyPatch, kernel: str, crs: str
) -> None:
    bbox, size = extent(crs, 1.3)
    layers = [replace(mesh.layer(name), resampling=kernel) for name in ("noise", "speckle")]
    whole = [mesh.draw(layer, bbox, crs, size) for layer in layers]
    monkeypatch.setattr(layer_map, "_STRIP_PIXELS", 131 * 19)
    for layer, image in zip(layers, whole, strict=True):
        strips = mesh.draw(layer, bbox, crs, size)
        assert strips.valid is None
        difference = np.abs(strips.pixels.astype(np.float64) - image.pixels)
        if layer.id == "speckle":
            assert difference.max() <= (0 if kernel == "nn" else 1)
        else:
            assert difference.max() < 1e-2
        assert (difference > 0.5).mean() < 1e-3


def test_strips_keep_what_has_no_data(mesh: World, monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = mesh.layer("noise").pyramid.finest.matrix
    bbox = BoundingBox(
        matrix.origin_x - 10000, matrix.origin_y - 40000, matrix.origin_x + 30000, matrix.origin_y
    )
    for name in ("noise", "speckle"):
        for crs in ("EPSG:3857", "EPSG:32631"):
            box = bbox if crs == "EPSG:3857" else around(crs, 3e4, 4e4, (matrix.origin_x, 5.98e6))
            whole = mesh.draw(name, box, crs, (100, 100))
            with monkeypatch.context() as patch:
                patch.setattr(layer_map, "_STRIP_PIXELS", 1)
                strips = mesh.draw(name, box, crs, (100, 100))
            assert whole.valid is not None
            assert strips.valid is not None
            assert 0.1 < whole.valid.mean() < 0.9
            assert np.array_equal(strips.valid, whole.valid)
            assert np.abs(strips.pixels.astype(float) - whole.pixels).max() < 1.01
