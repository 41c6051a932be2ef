"""Maps in strips: pixels do not depend on the strips, and memory does not grow with the map."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.render.ground import (
    MESH_LEVELS,
    WORLD,
    WORLD_LEVELS,
    World,
    around,
    ramp,
)

from mastaba.model.bbox import BoundingBox
from mastaba.model.crs import CRS
from mastaba.model.style import Palette, PaletteEntry, Style
from mastaba_render import layer_map
from mastaba_render.compose import joined
from mastaba_render.encoded_map import EncodedMap, as_data, as_picture
from mastaba_render.encoder import Encoder
from mastaba_render.encoding.asc import AscEncoder
from mastaba_render.encoding.bil import BilEncoder
from mastaba_render.encoding.geotiff import GeotiffEncoder
from mastaba_render.encoding.jpeg import JpegEncoder
from mastaba_render.encoding.png import PngEncoder
from mastaba_render.encoding.webp import WebpEncoder
from mastaba_render.layer_map import PreparedMap
from mastaba_render.map_request import Background, MapImage, MapLayer, MapRequest

Entry = tuple[str, Style | None]

SIZE = (131, 77)
CORNER = (205000.0, 5843000.0)
KERNELS = ("nn", "linear", "lanczos_3")
PLACES = {
    "same CRS": "EPSG:3857",
    "straight": "EPSG:4326",
    "curved": "EPSG:2154",
    "rotated": "EPSG:3574",
}
"""The last one is turned by half a right angle."""


def style(name: str = "s", palette: Palette | None = None, **processing: Any) -> Style:
    return Style(name, name, "", palette=palette, processing=processing)


HEIGHTS = Palette(
    (PaletteEntry(-800.0, 0, 0, 255, 255), PaletteEntry(900.0, 255, 255, 0, 90)),
    rgb_continuous=True,
    alpha_continuous=True,
)
ENTRIES: Mapping[str, tuple[Entry, ...]] = {
    "floats": (("noise", None),),
    "colours": (("speckle", None),),
    "grey": (("grey", None),),
    "palette": (("noise", style(palette=HEIGHTS)),),
    "terrain": (("noise", style(terrainrgb={"min_elevation": -1000.0, "step": 0.1})),),
    "colorize": (("speckle", style(colorize={"source": [128] * 3, "tolerance": 90})),),
    "hillshade": (("noise", style(estompage={"z_factor": 0.1})),),
    "slope in colours": (("noise", style(palette=HEIGHTS, pente={})),),
    "aspect": (("noise", style(exposition={"min_slope": 0.001})),),
    "several pictures": (
        ("grey", None),
        ("speckle", style(colorize={"source": [128] * 3, "tolerance": 90})),
        ("noise", style(palette=HEIGHTS)),
    ),
    "several floats": (("ramp", None), ("noise", None)),
    "several reliefs": (("ramp", style(pente={})), ("noise", style(estompage={}))),
}


@pytest.fixture(scope="module")
def gaps(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Return layers with gaps: tiles that are absent, and in floats nodata inside of tiles."""
    world = World(tmp_path_factory.mktemp("gaps"), limits={"layers_count": 3})

    def noise(level: str, row: int, col: int) -> np.ndarray | None:
        random = np.random.default_rng([int(level), row, col])
        pixels = random.uniform(-800, 900, (48, 64, 1)).astype(np.float32)
        pixels[random.uniform(size=(48, 64)) < 0.01] = -99999
        return None if is_absent(level, row, col) else pixels

    def speckle(level: str, row: int, col: int) -> np.ndarray | None:
        random = np.random.default_rng([int(level), row, col])
        pixels = random.integers(0, 256, (48, 64, 3), np.uint8)
        return None if is_absent(level, row, col) else pixels

    def grey(level: str, row: int, col: int) -> np.ndarray:
        return np.random.default_rng([int(level), row, col, 1]).integers(
            0, 256, (48, 64, 1), np.uint8
        )

    def is_absent(level: str, row: int, col: int) -> bool:
        # Whole slabs: absent tiles of a slab that has others are stored as tiles of nodata.
        return col * 2 ** (2 - int(level)) < 4 and row * 2 ** (2 - int(level)) < 8

    world.add("ramp", ramp)
    world.add("noise", noise, of_position=False)
    world.add("speckle", speckle, of_position=False, format="TIFF_PNG_UINT8", channels=3)
    world.add("grey", grey, of_position=False, format="TIFF_RAW_UINT8", levels=MESH_LEVELS[-1:])
    yield world
    world.close()


def prepared(
    world: World,
    entries: tuple[Entry, ...],
    crs: str,
    *,
    kernel: str = "linear",
    scale: float = 1.3,
    size: tuple[int, int] = SIZE,
) -> PreparedMap:
    """Return a map around the corner of the gap in the north-west."""
    cell = 278.0 * scale * (1 / 111000 if crs == "EPSG:4326" else 1.0)
    layers = tuple(
        MapLayer(replace(world.layer(name), resampling=kernel), style) for name, style in entries
    )
    box = around(crs, size[0] * cell, size[1] * cell, CORNER)
    return world.site.renderer.prepare(MapRequest(layers, box, CRS.from_code(crs), *size))


def assert_same(strips: list[MapImage], whole: MapImage) -> None:
    image = joined(strips, axis=0)
    assert image.pixels.dtype == whole.pixels.dtype
    assert np.array_equal(image.pixels, whole.pixels)
    valid = np.ones(SIZE[::-1], np.bool_) if whole.valid is None else whole.valid
    found = np.ones(SIZE[::-1], np.bool_) if image.valid is None else image.valid
    assert np.array_equal(found, valid)
    for strip in strips:
        assert (strip.nodata, strip.encodes_numbers) == (whole.nodata, whole.encodes_numbers)
        assert strip.pixels.shape[1:] == whole.pixels.shape[1:]


@pytest.mark.sampled(one_in=5)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", ENTRIES)
def test_pixels_do_not_depend_on_the_strips(gaps: World, name: str, place: str) -> None:
    # Styles are applied to what a kernel returns: one kernel is enough for each of them.
    for kernel in KERNELS if all(style is None for _, style in ENTRIES[name]) else KERNELS[-1:]:
        a_map = prepared(gaps, ENTRIES[name], PLACES[place], kernel=kernel)
        whole = a_map.draw()
        assert whole.valid is None or 0.1 < whole.valid.mean() < 1
        for height in (1, 16, 37):
            strips = list(a_map.strips(height))
            assert len(strips) == -(-SIZE[1] // height)
            assert_same(strips, whole)


@pytest.mark.parametrize("name", ENTRIES)
def test_blank_pixel_has_the_properties_of_the_map(gaps: World, name: str) -> None:
    a_map = prepared(gaps, ENTRIES[name], "EPSG:3857")
    image, blank = a_map.draw(), a_map.blank
    assert blank.pixels.shape == (1, 1, image.pixels.shape[2])
    assert blank.pixels.dtype == image.pixels.dtype
    assert (blank.nodata, blank.encodes_numbers) == (image.nodata, image.encodes_numbers)
    assert blank.valid is not None
    assert not blank.valid.any()


@pytest.mark.parametrize("crs", ["EPSG:4326", "EPSG:3395", "EPSG:3413", "EPSG:32633"])
def test_strips_of_the_whole_world(world: World, crs: str) -> None:
    """Pixels without a place, a map wider than the area of its CRS, and a pole."""

    def speckle(level: str, row: int, col: int) -> np.ndarray:
        return np.random.default_rng([row, col]).integers(0, 256, (256, 256, 3), np.uint8)

    world.add(
        "world",
        speckle,
        of_position=False,
        format="TIFF_RAW_UINT8",
        channels=3,
        document=WORLD,
        levels=WORLD_LEVELS,
    )
    box = BoundingBox(-400, -100, 300, 95) if crs == "EPSG:4326" else around(crs, 3e7, 2e7, (0, 0))
    if crs == "EPSG:3413":
        box = BoundingBox(-9e6, -8e6, 7e6, 6e6)
    layers = (MapLayer(world.layer("world"), None),)
    a_map = world.site.renderer.prepare(MapRequest(layers, box, CRS.from_code(crs), *SIZE))
    whole = a_map.draw()
    assert whole.valid is None or whole.valid.any()
    for height in (1, 19):
        assert_same(list(a_map.strips(height)), whole)


def test_each_tile_is_decoded_once(gaps: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Strips that are lower than tiles share them, even where no tile is kept for other maps."""
    from mastaba_render.codecs import TileDecoder

    decoded: list[bytes] = []
    decode = TileDecoder.decode

    def counted(self: TileDecoder, payload: bytes) -> Any:
        decoded.append(payload)
        return decode(self, payload)

    monkeypatch.setattr(TileDecoder, "decode", counted)
    monkeypatch.setattr(gaps.site.renderer.tiles, "_capacity", 0)
    list(prepared(gaps, ENTRIES["colours"], "EPSG:3857", kernel="lanczos_3").strips(7))
    assert len(decoded) == len(set(decoded)) > 4


ENCODED: Mapping[str, tuple[str, Encoder]] = {
    "png": ("several pictures", PngEncoder()),
    "grey png": ("grey", PngEncoder()),
    "jpeg": ("colours", JpegEncoder()),
    "webp": ("colours", WebpEncoder()),
    "geotiff": ("several floats", GeotiffEncoder()),
    "bil": ("hillshade", BilEncoder()),
    "asc": ("floats", AscEncoder()),
}
BACKGROUNDS = (Background(), Background((255, 0, 0)), Background(transparent=True))


def encoded(a_map: PreparedMap, encoder: Encoder, background: Background) -> EncodedMap:
    def finish(image: MapImage, row: int) -> Any:
        if not encoder.is_picture:
            return as_data(image, background)
        return as_picture(image, background, alpha_possible=encoder.holds_alpha)

    box = BoundingBox(0, 0, 1, 1)
    return EncodedMap(a_map, finish, encoder, {}, box, CRS.from_code("EPSG:3857"))


@pytest.mark.sampled
@pytest.mark.parametrize("name", ENCODED)
@pytest.mark.parametrize("background", BACKGROUNDS)
def test_bytes_do_not_depend_on_the_strips(
    gaps: World, monkeypatch: pytest.MonkeyPatch, name: str, background: Background
) -> None:
    """Not even where only some strips have pixels without data on a coloured background."""
    entries, encoder = ENCODED[name]

    def body() -> bytes:
        a_map = prepared(gaps, ENTRIES[entries], "EPSG:3857")
        return b"".join(encoded(a_map, encoder, background).pieces())

    whole = body()
    for pixels in (1, SIZE[0] * 23):
        monkeypatch.setattr(layer_map, "_STRIP_PIXELS", pixels)
        assert body() == whole


@pytest.mark.sampled(one_in=5)
@pytest.mark.parametrize("crs", ["EPSG:3857", "EPSG:2154"])
@pytest.mark.parametrize("name", [*ENCODED, "several reliefs", "terrain", "palette", "colorize"])
def test_memory_is_that_of_strips_and_known_beforehand(
    gaps: World, monkeypatch: pytest.MonkeyPatch, name: str, crs: str
) -> None:
    """The estimate is no less than what is held, and no more than a few times as much."""
    entries, encoder = ENCODED.get(name, (name, BilEncoder()))
    monkeypatch.setattr(gaps.site.renderer.tiles, "_capacity", 0)

    def a_map(height: int) -> EncodedMap:
        size = (1200, height)
        made = prepared(gaps, ENTRIES[entries], crs, size=size, scale=0.1, kernel="lanczos_2")
        return encoded(made, encoder, Background())

    result = a_map(900)
    tracemalloc.start()
    try:
        for piece in result.pieces():
            assert piece
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # What Pillow and the codecs of JPEG and WebP hold is not seen here.
    assert peak < result.memory < 8 * peak
    if name != "webp":
        assert a_map(5000).memory < 1.1 * a_map(4000).memory
