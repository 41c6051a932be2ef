"""A small installation with one layer per kind of pyramid and predictable pixels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from mastaba_writer.installation import SERVICES, layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, TileSource, write_pyramid
from mastaba_writer.tile_matrix_sets import web_mercator
from mastaba_writer.vector_tile_writer import Feature, encode_vector_tile

if TYPE_CHECKING:
    from mastaba_writer.tile_encoder import Pixels

__all__ = [
    "TINY_LEVELS",
    "TINY_TABLES",
    "tiny_float_tile",
    "tiny_installation",
    "tiny_integer_tile",
    "tiny_vector_tile",
]

TINY_LEVELS = (
    LevelPlan("2", 1, 1, 2, 2),
    LevelPlan("3", 2, 3, 4, 5),
    LevelPlan("4", 5, 6, 9, 10),
)
"""Levels of the tile matrix set PM; level 4 does not fill its slabs of two by two tiles."""

TINY_TABLES: Sequence[Mapping[str, Any]] = (
    {
        "name": "tiles",
        "geometry": "POLYGON",
        "attributes": [
            {"name": "row", "type": "Integer", "count": 5, "min": 1, "max": 6},
            {"name": "col", "type": "Integer", "count": 5, "min": 2, "max": 10},
        ],
    },
    {
        "name": "centres",
        "geometry": "POINT",
        "attributes": [{"name": "name", "type": "String", "count": 9}],
    },
)
"""Descriptions of the tables in vector tiles."""

_SIZE = 256


def tiny_integer_tile(channels: int) -> TileSource:
    """Return a source of uint8 tiles of 1 to 4 channels, 256 pixels square.

    Let i and j be the column and row of a pixel, counted from the origin of the level. Then red is
    ``i // 4 % 256``, green ``j // 4 % 256``, blue ``16 * level``, and alpha 255 if
    ``(i // 32 + j // 32)`` is even, otherwise 128. One channel is red; two are red and alpha.
    """

    def tile(level: str, row: int, col: int) -> Pixels:
        i, j = _pixel_indices(row, col)
        red, green = i // 4 % 256, j // 4 % 256
        alpha = np.where((i // 32 + j // 32) % 2 == 0, 255, 128)
        bands = {
            1: (red,),
            2: (red, alpha),
            3: (red, green, 16 * int(level)),
            4: (red, green, 16 * int(level), alpha),
        }[channels]
        shape = (_SIZE, _SIZE)
        return np.stack([np.broadcast_to(b, shape) for b in bands], axis=-1).astype(np.uint8)

    return tile


def tiny_float_tile(level: str, row: int, col: int) -> Pixels:
    """Return a float32 tile: ``1000 * level + i / 2 + j / 4``, with i and j as in integer tiles."""
    i, j = _pixel_indices(row, col)
    return (1000 * int(level) + i / 2 + j / 4).astype(np.float32)


def tiny_vector_tile(level: str, row: int, col: int) -> bytes:
    """Return a vector tile with its outline, shrunk by a sixteenth, and a point in the middle.

    The polygon in the table `tiles` has the attributes `row` and `col`. The point in the table
    `centres` has the attribute `name` with the value ``level/row/col``.
    """
    ring = [(256, 256), (3840, 256), (3840, 3840), (256, 3840)]
    outline = Feature("POLYGON", [ring], {"row": row, "col": col})
    centre = Feature("POINT", [[(2048, 2048)]], {"name": f"{level}/{row}/{col}"})
    return encode_vector_tile({"tiles": [outline], "centres": [centre]})


_PYRAMIDS: Mapping[str, tuple[str, int, TileSource]] = {
    "RGB_JPG": ("TIFF_JPG_UINT8", 3, tiny_integer_tile(3)),
    "RGB_PNG": ("TIFF_PNG_UINT8", 3, tiny_integer_tile(3)),
    "RGBA_PNG": ("TIFF_PNG_UINT8", 4, tiny_integer_tile(4)),
    "RGB_RAW": ("TIFF_RAW_UINT8", 3, tiny_integer_tile(3)),
    "GREY_PNG": ("TIFF_PNG_UINT8", 1, tiny_integer_tile(1)),
    "GREYA_ZIP": ("TIFF_ZIP_UINT8", 2, tiny_integer_tile(2)),
    "FLOAT32_ZIP": ("TIFF_ZIP_FLOAT32", 1, tiny_float_tile),
    "FLOAT32_RAW": ("TIFF_RAW_FLOAT32", 1, tiny_float_tile),
    "VECTOR": ("TIFF_PBF_MVT", 0, tiny_vector_tile),
}


@cache
def _pyramid_files() -> Mapping[str, bytes]:
    """Return the files of all pyramids, by path. Encoded once, for the many tests of a process."""
    with TemporaryDirectory() as name:
        directory = Path(name)
        for pyramid, (format, channels, tile) in _PYRAMIDS.items():
            write_pyramid(
                directory,
                pyramid,
                tile_matrix_set=web_mercator(),
                format=format,
                channels=channels,
                levels=TINY_LEVELS,
                tile=tile,
                tables=TINY_TABLES,
            )
        files = (path for path in directory.rglob("*") if path.is_file())
        return {f"pyramids/{path.relative_to(directory)}": path.read_bytes() for path in files}


@cache
def _folders() -> Sequence[Path]:
    """Return the folders of all pyramids, each after those that contain it."""
    folders = {folder for path in _pyramid_files() for folder in Path(path).parents}
    return sorted(folders - {Path()})


def tiny_installation(
    directory: Path,
    *,
    slabs_of: Path | None = None,
    services: Sequence[str] = SERVICES,
    public_url: str = "http://localhost",
    services_overrides: Mapping[str, Any] | None = None,
    server_overrides: Mapping[str, Any] | None = None,
) -> Path:
    """Write an installation with nine layers and return the path of its server.json.

    The layers are RGB_JPG, RGB_PNG, RGBA_PNG, RGB_RAW, GREY_PNG (styles normal and ember),
    GREYA_ZIP, FLOAT32_ZIP, FLOAT32_RAW and VECTOR, all with the levels `TINY_LEVELS` of the tile
    matrix set PM.

    Args:
        directory: directory of the files; created if absent.
        slabs_of: directory of another tiny installation, whose slabs this one shares by symbolic
            links, so no test may change them; None to write slabs, which takes most of the time.
        services, public_url, services_overrides, server_overrides: as in `write_installation`.
    """
    directory.mkdir(parents=True, exist_ok=True)
    if slabs_of is None:
        for folder in _folders():
            (directory / folder).mkdir(exist_ok=True)
        for path, data in _pyramid_files().items():
            (directory / path).write_bytes(data)
    else:
        _share_slabs(directory / "pyramids", slabs_of.resolve() / "pyramids")
    layers: dict[str, Mapping[str, Any]] = {}
    for name in _PYRAMIDS:
        fields: dict[str, Any] = {"styles": ["normal", "ember"]} if name == "GREY_PNG" else {}
        layers[name] = layer_document(directory / "pyramids" / f"{name}.json", **fields)
    return write_installation(
        directory,
        layers=layers,
        services=services,
        public_url=public_url,
        services_overrides=services_overrides or {},
        server_overrides=server_overrides or {},
    )


def _share_slabs(pyramids: Path, others: Path) -> None:
    """Write the descriptors of all pyramids, and link their slabs."""
    pyramids.mkdir(exist_ok=True)
    for name in _PYRAMIDS:
        descriptor = f"{name}.json"
        (pyramids / descriptor).write_bytes((others / descriptor).read_bytes())
        if not (pyramids / name).exists():
            (pyramids / name).symlink_to(others / name)


def _pixel_indices(row: int, col: int) -> tuple[Pixels, Pixels]:
    """Return the columns, shape (1, 256), and the rows, shape (256, 1), of a tile's pixels."""
    along = np.arange(_SIZE)
    return (col * _SIZE + along)[np.newaxis, :], (row * _SIZE + along)[:, np.newaxis]
