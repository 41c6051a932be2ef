"""The installation for the tests: a layer for each kind of tile, and layers in other grids.

All services are enabled, so every source can be tested.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from tests.support.lzw import lzw_by_writer

from mastaba_conformance.tiny_installation import (
    TINY_LEVELS,
    TINY_TABLES,
    tiny_float_tile,
    tiny_integer_tile,
    tiny_vector_tile,
)
from mastaba_writer.documents import merged
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_encoder import encode_tile
from mastaba_writer.tile_matrix_sets import geographic, synthetic, web_mercator

SERVICES = ("tms", "wmts", "wms", "ogcapi", "elevation", "terrain", "viewer")
HOSTILE = "<img src=x onerror=\"document.title='hacked'\"> & 'quoted'"
GRID = synthetic(
    "GRID", crs="EPSG:2154", origin=(7e5, 7e6), cell_sizes=[50, 20, 10], tile_size=(128, 256)
)
TINT: Mapping[str, Any] = {
    "identifier": "tint",
    "title": "Blue to red",
    "abstract": "",
    "keywords": [],
    "palette": {
        "no_alpha": True,
        "rgb_continuous": True,
        "alpha_continuous": False,
        "colours": [
            {"value": -99999, "red": 0, "green": 255, "blue": 0, "alpha": 255},
            {"value": 0, "red": 0, "green": 0, "blue": 255, "alpha": 255},
            {"value": 10000, "red": 255, "green": 0, "blue": 0, "alpha": 255},
            {"value": 20000, "red": 255, "green": 0, "blue": 0, "alpha": 255},
        ],
    },
}
FORMATS = {
    "IMAGE": ("TIFF_JPG_UINT8", 3, tiny_integer_tile(3)),
    "PALETTE": ("TIFF_PNG_UINT8", 1, tiny_integer_tile(1)),
    "GREY": ("TIFF_RAW_UINT8", 1, tiny_integer_tile(1)),
    "PACKED": ("TIFF_PKB_UINT8", 4, tiny_integer_tile(4)),
    "LZW": ("TIFF_LZW_UINT8", 3, tiny_integer_tile(3)),
    "ZIP": ("TIFF_ZIP_UINT8", 2, tiny_integer_tile(2)),
    "HEIGHT": ("TIFF_RAW_FLOAT32", 1, tiny_float_tile),
    "HEIGHT_ZIP": ("TIFF_ZIP_FLOAT32", 1, tiny_float_tile),
    "HEIGHT_LZW": ("TIFF_LZW_FLOAT32", 1, tiny_float_tile),
}
_FIELDS: Mapping[str, Mapping[str, Any]] = {
    "PALETTE": {
        "styles": ["normal", "ember"],
        "extra_tilematrixsets": ["4326"],
        "get_feature_info": {"type": "PYRAMID"},
    },
    "HEIGHT": {
        "styles": ["tint", "normal"],
        "get_feature_info": {"type": "PYRAMID"},
        "resampling": "nn",
    },
}
_SETTINGS: Mapping[str, Any] = {
    "global": {
        "cors": True,
        "tile": {"reprojection": True},
        "map": {
            "crs": ["EPSG:3857", "EPSG:4326"],
            "formats": ["image/png", "image/jpeg", "image/tiff"],
        },
    }
}


@cache
def _encoded(name: str, level: str, row: int, col: int) -> bytes:
    """Return a tile of one of `FORMATS`; several installations have the same."""
    format, _, tile = FORMATS[name]
    # geotiff.js refuses some tiles of the library.
    with lzw_by_writer():
        return encode_tile(format, tile(level, row, col))


def one_tile_pyramid(directory: Path) -> Path:
    """Write a pyramid with one tile that covers the world; return the path of its descriptor."""
    return write_pyramid(
        directory,
        "P",
        tile_matrix_set=web_mercator(),
        format="TIFF_PNG_UINT8",
        levels=[LevelPlan("0", 0, 0, 0, 0)],
        tile=tiny_integer_tile(3),
    )


def install(
    directory: Path,
    url: str,
    services: Sequence[str] = SERVICES,
    services_overrides: Mapping[str, Any] | None = None,
    more: Mapping[str, Any] | None = None,
    sets: Mapping[str, Any] | None = None,
) -> Path:
    """Write the installation; return the path of its server.json.

    Args:
        more: further layers.
        sets: further tile matrix sets.
    """
    layers: dict[str, Any] = {}
    for name, (format, channels, _) in FORMATS.items():
        descriptor = write_pyramid(
            directory,
            name,
            tile_matrix_set=web_mercator(),
            format=format,
            channels=channels,
            levels=TINY_LEVELS,
            tile=partial(_encoded, name),
        )
        fields = _FIELDS.get(name, {})
        layers[name] = layer_document(descriptor, title=name, abstract=HOSTILE, **fields)
    vector = write_pyramid(
        directory,
        "VECTOR",
        tile_matrix_set=web_mercator(),
        format="TIFF_PBF_MVT",
        levels=[LevelPlan("3", 2, 3, 4, 5), LevelPlan("4", 4, 7, 8, 11)],
        tile=vector_tile,
        tables=TINY_TABLES,
    )
    world = write_pyramid(
        directory,
        "WORLD",
        tile_matrix_set=geographic(),
        format="TIFF_PNG_UINT8",
        levels=[LevelPlan("0", 0, 0, 0, 1)],
        tile=tiny_integer_tile(3),
    )
    grid = write_pyramid(
        directory,
        "GRID",
        tile_matrix_set=GRID,
        format="TIFF_PNG_UINT8",
        levels=[LevelPlan("1", 1, 2, 1, 3), LevelPlan("2", 2, 4, 2, 6)],
        tile=lambda level, row, col: tiny_integer_tile(3)("1", row, col)[:, :128],
    )
    slope = write_pyramid(
        directory,
        "SLOPE",
        tile_matrix_set=GRID,
        format="TIFF_ZIP_FLOAT32",
        channels=1,
        levels=[LevelPlan("1", 1, 2, 1, 3)],
        tile=lambda level, row, col: tiny_float_tile("1", row, col)[:, :128],
    )
    layers["SLOPE"] = layer_document(slope, tile_matrix_sets={"GRID": GRID})
    layers["VECTOR"] = layer_document(vector, title="VECTOR")
    layers["WORLD"] = layer_document(world, title=HOSTILE)
    layers["GRID"] = layer_document(
        grid,
        tile_matrix_sets={"GRID": GRID},
        attribution={"title": HOSTILE, "url": "javascript:document.title='hacked'"},
    )
    return write_installation(
        directory,
        layers=layers | dict(more or {}),
        tile_matrix_sets={"GRID": GRID, **(sets or {})},
        styles={"tint": TINT},
        services=services,
        public_url=url,
        services_overrides=merged(_SETTINGS, services_overrides or {}),
    )


def is_stored(row: int, col: int) -> bool:
    """Return whether a tile of level 4 of the layer VECTOR is stored."""
    return 5 <= row <= 6 and 9 <= col <= 10


def vector_tile(level: str, row: int, col: int) -> bytes | None:
    return tiny_vector_tile(level, row, col) if level == "3" or is_stored(row, col) else None
