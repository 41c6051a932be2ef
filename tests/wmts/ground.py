"""An installation whose tiles, in any tile matrix set, are functions of position."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyproj
from PIL import Image
from werkzeug.test import TestResponse

from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import synthetic

Floats = npt.NDArray[np.float64]
Pixels = npt.NDArray[Any]

CELLS: Final = (800.0, 400.0)
TILE: Final = (64, 48)
ORIGIN: Final = (100000.0, 6000000.0)

MESH = synthetic(
    "MESH",
    crs="EPSG:3857",
    origin=ORIGIN,
    cell_sizes=CELLS,
    matrix_sizes=[(6, 8), (12, 16)],
    tile_size=TILE,
)
"""The set of the pyramids, in the middle of France."""

MESH_LEVELS = (LevelPlan("0", 2, 5, 1, 4), LevelPlan("1", 4, 11, 2, 9))

# A metre of Mercator is about 0.7417 of Lambert 93, averaged over where both are used.
LAMBERT = synthetic(
    "LAMBERT",
    crs="EPSG:2154",
    origin=(0.0, 7000000.0),
    cell_sizes=[2400.0, 1200.0, 600.0, 300.0, 150.0],
    matrix_sizes=[(1000, 1000)] * 5,
    tile_size=(80, 56),
)
"""Levels 2 and 3 correspond to those of MESH."""

WIDE = synthetic(
    "WIDE",
    crs="EPSG:2154",
    origin=(0.0, 7000000.0),
    cell_sizes=[600.0, 300.0],
    matrix_sizes=[(100, 100)] * 2,
    tile_size=(512, 512),
)
"""Tiles that take many more than three by three tiles of MESH."""

DOUBLE = synthetic(
    "DOUBLE",
    crs="EPSG:3857",
    origin=ORIGIN,
    cell_sizes=CELLS,
    matrix_sizes=[(3, 4), (6, 8)],
    tile_size=(TILE[0] * 2, TILE[1] * 2),
)
"""The pixels of MESH, four of its tiles in one."""

DEGREES = synthetic(
    "DEGREES",
    crs="EPSG:4326",
    origin=(-180, 90),
    cell_sizes=[0.005, 0.0025],
    matrix_sizes=[(1125, 643), (2250, 1286)],
    tile_size=(64, 56),
    geographic=True,
)

ELSEWHERE = synthetic(
    "ELSEWHERE", crs="EPSG:2193", origin=(1000000.0, 6000000.0), cell_sizes=[600.0, 300.0]
)
"""For New Zealand."""

SETS = {each["id"]: each for each in (MESH, LAMBERT, WIDE, DOUBLE, DEGREES, ELSEWHERE)}


def wave(x: Floats, y: Floats) -> Floats:
    """Return waves between -1 and 1, at least 150 pixels of 400 m long."""
    return np.sin(x * (2 * np.pi / 60000)) * np.cos(y * (2 * np.pi / 80000))


def bands(x: Floats, y: Floats, channels: int) -> Floats:
    """Return the values of pixels: shape (rows, columns, channels), 28 to 228 in each."""
    waves = [wave(x, y), wave(y, x), wave(x + y, x - y), wave(x - y, y)]
    return np.stack([128 + 100 * each for each in waves[:channels]], axis=-1)


FORMATS: Final[Mapping[str, tuple[str, int]]] = {
    "grey": ("TIFF_PNG_UINT8", 1),
    "grey_alpha": ("TIFF_PNG_UINT8", 2),
    "rgb": ("TIFF_PNG_UINT8", 3),
    "rgba": ("TIFF_PNG_UINT8", 4),
    "raw": ("TIFF_RAW_UINT8", 3),
    "zip": ("TIFF_ZIP_UINT8", 4),
    "lzw": ("TIFF_LZW_UINT8", 1),
    "packbits": ("TIFF_PKB_UINT8", 2),
    "jpeg": ("TIFF_JPG_UINT8", 3),
    "jpeg90": ("TIFF_JPG90_UINT8", 3),
    "float_raw": ("TIFF_RAW_FLOAT32", 1),
    "float_zip": ("TIFF_ZIP_FLOAT32", 1),
    "float_lzw": ("TIFF_LZW_FLOAT32", 1),
    "float_packbits": ("TIFF_PKB_FLOAT32", 1),
}
"""Format and channels of the layers, all offered in every set."""


def source(format_name: str, channels: int) -> Callable[[str, int, int], Pixels]:
    def tile(level: str, row: int, col: int) -> Pixels:
        (width, height), cell = TILE, CELLS[int(level)]
        x = ORIGIN[0] + (col * width + np.arange(width) + 0.5) * cell
        y = ORIGIN[1] - (row * height + np.arange(height) + 0.5) * cell
        pixels = bands(*np.meshgrid(x, y), channels)
        if format_name.endswith("FLOAT32"):
            return (pixels * 10).astype(np.float32)
        return np.floor(pixels + 0.5).astype(np.uint8)

    return tile


def write(
    directory: Path, only: Sequence[str] = (), *, reprojection: bool = True, **fields: Any
) -> Path:
    """Write an installation of all `FORMATS`, or of ``only`` some, and return its server.json.

    Layers: those of `FORMATS`, queryable; ``missing``, like ``rgb``, answers 204 for missing
    tiles; ``sparse``, like ``grey``, has data only in the eastern half.
    """
    names = [name for name in SETS if name != "MESH"]
    layers: dict[str, Any] = {}

    def add(name: str, format_name: str, channels: int, tile: Any, **more: Any) -> None:
        if only and name not in only:
            return
        descriptor = write_pyramid(
            directory / "pyramids",
            name,
            tile_matrix_set=MESH,
            format=format_name,
            channels=channels,
            levels=MESH_LEVELS,
            tile=tile,
            nodata=[-99999 if format_name.endswith("FLOAT32") else 7] * channels,
        )
        document = {
            "extra_tilematrixsets": names,
            "get_feature_info": {"type": "PYRAMID"},
            "resampling": "linear",
            **more,
            **fields,
        }
        layers[name] = layer_document(descriptor, tile_matrix_sets=SETS, **document)

    for name, (format_name, channels) in FORMATS.items():
        more: dict[str, Any] = {}
        if name == "grey":
            more["styles"] = ["normal", "ember"]
        if name == "rgba":
            more["cache_control"] = "max-age=77"
        add(name, format_name, channels, source(format_name, channels), **more)
    add("missing", "TIFF_PNG_UINT8", 3, source("TIFF_PNG_UINT8", 3), missing_tile="204")
    grey = source("TIFF_PNG_UINT8", 1)
    add(
        "sparse",
        "TIFF_PNG_UINT8",
        1,
        lambda level, row, col: None if col < (3, 6)[int(level)] else grey(level, row, col),
    )
    return write_installation(
        directory,
        layers=layers,
        tile_matrix_sets=SETS,
        services=["wmts"],
        public_url="http://maps.example",
        services_overrides={"global": {"tile": {"reprojection": reprojection}}},
    )


def tile_truth(name: str, tile_matrix_set: str, matrix: str, row: int, col: int) -> Floats:
    """Return what a tile shows, by direct evaluation."""
    document = SETS[tile_matrix_set]
    found = next(each for each in document["tileMatrices"] if each["id"] == matrix)
    width, height, cell = found["tileWidth"], found["tileHeight"], found["cellSize"]
    left, top = found["pointOfOrigin"]
    x = left + (col * width + np.arange(width) + 0.5) * cell
    y = top - (row * height + np.arange(height) + 0.5) * cell
    transformer = pyproj.Transformer.from_crs(document["crs"], "EPSG:3857", always_xy=True)
    format_name, channels = FORMATS[name]
    pixels = bands(*transformer.transform(*np.meshgrid(x, y)), channels)
    return pixels * (10 if format_name.endswith("FLOAT32") else 1)


def decoded(response: TestResponse, shape: tuple[int, ...]) -> Pixels:
    """Return the pixels of an answer, shape (rows, columns, channels)."""
    if response.headers["Content-Type"] == "image/x-bil;bits=32":
        return np.frombuffer(response.data, "<f4").reshape(shape)
    with Image.open(io.BytesIO(response.data)) as image:
        return np.array(image).reshape(shape)
