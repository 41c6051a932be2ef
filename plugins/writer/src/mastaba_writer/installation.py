"""Writing of complete installations: server.json and all files that it refers to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from mastaba_writer.documents import merged, write_document
from mastaba_writer.tile_matrix_sets import geographic, web_mercator

if TYPE_CHECKING:
    from mastaba_writer.documents import Document

__all__ = [
    "EMBER_STYLE",
    "NORMAL_STYLE",
    "SERVICES",
    "installed_services",
    "layer_document",
    "write_installation",
]

NORMAL_STYLE: Mapping[str, Any] = MappingProxyType(
    {"identifier": "normal", "title": "Stored data", "abstract": "", "keywords": []}
)
"""Document of the style ``normal``, which shows the stored values."""
EMBER_STYLE: Mapping[str, Any] = MappingProxyType(
    {
        "identifier": "ember",
        "title": "Dark red to transparent yellow",
        "abstract": "A palette for grey images",
        "keywords": ["palette"],
        "palette": {
            "no_alpha": False,
            "rgb_continuous": True,
            "alpha_continuous": True,
            "colours": [
                {"value": 0, "red": 96, "green": 0, "blue": 16, "alpha": 255},
                {"value": 128, "red": 224, "green": 80, "blue": 0, "alpha": 192},
                {"value": 255, "red": 255, "green": 240, "blue": 128, "alpha": 0},
            ],
        },
    }
)
"""Document of the style ``ember``, a palette for grey images."""
SERVICES = ("health", "wms", "wmts", "tms", "ogcapi")
"""Services that an installation enables by default."""
_NOTHING: Mapping[str, Any] = MappingProxyType({})


_PLUGINS: Final = {"terrain": "elevation", "stylesheets": "styles"}
"""Plugins of the services that do not have their name."""
_ROOT_PATHS: Final = {"health": "/healthcheck", "stylesheets": "/styles"}
"""Root paths of the services that are not their name."""


def installed_services() -> list[str]:
    """Return the services of an installation for one person: those that are installed here."""
    names = entry_points(group="mastaba").names
    found = [*SERVICES[1:], "wcs", "elevation", "terrain", "provenance", "stylesheets", "viewer"]
    return ["health", *(name for name in found if _PLUGINS.get(name, name) in names)]


def write_installation(
    directory: Path,
    *,
    layers: Mapping[str, Path | Mapping[str, Any]],
    tile_matrix_sets: Mapping[str, Mapping[str, Any]] = _NOTHING,
    styles: Mapping[str, Mapping[str, Any]] = _NOTHING,
    services: Sequence[str] = SERVICES,
    public_url: str = "http://localhost",
    services_overrides: Mapping[str, Any] = _NOTHING,
    server_overrides: Mapping[str, Any] = _NOTHING,
) -> Path:
    """Write an installation and return the path of its server.json.

    All paths in the files are absolute, so the server can be started in any directory.

    Args:
        directory: directory of the files; created if absent.
        layers: by layer identifier, a layer document or the path of a pyramid descriptor (all its
            levels are then published with the defaults of `layer_document`).
        tile_matrix_sets: documents by file stem, in addition to PM and 4326.
        styles: documents by file stem, in addition to `normal` and `ember`.
        services: keys of the services to enable; other services are not in services.json.
        public_url: common start of the public URLs of the services.
        services_overrides: merged recursively into services.json.
        server_overrides: merged recursively into server.json.

    Raises:
        ValueError: the tile matrix set of a pyramid, or one of its levels, is unknown.
    """
    directory = directory.resolve()
    sets = {"PM": web_mercator(), "4326": geographic(), **tile_matrix_sets}
    for stem, document in sets.items():
        write_document(directory / "tilematrixsets" / f"{stem}.json", document)
    for stem, document in {"normal": NORMAL_STYLE, "ember": EMBER_STYLE, **styles}.items():
        write_document(directory / "styles" / f"{stem}.json", document)

    listed: list[str] = []
    for identifier, layer in layers.items():
        if not isinstance(layer, Mapping):
            layer = layer_document(layer, title=identifier, tile_matrix_sets=sets)
        path = write_document(directory / "layers" / f"{identifier}.json", layer)
        listed.append(f"{path}\n")
    (directory / "layers.txt").write_text("".join(listed), encoding="utf-8")

    services_document = merged(_services(services, public_url), services_overrides)
    write_document(directory / "services.json", services_document)
    return write_document(directory / "server.json", merged(_server(directory), server_overrides))


def layer_document(
    descriptor: Path,
    *,
    tile_matrix_sets: Mapping[str, Mapping[str, Any]] = _NOTHING,
    **fields: Any,
) -> Document:
    """Return a layer document that publishes all levels of a pyramid in files.

    Args:
        descriptor: path of the pyramid descriptor, which must exist.
        tile_matrix_sets, fields: as in `layer_of`.

    Raises:
        ValueError: as in `layer_of`.
    """
    pyramid = json.loads(descriptor.read_text(encoding="utf-8"))
    path = str(descriptor.resolve())
    return layer_of(path, pyramid, tile_matrix_sets=tile_matrix_sets, **fields)


def layer_of(
    path: str,
    pyramid: Mapping[str, Any],
    *,
    tile_matrix_sets: Mapping[str, Mapping[str, Any]] = _NOTHING,
    **fields: Any,
) -> Document:
    """Return a layer document that publishes all levels of one pyramid.

    Args:
        path: path of the pyramid descriptor, as in layers: a file, or ``s3://bucket/name.json``.
        pyramid: the pyramid descriptor.
        tile_matrix_sets: documents by identifier, if the pyramid uses neither PM nor 4326.
        fields: further fields of the layer document, such as `styles`; they override the defaults
            (title: name of the pyramid; abstract: empty).

    Raises:
        ValueError: the tile matrix set, or one of the levels, is unknown.
    """
    sets = {"PM": web_mercator(), "4326": geographic(), **tile_matrix_sets}
    if pyramid["tile_matrix_set"] not in sets:
        raise ValueError(f"unknown tile matrix set {pyramid['tile_matrix_set']!r}")
    matrices = sets[pyramid["tile_matrix_set"]]["tileMatrices"]
    cell_sizes = {matrix["id"]: matrix["cellSize"] for matrix in matrices}
    levels = [level["id"] for level in pyramid["levels"]]
    unknown = [level for level in levels if level not in cell_sizes]
    if unknown:
        raise ValueError(f"levels {unknown} are not in {pyramid['tile_matrix_set']}")
    return {
        "title": path.rpartition("/")[2].removesuffix(".json"),
        "abstract": "",
        "pyramids": [
            {
                "path": path,
                "bottom_level": min(levels, key=lambda level: cell_sizes[level]),
                "top_level": max(levels, key=lambda level: cell_sizes[level]),
            }
        ],
        **fields,
    }


def _services(names: Sequence[str], public_url: str) -> Document:
    document: Document = {
        "enabled": True,
        "global": {"provider": "Mastaba", "fee": "none", "access_constraint": "none"},
    }
    for name in names:
        root_path = _ROOT_PATHS.get(name, f"/{name}")
        document[name] = {
            "enabled": True,
            "endpoint_uri": public_url + root_path,
            "root_path": root_path,
        }
    return document


def _server(directory: Path) -> Document:
    return {
        "port": "127.0.0.1:9000",
        "logger": {"output": "standard_output", "level": "warn"},
        "configurations": {
            "services": str(directory / "services.json"),
            "layers": str(directory / "layers.txt"),
            "styles": str(directory / "styles"),
            "tile_matrix_sets": str(directory / "tilematrixsets"),
        },
    }
