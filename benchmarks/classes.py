"""The measured requests: classes of paths, chosen at random from an installation."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from benchmarks.servers import Missing
from mastaba.catalogue import Catalogue
from mastaba.config.load import load_catalogue
from mastaba.config.server import load_server
from mastaba.errors import ConfigurationError
from mastaba.plugins.manager import Plugins
from mastaba_documents.faults import Faults
from mastaba_storage.environment import Environment

CLASSES = ("kvp", "tms", "rest", "ogcapi", "not-modified", "capabilities", "wms-capabilities")
_ATTEMPTS = 20


class Tile(NamedTuple):
    """A stored tile, with its names in protocols."""

    layer: str
    style: str
    format: str
    set: str
    level: str
    row: int
    col: int
    ext: str


@dataclass(frozen=True)
class RequestClass:
    """Requests of one kind.

    Attributes:
        title: name in the table.
        paths: paths with query, percent-encoded.
        tiles: the requested tiles, if the paths request tiles.
        status: status of a correct response.
        conditional: whether requests send the ETag of the first response.
        layer: the requested layer; empty if the requests are not maps.
        media_type: prefix of the Content-Type of a correct response, because some servers report
            errors with status 200.
    """

    title: str
    paths: Sequence[str]
    tiles: Sequence[Tile] = field(default=())
    status: int = 200
    conditional: bool = False
    layer: str = ""
    media_type: str = ""


def from_file(file: Path) -> RequestClass:
    """Return the class of the paths in a file, one per line."""
    paths = [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
    paths = [path for path in paths if path and not path.startswith("#")]
    if not paths:
        raise Missing(f"{file} has no path in it")
    return RequestClass(file.name, paths)


def from_installation(
    server_json: Path, *, names: Sequence[str], media_type: str, count: int, seed: int
) -> list[RequestClass]:
    """Return the classes with these names, with tiles chosen at random.

    Raises:
        Missing: the installation has no tile of this media type.
    """
    catalogue = load(server_json)
    tiles = list(_tiles(catalogue, media_type, count, random.Random(seed)))
    if not tiles:
        raise Missing(f"{server_json} has no tile of the type {media_type}")
    roots = {name: settings.root_path for name, settings in catalogue.services.items()}
    return [_class(name, roots, tiles) for name in names if _service(name) in roots]


def load(server_json: Path) -> Catalogue:
    """Return the catalogue of an installation.

    Raises:
        Missing: it cannot be loaded.
    """
    plugins = Plugins()
    faults = Faults()
    try:
        server = load_server(str(server_json), plugins, faults)
        return load_catalogue(server, plugins, Environment(), faults)
    except ConfigurationError as error:
        raise Missing(str(error)) from None


def _service(name: str) -> str:
    if name == "wms-capabilities":
        return "wms"
    return name if name in ("tms", "ogcapi") else "wmts"


def _class(name: str, roots: dict[str, str], tiles: list[Tile]) -> RequestClass:
    root = roots[_service(name)]
    kvp = [f"{root}?{_kvp(tile)}" for tile in tiles]
    match name:
        case "kvp":
            return RequestClass("WMTS KVP", kvp, tiles)
        case "rest":
            paths = [f"{root}/1.0.0/{_rest(tile)}" for tile in tiles]
            return RequestClass("WMTS REST", paths, tiles)
        case "tms":
            return RequestClass("TMS", [f"{root}/1.0.0/{_tms(tile)}" for tile in tiles], tiles)
        case "ogcapi":
            return RequestClass("OGC API", [f"{root}/{_ogcapi(tile)}" for tile in tiles], tiles)
        case "not-modified":
            return RequestClass("WMTS KVP, 304", kvp, tiles, status=304, conditional=True)
        case "wms-capabilities":
            path = f"{root}?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetCapabilities"
            return RequestClass("WMS capabilities", [path])
        case _:
            path = f"{root}?SERVICE=WMTS&VERSION=1.0.0&REQUEST=GetCapabilities"
            return RequestClass("WMTS capabilities", [path])


def _kvp(tile: Tile) -> str:
    return (
        f"SERVICE=WMTS&VERSION=1.0.0&REQUEST=GetTile&LAYER={quote(tile.layer)}"
        f"&STYLE={quote(tile.style)}&FORMAT={quote(tile.format, safe='/;')}"
        f"&TILEMATRIXSET={quote(tile.set)}&TILEMATRIX={quote(tile.level)}"
        f"&TILEROW={tile.row}&TILECOL={tile.col}"
    )


def _rest(tile: Tile) -> str:
    names = "/".join(quote(text) for text in (tile.layer, tile.style, tile.set, tile.level))
    return f"{names}/{tile.row}/{tile.col}.{tile.ext}"


def _tms(tile: Tile) -> str:
    return f"{quote(tile.layer)}/{quote(tile.level)}/{tile.col}/{tile.row}.{tile.ext}"


def _ogcapi(tile: Tile) -> str:
    layer, tile_matrix_set, level = map(quote, (tile.layer, tile.set, tile.level))
    return f"collections/{layer}/map/tiles/{tile_matrix_set}/{level}/{tile.row}/{tile.col}"


def _tiles(
    catalogue: Catalogue, media_type: str, count: int, generator: random.Random
) -> Iterator[Tile]:
    """Yield stored tiles. Levels are weighted by the number of tiles in their limits."""
    levels = [
        (layer, level, reader)
        for layer in catalogue.layers.values()
        if layer.pyramid.format.media_type.lower() == media_type
        for level, reader in catalogue.readers[layer.id].items()
    ]
    if not levels:
        return
    limits = [reader.level.limits for _, _, reader in levels]
    weights = [
        (area.max_row - area.min_row + 1) * (area.max_col - area.min_col + 1) for area in limits
    ]
    attempts = _ATTEMPTS * count
    while count and attempts:
        attempts -= 1
        (layer, level, reader) = generator.choices(levels, weights)[0]
        area = reader.level.limits
        row = generator.randint(area.min_row, area.max_row)
        col = generator.randint(area.min_col, area.max_col)
        if reader.locate(row, col) is None:
            continue
        count -= 1
        yield Tile(
            layer.id,
            layer.styles[0].identifier if layer.styles else "",
            layer.pyramid.format.media_type,
            layer.pyramid.tile_matrix_set.id,
            level,
            row,
            col,
            layer.pyramid.format.extension,
        )
