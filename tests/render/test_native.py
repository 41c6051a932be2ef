"""The compiled loops compute what their references in numpy do."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.render import in_numpy
from tests.render.ground import KERNELS, MESH_CENTRE, World, around, grid_positions

from mastaba.model.style import Palette, PaletteEntry
from mastaba_render import native
from mastaba_render.map_request import Pixels
from mastaba_render.sampling import Weights, radius_of, stencil, table_of, weights_at
from mastaba_render.styles import apply_palette


@pytest.mark.sampled
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
        quick = mesh.draw(layer, bbox, crs, (97, 83))
        with monkeypatch.context() as patch:
            in_numpy.use(patch)
            plain = mesh.draw(layer, bbox, crs, (97, 83))
        assert quick.valid is not None
        assert plain.valid is not None
        assert 0.2 < quick.valid.mean() < 0.9
        assert (quick.valid != plain.valid).mean() < 1e-3
        both = quick.valid & plain.valid
        difference = np.abs(quick.pixels[both].astype(np.float64) - plain.pixels[both])
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
    positions = grid_positions(across, down, columns, rows, (1.1, 0.9))
    # Cells of the grid with a corner that has no place
    expected = np.ones((30, 41), np.bool_)
    expected[:16, :16] = False
    expected[16:, 16:] = False
    placed = positions.placed(slice(0, 30))
    assert placed is not None
    assert np.array_equal(placed, expected)
    # Rows of a map that is drawn in strips
    for rows_of_strip in (slice(0, 15), slice(5, 11), slice(16, 30), slice(20, 30), slice(10, 21)):
        placed = positions.placed(rows_of_strip)
        assert placed is not None
        assert np.array_equal(placed, expected[rows_of_strip])
    brighter = np.maximum(pixels, 1)
    sample = positions.sampler("linear", slice(0, 30), 0, 0)
    quick = sample(brighter)
    in_numpy.use(monkeypatch)
    plain = positions.sampler("linear", slice(0, 30), 0, 0)(brighter)
    assert np.abs(quick.astype(np.int16) - plain).max() <= 1
    for image in (quick, plain):
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
        quick = apply_palette(palette, pixels)
        with monkeypatch.context() as patch:
            in_numpy.use(patch)
            plain = apply_palette(palette, pixels)
        assert np.array_equal(quick, plain)
        expected = [palette.colour(float(value)) for value in pixels[5:8].ravel()]
        shape = (3, 48, quick.shape[2])
        assert np.array_equal(
            quick[5:8], np.array(expected, np.uint8)[:, : shape[2]].reshape(shape)
        )


@pytest.mark.sampled
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("kernel", [kernel for kernel in KERNELS if kernel != "nn"])
def test_images_of_any_channels(kernel: str, dtype: type[np.generic], channels: int) -> None:
    random = np.random.default_rng(2)
    for ratio_x, ratio_y in ((0.5, 0.75), (1.25, 1.0), (2.625, 1.875)):
        radius_x, radius_y = radius_of(kernel, ratio_x), radius_of(kernel, ratio_y)
        columns, rows = reach(radius_x, ratio_x, 31), reach(radius_y, ratio_y, 27)
        axes = weights_at(kernel, rows, radius_y), weights_at(kernel, columns, radius_x)
        size = [int(axis.first.max()) + axis.weights.shape[1] for axis in axes]
        pixels = random.integers(0, 256, (*size, channels)).astype(dtype)
        separate = native.resample(pixels, *axes)
        agree(separate, in_numpy.resample(pixels, *axes))
        # The same positions, as a grid of four corners
        grid = native.Grid.of(
            np.array([0.0, 30.0]),
            np.array([0.0, 26.0]),
            np.stack(np.meshgrid(columns[[0, -1]], rows[[0, -1]])),
        )
        given = pixels, (0, 0), grid, native.Window(0, 27, 0, 31)
        stencils = stencil(kernel, radius_y), stencil(kernel, radius_x)
        quick = native.warp(*given, *stencils)
        agree(quick, in_numpy.warp(*given, *stencils))
        # Positions of a warp are cut to 1/1024 of a pixel, which noise shows best.
        assert np.abs(quick - separate.astype(np.float64)).max() < 2.0
        local = *given, table_of(kernel), (radius_x, radius_y)
        agree(native.warp_locally(*local), in_numpy.warp_locally(*local))


def reach(radius: float, ratio: float, count: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return positions of which the first takes the first pixel, none near a 1/1024 of a pixel."""
    return radius - 1 + 1 / 64 + 1 / 2048 + np.arange(count) * ratio


def agree(quick: Pixels, plain: Pixels) -> None:
    assert quick.dtype == plain.dtype
    assert quick.shape == plain.shape
    difference = np.abs(quick.astype(np.float64) - plain)
    if quick.dtype == np.uint8:
        assert difference.max() <= 1
        assert (difference > 0).mean() < 1e-2
    else:
        assert difference.max() < 1e-3


def test_memory_outside_an_image_is_not_read() -> None:
    pixels = np.zeros((8, 8, 3), np.uint8)
    inside = weights_at("linear", np.array([1.25, 2.25]), 1.0)
    fractions = stencil("linear", 1.0)
    for place in (-1.5, 7.5):
        outside = weights_at("linear", np.array([1.25, place]), 1.0)
        for axes in ((inside, outside), (outside, inside)):
            with pytest.raises(IndexError):
                native.resample(pixels, *axes)
        inner = np.full((2, 2), 1.5)
        beyond = np.array([[1.5, place], [1.5, place]])
        for columns, rows in ((beyond, inner), (inner, beyond), (beyond, beyond)):
            end = np.array([0.0, 1.0])
            grid = native.Grid.of(end, end, np.stack([columns, rows]))
            given = pixels, (0, 0), grid, native.Window(0, 2, 0, 2)
            with pytest.raises(IndexError):
                native.warp(*given, fractions, fractions)
            with pytest.raises(IndexError):
                native.warp_locally(*given, table_of("linear"), (1.0, 1.0))


_BEFORE_A_GUARDED_PAGE = """
import ctypes, mmap
import numpy as np
from mastaba_render import native
from mastaba_render.sampling import stencil, table_of

size = mmap.PAGESIZE
memory = mmap.mmap(-1, 2 * size)
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
guard = ctypes.c_void_p(address + size)
assert ctypes.CDLL(None).mprotect(guard, ctypes.c_size_t(size), 0) == 0
for dtype in (np.uint8, np.float32):
    for channels in (1, 2, 3, 4):
        for shape in ((7, 9), (7, 2), (2, 9)):
            count = shape[0] * shape[1] * channels
            start = size - count * np.dtype(dtype).itemsize
            pixels = np.frombuffer(memory, dtype, count, start).reshape(*shape, channels)
            pixels[:] = np.arange(count).reshape(pixels.shape) % 251
            across, down = (np.arange(float(side - 1)) for side in shape[::-1])
            columns, rows = np.meshgrid(across + 0.25, down + 0.25)
            grid = native.Grid.of(across, down, np.stack([columns, rows]))
            place = (0, 0), grid, native.Window(0, len(down), 0, len(across))
            given = *place, stencil("linear", 1.0), stencil("linear", 1.0)
            assert np.array_equal(native.warp(pixels, *given), native.warp(pixels.copy(), *given))
            given = *place, table_of("linear"), (1.0, 1.0)
            found = native.warp_locally(pixels, *given)
            assert np.array_equal(found, native.warp_locally(pixels.copy(), *given))
print("read")
"""


def test_memory_behind_an_image_is_not_read() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _BEFORE_A_GUARDED_PAGE], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "read\n"), done.stderr


def test_backgrounds() -> None:
    random = np.random.default_rng(3)
    for channels, ground in ((4, (12, 200, 255)), (2, (77,)), (2, (12, 200, 255))):
        pixels = random.integers(0, 256, (40, 50, channels)).astype(np.uint8)
        pixels[0, :2, -1] = 0, 255
        behind = np.array(ground, np.uint8)
        flat = native.flatten(pixels, behind)
        assert np.array_equal(flat, in_numpy.flatten(pixels, behind))
        assert flat[0, 0].tolist() == list(ground)
        assert set(flat[0, 1].tolist()) == set(pixels[0, 1, :-1].tolist())


@pytest.mark.sampled
@pytest.mark.parametrize("method", native.DECIMATIONS)
@pytest.mark.parametrize("factor", [2, 3, 4])
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_decimations(channels: int, factor: int, method: str) -> None:
    random = np.random.default_rng(7)
    has_alpha = channels in (2, 4)
    # Few values, so that most frequent ones, halves and equal extremes occur.
    pixels = random.integers(0, 4, (factor * 9, factor * 11, channels)).astype(np.uint8) * 85
    pixels[: factor * 3, :, -1] = 255
    valid = random.random(pixels.shape[:2]) < 0.7
    valid[:factor] = True
    valid[factor : 2 * factor, :factor] = False
    pixels[~valid] = 0
    for options in ({}, {"enough": (factor * factor + 1) // 2, "alpha_of_all": False}):
        for mask in (valid, np.ones_like(valid)):
            given = pixels, mask, factor, method
            found = native.decimate(*given, has_alpha=has_alpha, **options)
            plain = in_numpy.decimate(*given, has_alpha=has_alpha, **options)
            assert np.array_equal(found[1], plain[1])
            assert np.array_equal(found[0], plain[0])
    if channels == 1:
        values = (pixels / 7).astype(np.float32)
        found = native.decimate(values, valid, factor, method)
        plain = in_numpy.decimate(values, valid, factor, method)
        assert np.array_equal(found[1], plain[1])
        assert np.allclose(found[0], plain[0], rtol=1e-6)


def test_a_decimation_into_part_of_an_array() -> None:
    pixels = np.random.default_rng(8).integers(0, 256, (12, 16, 3)).astype(np.uint8)
    valid = np.ones((12, 16), bool)
    whole, found = np.zeros((10, 10, 3), np.uint8), np.zeros((10, 10), bool)
    native.decimate(
        pixels[2:10, 4:12], valid[2:10, 4:12], 2, into=(whole[3:7, 5:9], found[3:7, 5:9])
    )
    expected, _ = native.decimate(pixels[2:10, 4:12].copy(), valid[2:10, 4:12], 2)
    assert np.array_equal(whole[3:7, 5:9], expected)
    assert found.sum() == 16
    assert whole.sum() == expected.sum()
    with pytest.raises(ValueError, match="do not fit"):
        native.decimate(pixels, valid, 5)
    with pytest.raises(ValueError, match="must follow each other"):
        native.decimate(pixels[:, ::2], valid[:, ::2], 2)


def test_arguments_of_another_type_are_refused() -> None:
    pixels = np.zeros((4, 4, 1), np.uint8)
    first, weights = np.zeros(2, np.int64), np.ones((2, 1), np.float32)
    axis = Weights(first, weights)
    for some in (first.astype(np.int32), first.reshape(1, 2), np.zeros(4, np.int64)[::2]):
        with pytest.raises(TypeError):
            native.resample(pixels, Weights(some, weights), axis)
    with pytest.raises(ValueError, match="one row of weights"):
        native.resample(pixels, Weights(first, weights[:1]), axis)
    line = np.array([0.0, 3.0])
    for fields in (np.zeros((2, 2, 2), np.float32), np.zeros((2, 4, 4))[:, ::2, ::2]):
        with pytest.raises(TypeError):
            native.Grid.of(line, line, fields)
    with pytest.raises(ValueError, match="one position for each"):
        native.Grid.of(line, line, np.zeros((2, 2, 3)))


def test_both_libraries_compute_the_same() -> None:
    """Processors without AVX2 and FMA get a library of their own."""
    folder = Path(native.__file__).parent
    libraries = sorted(folder.glob("kernels*.so"))
    assert libraries
    pixels = np.random.default_rng(4).integers(0, 256, (40, 50, 3)).astype(np.uint8)
    axis = weights_at("bicubic", np.arange(4, 30, 1.3), radius_of("bicubic", 1.3))
    found = []
    for library in libraries:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(native, "_library", ctypes.CDLL(str(library)))
            found.append(native.resample(pixels, axis, axis))
    for image in found[1:]:
        agree(image, found[0])
