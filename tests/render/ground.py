"""Synthetic pyramids whose pixels are functions of position, and the truth about their maps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyproj

import mastaba_render.plugin
from mastaba.model.bbox import BoundingBox
from mastaba.model.crs import CRS
from mastaba.model.layer import Layer
from mastaba.model.style import Style
from mastaba.plugins.manager import Plugins
from mastaba.services.base import Site
from mastaba.site.application import Application
from mastaba.wsgi import create_application
from mastaba_render.map_request import MapImage, MapLayer, MapRequest
from mastaba_render.native import Window
from mastaba_render.sampling import GridPositions
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, TileSource, write_pyramid
from mastaba_writer.tile_matrix_sets import synthetic, web_mercator

Floats = npt.NDArray[np.float64]
Function = Callable[[Floats, Floats], Any]
"""Values at positions x, y in units of the CRS of the pyramid: one array for each channel."""

KERNELS = ("nn", "linear", "bicubic", "lanczos_2", "lanczos_3", "lanczos_4")

MESH = synthetic(
    "MESH",
    crs="EPSG:3857",
    origin=(100000, 6000000),
    cell_sizes=[1600, 800, 400],
    matrix_sizes=[(3, 4), (6, 8), (12, 16)],
    tile_size=(64, 48),
)
"""307.2 km square in the middle of France; tiles are wider than high, so that a mix-up shows."""

MESH_LEVELS = (
    LevelPlan("0", 0, 3, 0, 2),
    LevelPlan("1", 0, 7, 0, 5),
    LevelPlan("2", 0, 15, 0, 11),
)
MESH_CENTRE = (253600.0, 5846400.0)

WORLD = web_mercator(4)
WORLD_LEVELS = (LevelPlan("1", 0, 1, 0, 1), LevelPlan("2", 0, 3, 0, 3))
"""The whole of EPSG:3857 in 512 and 1024 pixels."""


def ramp(x: Floats, y: Floats) -> Floats:
    """Return a plane: 1.2 for each pixel of 400 m eastward, -0.8 northward."""
    return 1000 + 0.003 * (x - MESH_CENTRE[0]) - 0.002 * (y - MESH_CENTRE[1])


def wave(x: Floats, y: Floats) -> Floats:
    """Return waves of amplitude 1000, 150 pixels of 400 m long and 200 high."""
    return 1000 * np.sin(x * (2 * np.pi / 60000)) * np.cos(y * (2 * np.pi / 80000))


def colours(x: Floats, y: Floats) -> tuple[Floats, ...]:
    """Return red, green and blue: waves of amplitude 100 in different directions."""
    return (
        128 + wave(x, y) / 10,
        128 + wave(y, x) / 10,
        128 + wave(x + y, x - y) / 10,
    )


def sampled(function: Function, document: Mapping[str, Any], dtype: type) -> TileSource:
    """Return tiles that hold a function at the centres of their pixels."""
    matrices = {matrix["id"]: matrix for matrix in document["tileMatrices"]}

    def tile(level: str, row: int, col: int) -> npt.NDArray[Any]:
        matrix = matrices[level]
        width, height, cell = matrix["tileWidth"], matrix["tileHeight"], matrix["cellSize"]
        left, top = matrix["pointOfOrigin"]
        x = left + (col * width + np.arange(width) + 0.5) * cell
        y = top - (row * height + np.arange(height) + 0.5) * cell
        bands = function(*np.meshgrid(x, y))
        pixels = np.stack(bands if isinstance(bands, tuple) else (bands,), axis=-1)
        if dtype is np.uint8:
            return np.clip(np.floor(pixels + 0.5), 0, 255).astype(np.uint8)
        return pixels.astype(np.float32)

    return tile


class World:
    """Layers of one installation, to be drawn by the engine.

    Args:
        directory: where the installation is written.
        map_settings: of ``global.map`` in services.json.
    """

    def __init__(self, directory: Path, **map_settings: Any) -> None:
        self._directory = directory
        self._settings = map_settings
        self._layers: dict[str, Any] = {}
        self._sets: dict[str, Mapping[str, Any]] = {"MESH": MESH}
        self._application: Application | None = None

    def add(
        self,
        name: str,
        tile: TileSource | Function,
        *,
        format: str = "TIFF_RAW_FLOAT32",
        channels: int = 1,
        document: Mapping[str, Any] = MESH,
        levels: Sequence[LevelPlan] = MESH_LEVELS,
        resampling: str = "linear",
        nodata: Sequence[float] | None = None,
        of_position: bool = True,
        **fields: Any,
    ) -> None:
        """Write a layer. ``tile`` is a function of position unless ``of_position`` is False."""
        dtype = np.float32 if format.endswith("FLOAT32") else np.uint8
        self._sets[document["id"]] = document
        descriptor = write_pyramid(
            self._directory / "pyramids",
            name,
            tile_matrix_set=document,
            format=format,
            levels=levels,
            tile=sampled(tile, document, dtype) if of_position else tile,
            channels=channels,
            nodata=nodata,
            tiles_per_width=4,
            tiles_per_height=4,
        )
        fields = {"resampling": resampling, **fields}
        self._layers[name] = layer_document(descriptor, tile_matrix_sets=self._sets, **fields)

    @property
    def site(self) -> Site:
        """The installation, opened."""
        if self._application is None:
            path = write_installation(
                self._directory,
                layers=self._layers,
                tile_matrix_sets=self._sets,
                services=["health"],
                services_overrides={"global": {"map": self._settings}},
            )
            self._application = create_application(
                str(path), Plugins(autoload=False, extra={"render": mastaba_render.plugin})
            )
        return self._application.site

    def layer(self, name: str) -> Layer:
        return self.site.catalogue.layers[name]

    def draw(
        self,
        layers: str | Layer | Sequence[MapLayer],
        bbox: BoundingBox,
        crs: str,
        size: tuple[int, int],
        style: Style | None = None,
    ) -> MapImage:
        """Return a map. ``size`` is width and height, ``bbox`` has x before y."""
        if isinstance(layers, str):
            layers = self.layer(layers)
        if isinstance(layers, Layer):
            layers = (MapLayer(layers, style),)
        request = MapRequest(tuple(layers), bbox, CRS.from_code(crs), *size)
        return self.site.renderer.render(request)

    def close(self) -> None:
        if self._application is not None:
            self._application.site.catalogue.storages.close()


def grid_positions(
    across: Floats, down: Floats, columns: Floats, rows: Floats, ratios: tuple[float, float]
) -> GridPositions:
    """Return positions given at the points of a grid, from its first pixel to its last."""
    fields = np.stack([columns, rows])
    part = Window(0, int(down[-1]) + 1, 0, int(across[-1]) + 1)
    complete = bool(np.isfinite(fields).all())
    return GridPositions(across, down, fields, part, ratios, complete)


def around(crs: str, width: float, height: float, centre: tuple[float, float]) -> BoundingBox:
    """Return a box in a CRS around a point in EPSG:3857."""
    x, y = transform("EPSG:3857", crs, *centre)
    return BoundingBox(
        float(x) - width / 2, float(y) - height / 2, float(x) + width / 2, float(y) + height / 2
    )


def pixel_centres(bbox: BoundingBox, size: tuple[int, int]) -> tuple[Floats, Floats]:
    """Return x and y of the centres of all pixels, shape (height, width)."""
    width, height = size
    x = bbox.xmin + (np.arange(width) + 0.5) * (bbox.xmax - bbox.xmin) / width
    y = bbox.ymax - (np.arange(height) + 0.5) * (bbox.ymax - bbox.ymin) / height
    x, y = np.meshgrid(x, y)
    return x, y


def transform(source: str, target: str, x: Any, y: Any) -> tuple[Any, Any]:
    """Return points in another CRS, x before y in both, straight from PROJ."""
    return _transformer(source, target).transform(x, y)


@cache
def _transformer(source: str, target: str) -> pyproj.Transformer:
    names = ["OGC:CRS84" if code == "CRS:84" else code for code in (source, target)]
    return pyproj.Transformer.from_crs(*names, always_xy=True)


def truth(
    function: Function, bbox: BoundingBox, crs: str, size: tuple[int, int], source: str
) -> Floats:
    """Return what a function of positions in ``source`` is at the pixels of a map.

    Returns:
        shape (height, width, channels).
    """
    bands = function(*transform(crs, source, *pixel_centres(bbox, size)))
    return np.stack(bands if isinstance(bands, tuple) else (bands,), axis=-1)
