"""Layers merged, and maps put on their background (resampling.md 8 and 10, wms.md 3.4)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.render.ground import MESH_CENTRE, World, around

from mastaba.model.bbox import BoundingBox
from mastaba.model.style import Style
from mastaba.model.tile_matrix_set import TileLimits
from mastaba_render.compose import merge
from mastaba_render.encoded_map import as_data, as_picture
from mastaba_render.map_request import Background, MapImage, MapLayer

CHANNELS = (1, 2, 3, 4)
SHAPE = (37, 41)
RED = (250, 20, 30)


def an_image(channels: int, seed: int, *, holes: bool = False) -> MapImage:
    """Return a picture of noise; alpha is 0, 255 or between, each for a third."""
    random = np.random.default_rng([channels, seed])
    pixels = random.integers(0, 256, (*SHAPE, channels), np.uint8)
    if channels in (2, 4):
        kind = random.integers(0, 3, SHAPE)
        pixels[:, :, -1] = np.where(kind == 0, 0, np.where(kind == 1, 255, pixels[:, :, -1]))
    valid = random.random(SHAPE) < 0.7 if holes else None
    return MapImage(pixels, valid, (9.0,) * channels)


def reference(images: list[MapImage]) -> np.ndarray:
    """Merge pixel by pixel, by the formulas of the rule, in double precision."""
    channels = max(image.pixels.shape[2] for image in images)
    result = np.zeros((*SHAPE, channels))
    for row in range(SHAPE[0]):
        for column in range(SHAPE[1]):
            colour, alpha = np.zeros(3), 0.0
            for image in images:
                pixel = image.pixels[row, column].astype(float)
                source = pixel[:3] if len(pixel) > 2 else np.repeat(pixel[0], 3)
                cover = pixel[-1] / 255 if len(pixel) in (2, 4) else 1.0
                if image.valid is not None and not image.valid[row, column]:
                    cover = 0.0
                if cover == 0:
                    continue
                if alpha == 0:
                    colour, alpha = source, cover
                    continue
                total = cover + alpha * (1 - cover)
                colour = (cover * source + alpha * colour * (1 - cover)) / total
                alpha = total
            luminance = 0.2125 * colour[0] + 0.7154 * colour[1] + 0.0721 * colour[2]
            result[row, column] = {
                1: [luminance * alpha],
                2: [luminance, 255 * alpha],
                3: list(colour * alpha),
                4: [*colour, 255 * alpha],
            }[channels]
    return result


@pytest.mark.sampled
@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("top", CHANNELS)
@pytest.mark.parametrize("bottom", CHANNELS)
def test_two_layers_of_all_channel_counts(bottom: int, top: int, holes: bool) -> None:
    images = [an_image(bottom, 1, holes=holes), an_image(top, 2, holes=holes)]
    merged = merge(images)
    expected = reference(images)
    assert merged.pixels.dtype == np.uint8
    assert merged.pixels.shape == expected.shape
    data = np.ones(SHAPE, np.bool_) if merged.valid is None else merged.valid
    difference = merged.pixels[data].astype(np.float64) - expected[data]
    assert np.abs(merged.pixels[data] - np.floor(expected[data])).max() <= 1
    # Cut, not rounded
    assert -0.6 < difference.mean() <= 0.0
    if holes:
        assert merged.valid is not None
        assert np.array_equal(merged.valid, images[0].valid | images[1].valid)
        assert (merged.pixels[~data] == merged.nodata).all()
    else:
        assert merged.valid is None


def test_three_layers_and_the_order() -> None:
    images = [an_image(channels, seed, holes=True) for seed, channels in enumerate((3, 4, 2))]
    merged = merge(images)
    data = merged.valid
    assert data is not None
    assert np.abs(merged.pixels - np.floor(reference(images)))[data].max() <= 1
    turned = merge(images[::-1])
    assert np.abs(turned.pixels - np.floor(reference(images[::-1])))[data].max() <= 1
    assert not np.array_equal(merged.pixels, turned.pixels)


@pytest.mark.parametrize(
    ("bottom", "top", "expected"),
    [
        ((200,), (1, 2), (200, 0)),
        ((200,), (1, 2, 3), (200, 200, 200)),
        ((200,), (1, 2, 3, 4), (200, 200, 200, 0)),
        ((200, 90), (1, 2, 3), (200, 200, 200)),
        ((200, 90), (1, 2, 3, 4), (200, 200, 200, 90)),
        ((10, 20, 30), (1,), (10, 20, 30)),
        ((10, 20, 30), (1, 2, 3, 4), (10, 20, 30, 0)),
    ],
)
def test_where_no_layer_has_data_is_nodata_of_the_bottom_one(
    bottom: tuple[int, ...], top: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    valid = np.zeros(SHAPE, np.bool_)
    valid[:5] = True
    images = [
        MapImage(np.full((*SHAPE, len(nodata)), nodata, np.uint8), valid, tuple(map(float, nodata)))
        for nodata in (bottom, top)
    ]
    merged = merge(images)
    assert merged.nodata == expected
    data = as_data(merged, Background())
    assert (data[5:] == expected).all()
    assert (data[:5] != expected).any()


def test_opaque_layer_hides_what_is_below_exactly() -> None:
    bottom, top = an_image(3, 1), an_image(3, 2)
    assert np.array_equal(merge([bottom, top]).pixels, top.pixels)
    above = MapImage(top.pixels, np.zeros(SHAPE, np.bool_), top.nodata)
    assert np.array_equal(merge([bottom, above]).pixels, bottom.pixels)


def test_values_show_the_topmost_data() -> None:
    random = np.random.default_rng(3)
    pixels = [random.normal(size=(*SHAPE, 1)).astype(np.float32) for _ in range(3)]
    masks = [random.random(SHAPE) < 0.5 for _ in range(3)]
    images = [
        MapImage(np.where(mask[:, :, np.newaxis], values, np.float32(-99)), mask, (-99.0,))
        for values, mask in zip(pixels, masks, strict=True)
    ]
    before = [image.pixels.copy() for image in images]
    merged = merge(images)
    expected = np.full((*SHAPE, 1), np.float32(-99))
    for values, mask in zip(pixels, masks, strict=True):
        expected[mask] = values[mask]
    assert np.array_equal(merged.pixels, expected)
    assert merged.valid is not None
    assert np.array_equal(merged.valid, masks[0] | masks[1] | masks[2])
    # Pixels may be those of a tile in the cache.
    assert all(np.array_equal(image.pixels, old) for image, old in zip(images, before, strict=True))


def test_merge_leaves_its_images_alone() -> None:
    images = [an_image(channels, 7, holes=True) for channels in CHANNELS]
    before = [image.pixels.copy() for image in images]
    for image in images:
        image.pixels.flags.writeable = False
    merge(images)
    for image in images:
        for background in (Background(), Background(RED), Background(RED, transparent=True)):
            as_picture(image, background, alpha_possible=True)
            as_data(image, background)
    assert all(np.array_equal(image.pixels, old) for image, old in zip(images, before, strict=True))


# ---------------------------------------------------------------- pictures


def flattened(image: MapImage, ground: tuple[int, ...]) -> np.ndarray:
    """Return the picture on a background, three channels, in double precision."""
    pixels = image.pixels.astype(float)
    channels = pixels.shape[2]
    colour = pixels[:, :, :3] if channels > 2 else np.repeat(pixels[:, :, :1], 3, axis=2)
    cover = pixels[:, :, -1:] / 255 if channels in (2, 4) else np.ones((*SHAPE, 1))
    if image.valid is not None:
        cover = cover * image.valid[:, :, np.newaxis]
    return colour * cover + np.array(ground) * (1 - cover)


@pytest.mark.sampled
@pytest.mark.parametrize("alpha_possible", [False, True])
@pytest.mark.parametrize("transparent", [False, True])
@pytest.mark.parametrize("colour", [None, RED, (7, 7, 7)])
@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("channels", CHANNELS)
def test_picture(
    channels: int,
    holes: bool,
    colour: tuple[int, int, int] | None,
    transparent: bool,
    alpha_possible: bool,
) -> None:
    image = an_image(channels, 11, holes=holes)
    picture = as_picture(
        image, Background(colour, transparent=transparent), alpha_possible=alpha_possible
    )
    assert picture.dtype == np.uint8
    if transparent and alpha_possible:
        assert picture.shape[2] == (2 if channels < 3 else 4)
        colours = channels - 1 if channels in (2, 4) else channels
        alpha = image.pixels[:, :, -1] if channels in (2, 4) else np.full(SHAPE, 255)
        if image.valid is not None:
            alpha = np.where(image.valid, alpha, 0)
        assert np.array_equal(picture[:, :, -1], alpha)
        shown = alpha > 0
        assert np.array_equal(picture[shown][:, :-1], image.pixels[shown][:, :colours])
        return
    expected = flattened(image, colour or (255, 255, 255))
    is_grey = channels < 3 and (colour is None or len(set(colour)) == 1)
    if channels == 1 and not holes:
        is_grey = True  # nothing of the background shows
    assert picture.shape[2] == (1 if is_grey else 3)
    assert np.abs(picture - expected[:, :, : picture.shape[2]]).max() <= 0.51


@pytest.mark.parametrize("holes", [False, True])
def test_numbers_are_never_flattened_on_white(holes: bool) -> None:
    image = an_image(3, 13, holes=holes)
    numbers = MapImage(image.pixels, image.valid, image.nodata, encodes_numbers=True)
    for alpha_possible in (False, True):
        picture = as_picture(numbers, Background(), alpha_possible=alpha_possible)
        assert np.abs(picture - flattened(image, (0, 0, 0))).max() == 0
        picture = as_picture(numbers, Background(RED), alpha_possible=alpha_possible)
        assert np.abs(picture - flattened(image, RED)).max() == 0
    picture = as_picture(numbers, Background(transparent=True), alpha_possible=True)
    if image.valid is not None:
        assert (picture[~image.valid] == 0).all()
        assert (picture[image.valid][:, 3] == 255).all()


def test_numbers_stay_numbers_in_a_merged_map() -> None:
    image = an_image(3, 13, holes=True)
    numbers = MapImage(image.pixels, image.valid, image.nodata, encodes_numbers=True)
    assert merge([an_image(3, 14, holes=True), numbers]).encodes_numbers
    assert not merge([image, image]).encodes_numbers


# ---------------------------------------------------------------- data


@pytest.mark.parametrize("channels", CHANNELS)
def test_data_keeps_nodata_unless_a_colour_is_given(channels: int) -> None:
    image = an_image(channels, 17, holes=True)
    assert image.valid is not None
    assert as_data(image, Background()) is image.pixels
    assert as_data(image, Background(transparent=True)) is image.pixels
    data = as_data(image, Background(RED))
    assert np.array_equal(data[image.valid], image.pixels[image.valid])
    grey = 0.2125 * RED[0] + 0.7154 * RED[1] + 0.0721 * RED[2]
    filling = {1: [grey], 2: [grey, 255], 3: [*RED], 4: [*RED, 255]}[channels]
    assert np.abs(data[~image.valid] - np.array(filling)).max() < 1


def test_values_take_no_colour() -> None:
    pixels = np.full((*SHAPE, 1), np.float32(-99))
    image = MapImage(pixels, np.zeros(SHAPE, np.bool_), (-99.0,))
    assert as_data(image, Background(RED)) is pixels


# ---------------------------------------------------------------- of real layers


def test_layers_of_a_map_are_merged_bottom_first(tmp_path: Path) -> None:
    def veil(level: str, row: int, col: int) -> np.ndarray | None:
        if col >= 8:
            return None
        return np.full((48, 64, 4), (10, 200, 30, 128), np.uint8)

    world = World(tmp_path, limits={"layers_count": 2})
    world.add("veil", veil, format="TIFF_RAW_UINT8", channels=4, of_position=False, nodata=[0] * 4)
    world.add(
        "base",
        lambda level, row, col: np.full((48, 64, 3), (100, 100, 100), np.uint8),
        format="TIFF_RAW_UINT8",
        of_position=False,
        channels=3,
    )
    edge = 100000 + 8 * 64 * 400
    bbox = BoundingBox(edge - 8000, MESH_CENTRE[1], edge + 8000, MESH_CENTRE[1] + 8000)
    layers = [MapLayer(world.layer(name), None) for name in ("base", "veil")]
    image = world.draw(layers[1:], bbox, "EPSG:3857", (40, 20))
    assert image.valid is not None
    assert image.valid[:, :20].all()
    assert not image.valid[:, 20:].any()
    merged = world.draw(layers, bbox, "EPSG:3857", (40, 20))
    assert merged.valid is None
    assert np.abs(merged.pixels[:, :20].astype(int) - (54, 150, 64, 255)).max() <= 1
    assert (merged.pixels[:, 20:] == (100, 100, 100, 255)).all()
    turned = world.draw(layers[::-1], bbox, "EPSG:3857", (40, 20))
    assert (turned.pixels == (100, 100, 100, 255)).all()
    world.close()


def test_terrain_rgb_of_nothing_is_black(world: World) -> None:
    def heights(level: str, row: int, col: int) -> np.ndarray:
        pixels = np.full((48, 64, 1), 157.2, np.float32)
        pixels[:, :32] = -99999
        return pixels

    world.add("heights", heights, of_position=False)
    style = Style("t", "t", "", processing={"terrainrgb": {}})
    bbox = around("EPSG:3857", 128 * 400, 96 * 400, (253600.0, 5846400.0))
    image = world.draw("heights", bbox, "EPSG:3857", (128, 96), style)
    picture = as_picture(image, Background(), alpha_possible=True)
    found = {tuple(pixel) for pixel in picture.reshape(-1, 3).tolist()}
    assert found == {(0, 0, 0), (1, 140, 196)}


def in_one_colour(settings: dict[str, Any]) -> Style:
    return Style("s", "s", "s", processing={"colorize": settings})


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        # The defaults make white transparent; what is not of the colour becomes opaque.
        ({}, {(255, 255, 255): (255, 255, 255, 0), (255, 255, 254): (255, 255, 254, 255)}),
        (
            {"source": [10, 20, 30], "destination": [1, 2, 3]},
            {(10, 20, 30): (1, 2, 3), (10, 20, 31): (10, 20, 31), (255, 255, 255): (255, 255, 255)},
        ),
        # Each component may differ by the tolerance, and none by more.
        (
            {"source": [10, 20, 30], "destination": [1, 2, 3, 4], "tolerance": 5},
            {
                (15, 15, 35): (1, 2, 3, 4),
                (5, 25, 25): (1, 2, 3, 4),
                (16, 20, 30): (16, 20, 30, 255),
                (10, 14, 30): (10, 14, 30, 255),
                (10, 20, 36): (10, 20, 36, 255),
            },
        ),
        # The distance is not that of bytes that wrap around.
        (
            {"source": [250, 0, 0], "destination": [1, 2, 3], "tolerance": 10},
            {(3, 0, 0): (3, 0, 0), (240, 10, 10): (1, 2, 3)},
        ),
    ],
)
def test_one_colour_becomes_another(
    world: World,
    settings: dict[str, Any],
    expected: dict[tuple[int, ...], tuple[int, ...]],
) -> None:
    stored = np.array(list(expected), np.uint8)

    def tile(level: str, row: int, col: int) -> np.ndarray:
        return stored[np.arange(48 * 64) % len(stored)].reshape(48, 64, 3)

    world.add("c", tile, format="TIFF_RAW_UINT8", channels=3, of_position=False, resampling="nn")
    matrix = world.layer("c").pyramid.finest.matrix
    box = matrix.bbox_of(TileLimits(7, 7, 7, 7))
    image = world.draw("c", box, "EPSG:3857", (64, 48), in_one_colour(settings))
    wanted = np.array(list(expected.values()), np.uint8)
    assert np.array_equal(
        image.pixels.reshape(48 * 64, -1), np.resize(wanted, (48 * 64, wanted.shape[1]))
    )
