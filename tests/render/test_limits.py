"""What asks too much is refused before anything is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.render.ground import MESH_CENTRE, World, around, ramp

from mastaba.errors import InvalidParameterError
from mastaba.model.bbox import BoundingBox
from mastaba.model.crs import CRS
from mastaba.model.settings import MapSettings
from mastaba.model.style import Palette, PaletteEntry, Style
from mastaba_render import mosaic
from mastaba_render.map_request import MapLayer, MapRequest
from mastaba_render.mosaic import LevelPixels
from mastaba_render.native import Window
from mastaba_render.tile_cache import TileCache
from mastaba_storage.file import FileStorage
from mastaba_writer.descriptor import LevelPlan

MERCATOR = CRS.from_code("EPSG:3857")
BYTES = Style("b", "b", "", palette=Palette((PaletteEntry(0.0, 1, 2, 3, 4),)))


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    limits = {
        "layers_count": 2,
        "width": 100,
        "height": 80,
        "pixels": 6000,
        "tile_x": 4,
        "tile_y": 3,
    }
    world = World(tmp_path_factory.mktemp("limited"), limits=limits)
    world.add("ramp", ramp)
    world.add(
        "grey",
        lambda level, row, col: np.zeros((48, 64, 1), np.uint8),
        format="TIFF_RAW_UINT8",
        of_position=False,
    )
    # One row of tiles.
    world.add("row", ramp, levels=[LevelPlan("0", 0, 0, 0, 2)])
    yield world
    world.close()


@pytest.fixture
def reads(limited: World, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the keys of what is read from now on."""
    limited.site  # noqa: B018 - opened before anything is counted
    keys: list[str] = []
    for name in ("read", "read_ranges"):
        whole: Callable[..., Any] = getattr(FileStorage, name)

        def counted(
            self: FileStorage, key: str, *rest: Any, whole: Callable[..., Any] = whole
        ) -> Any:
            keys.append(key)
            return whole(self, key, *rest)

        monkeypatch.setattr(FileStorage, name, counted)
    return keys


def a_map(world: World, **changes: Any) -> MapRequest:
    """Return a map of 60 by 40 pixels of the finest level, 2 by 2 tiles, within all limits."""
    matrix = world.layer("ramp").pyramid.finest.matrix
    left, top = matrix.origin_x + 64 * 400 - 12345, matrix.origin_y - 48 * 400 + 5432
    request = MapRequest(
        (MapLayer(world.layer("ramp"), None),),
        BoundingBox(left, top - 40 * 400, left + 60 * 400, top),
        MERCATOR,
        60,
        40,
    )
    return replace(request, **changes)


def test_map_within_the_limits_is_drawn(limited: World, reads: list[str]) -> None:
    renderer = limited.site.renderer
    prepared = renderer.prepare(a_map(limited))
    assert not reads
    assert prepared.draw().pixels.shape == (40, 60, 1)
    assert reads


def refused(limited: World, request: MapRequest, limits: MapSettings | None = None) -> str | None:
    """Return the invalid parameter of a map that is refused."""
    with pytest.raises(InvalidParameterError) as caught:
        limited.site.renderer.prepare(request, limits)
    return caught.value.parameter


@pytest.mark.parametrize(
    ("changes", "parameter"),
    [
        ({"width": 101}, "WIDTH"),
        ({"width": 0}, "WIDTH"),
        ({"width": -1}, "WIDTH"),
        ({"height": 81}, "HEIGHT"),
        ({"height": 0}, "HEIGHT"),
        ({"width": 10**30}, "WIDTH"),
        ({"width": 100, "height": 61}, "WIDTH"),
    ],
)
def test_too_many_pixels(
    limited: World, reads: list[str], changes: dict[str, int], parameter: str
) -> None:
    assert refused(limited, a_map(limited, **changes)) == parameter
    assert not reads


def test_most_pixels_that_are_allowed(limited: World) -> None:
    for width, height in ((100, 60), (75, 80)):
        image = limited.site.renderer.render(a_map(limited, width=width, height=height))
        assert image.pixels.shape[:2] == (height, width)


def test_too_many_layers(limited: World, reads: list[str]) -> None:
    layer = MapLayer(limited.layer("ramp"), None)
    assert refused(limited, a_map(limited, layers=(layer,) * 3)) == "LAYERS"
    assert not reads
    assert limited.site.renderer.render(a_map(limited, layers=(layer,) * 2)).valid is None


def test_bytes_and_floats_do_not_mix(limited: World, reads: list[str]) -> None:
    ramp, grey = limited.layer("ramp"), limited.layer("grey")
    layers = (MapLayer(ramp, None), MapLayer(grey, None))
    assert refused(limited, a_map(limited, layers=layers)) == "LAYERS"
    assert not reads
    coloured = (MapLayer(ramp, BYTES), MapLayer(grey, None))
    assert limited.site.renderer.render(a_map(limited, layers=coloured)).pixels.dtype == np.uint8


@pytest.mark.parametrize("axis", [0, 1])
def test_too_many_source_tiles(limited: World, reads: list[str], axis: int) -> None:
    """Two tiles across and three down, counted with all that the kernel takes."""
    matrix = limited.layer("ramp").pyramid.coarsest.matrix
    settings = replace(limited.site.catalogue.settings.map, overviews=False, max_tiles_x=2)
    tile, most = ((64 * 1600, 2), (48 * 1600, 3))[axis]
    for tiles, edge, passes in ((most, -2000, True), (most, 8000, False), (9, 0, False)):
        length = tiles * tile + edge
        low = matrix.origin_x + 1000 if axis == 0 else matrix.origin_y - 1000 - length
        box = (
            BoundingBox(low, matrix.origin_y - 8000, low + length, matrix.origin_y - 3000)
            if axis == 0
            else BoundingBox(matrix.origin_x + 3000, low, matrix.origin_x + 8000, low + length)
        )
        layer = replace(limited.layer("ramp"), resampling="nn")
        request = a_map(limited, layers=(MapLayer(layer, None),), bbox=box, width=75, height=75)
        # The same level for all
        request = replace(request, resolution_factor=1e6)
        if passes:
            limited.site.renderer.prepare(request, settings)
        else:
            assert refused(limited, request, settings) == "BBOX"
            limited.site.renderer.prepare(request)
    assert not reads


def test_tiles_outside_the_limits_of_a_layer_do_not_count(limited: World, reads: list[str]) -> None:
    matrix = limited.layer("row").pyramid.coarsest.matrix
    settings = replace(limited.site.catalogue.settings.map, overviews=False)
    left, top = matrix.origin_x + 3000, matrix.origin_y - 8000
    for tiles in (2.5, 3.5, 1e4):
        box = BoundingBox(left, top - tiles * 48 * 1600, left + 5000, top)
        layer = MapLayer(replace(limited.layer("row"), resampling="nn"), None)
        request = a_map(limited, layers=(layer,), bbox=box, width=75, height=75)
        limited.site.renderer.prepare(request, settings)
    assert not reads


def test_too_many_source_tiles_of_another_crs(limited: World, reads: list[str]) -> None:
    box = around("EPSG:2154", 600000, 10000, MESH_CENTRE)
    request = a_map(limited, bbox=box, crs=CRS.from_code("EPSG:2154"), resolution_factor=1e-6)
    assert refused(limited, request) == "BBOX"
    assert not reads


def test_too_many_source_bytes(limited: World, reads: list[str]) -> None:
    settings = limited.site.catalogue.settings.map
    # 60 by 40 pixels of four bytes, and the border of the kernel
    assert refused(limited, a_map(limited), replace(settings, max_source_bytes=9600)) == "BBOX"
    assert not reads
    limited.site.renderer.prepare(a_map(limited), replace(settings, max_source_bytes=12000))


def test_limits_of_the_caller_take_the_place_of_the_settings(limited: World) -> None:
    settings = limited.site.catalogue.settings.map
    wide = a_map(limited, width=300)
    assert refused(limited, wide) == "WIDTH"
    limited.site.renderer.prepare(wide, replace(settings, max_width=300, max_pixels=10**6))
    assert refused(limited, a_map(limited), replace(settings, max_tiles_x=1)) == "BBOX"


def test_relief_counts_the_border_that_it_needs(limited: World, tmp_path: Path) -> None:
    style = Style("r", "r", "", processing={"pente": {}})
    matrix = limited.layer("ramp").pyramid.finest.matrix
    # Exactly one tile; its neighbours are needed for the slope.
    box = BoundingBox(
        matrix.origin_x + 64 * 400,
        matrix.origin_y - 96 * 400,
        matrix.origin_x + 128 * 400,
        matrix.origin_y - 48 * 400,
    )
    settings = replace(limited.site.catalogue.settings.map, max_tiles_x=1, max_tiles_y=1)
    request = a_map(limited, bbox=box, width=64, height=48)
    limited.site.renderer.prepare(request, settings)
    layers = (MapLayer(limited.layer("ramp"), style),)
    assert refused(limited, replace(request, layers=layers), settings) == "BBOX"


def test_tiles_of_a_window_are_decoded_some_at_a_time(
    limited: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert mosaic.DECODED_AT_A_TIME == 16 * 1024**2
    monkeypatch.setattr(mosaic, "DECODED_AT_A_TIME", 100_000)
    pyramid = limited.layer("ramp").pyramid
    readers = limited.site.catalogue.readers["ramp"]
    level = LevelPixels(pyramid, readers[pyramid.finest.matrix.id], TileCache(0))
    tile = 48 * 64 * 4
    assert level.tile_memory(Window(0, 2 * 48, 0, 3 * 64)) == 6 * tile
    assert level.tile_memory(Window(0, 100 * 48, 0, 100 * 64)) == 100_000 // tile * tile


def test_tiles_beyond_a_full_turn_are_held_too(limited: World) -> None:
    pyramid = limited.layer("ramp").pyramid
    readers = limited.site.catalogue.readers["ramp"]
    level = LevelPixels(pyramid, readers[pyramid.finest.matrix.id], TileCache(0))
    limits, tile = level.level.limits, 48 * 64 * 4
    turn = limits.max_col + 1
    top, left = limits.min_row * 48, limits.max_col * 64
    # The last tile of a turn, and the first ones of the next.
    window = Window(top, top + 48, left, left + (2 + limits.min_col) * 64)
    assert level.count(window, turn) == (1, 2)
    assert level.tile_memory(window, turn) == 2 * tile
    assert level.tile_memory(window) == tile
