"""The configuration that publishes the demo world."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from mastaba_demo.archives import archive_layers
from mastaba_demo.campaigns import STACK, YEARS
from mastaba_demo.generation import PLACES
from mastaba_demo.kept import write_unless_edited
from mastaba_demo.settings import Settings
from mastaba_demo.versions import NAME
from mastaba_writer.documents import Document
from mastaba_writer.installation import installed_services, layer_document, write_installation

PYRAMIDS = "pyramids"
"""Name of the directory of the pyramids inside the installation directory."""

EXPORTS = "exports"
"""Name of the directory of downloads that are prepared, inside the installation directory."""

_LAYERS: Mapping[str, Mapping[str, Any]] = {
    "imagery": {
        "title": "Imagery",
        "abstract": "The world as seen from a satellite: JPEG tiles.",
        "keywords": ["imagery", "JPEG"],
        "styles": ["normal"],
        "resampling": "bicubic",
    },
    "topographic": {
        "title": "Topographic map",
        "abstract": "Elevation tints, contour lines and rivers: PNG tiles.",
        "keywords": ["map", "PNG"],
        "styles": ["normal"],
        "resampling": "bicubic",
    },
    "elevation": {
        "title": "Elevation",
        "abstract": "Metres above sea level as 32-bit floating-point numbers.",
        "keywords": ["elevation", "FLOAT32"],
        "styles": ["hypsometric", "terrainrgb", "normal"],
        "resampling": "linear",
        "get_feature_info": {"type": "PYRAMID"},
        "vertical": {"kind": "terrain", "source": "A fictional world"},
        "wcs": {"enabled": True},
    },
    "relief": {
        "title": "Relief shading",
        "abstract": "Light and shade to overlay on other layers: grey PNG tiles with a palette.",
        "keywords": ["relief", "PNG", "palette"],
        "styles": ["shading", "normal"],
        "resampling": "bicubic",
    },
    "features": {
        "title": "Coasts, contours, rivers, peaks and towns",
        "abstract": "Mapbox vector tiles.",
        "keywords": ["vector", "MVT"],
    },
}
_NEWEST = f"campaigns_{max(YEARS)}"
_CAMPAIGNS: Mapping[str, Any] = {
    "title": "Aerial campaigns",
    "abstract": "The same place in four years: request one with TIME=1950.",
    "keywords": ["imagery", "JPEG", "time"],
    "styles": ["normal"],
    "resampling": "bicubic",
    "dimensions": [{"name": "time", "nearest": True}],
    "get_feature_info": {"type": "PYRAMID"},
}
_MOSAIC: Mapping[str, Any] = {
    "title": "Mosaic with versions",
    "abstract": "Imagery that was published three times: its versions are at /history/mosaic.",
    "keywords": ["imagery", "JPEG", "versions"],
    "styles": ["normal"],
    "resampling": "bicubic",
}
_FLIGHTS: Mapping[str, Any] = {
    "title": f"Flights of {max(YEARS)}",
    "abstract": "Which flight each pixel of the newest campaign comes from: 1 spring, 2 summer.",
    "keywords": ["provenance", "FLOAT32"],
    "styles": ["flights", "normal"],
    "resampling": "nn",
    "get_feature_info": {"type": "PYRAMID"},
    "elevation": {"enabled": False},
    "terrain": {"enabled": False},
}
_ELEVATION: Mapping[str, Any] = {
    "facades": {
        "edr": True,
        "ign": {"default_resource": "elevation"},
        "swisstopo": {"dataset": "elevation"},
        "google": {"dataset": "elevation"},
        "tileserver": True,
    }
}
_OPENING = 95.0
"""Metres per pixel of the first view: mountains and a coast fill a screen."""
_FLAT = 160  # grey of flat ground in the relief layer
_FLIGHT_STOPS = ((0, 0, 0, 0, 0), (1, 66, 135, 245, 255), (2, 245, 158, 66, 255))
_HYPSOMETRIC_STOPS = (
    (-99999, 0, 0, 0, 0),
    (-9000, 8, 24, 58, 255),
    (-4000, 18, 58, 104, 255),
    (-1000, 46, 110, 150, 255),
    (-200, 96, 162, 184, 255),
    (-0.1, 168, 212, 216, 255),
    (0, 98, 150, 96, 255),
    (250, 154, 184, 116, 255),
    (700, 222, 214, 150, 255),
    (1500, 204, 168, 116, 255),
    (2500, 160, 124, 100, 255),
    (3400, 214, 208, 206, 255),
    (4500, 255, 255, 255, 255),
)


def write_demo_installation(
    directory: Path, public_url: str, kept: Callable[[Path], object] = lambda path: None
) -> Path:
    """Write the configuration that publishes the pyramids and return the path of server.json.

    Files that were edited since they were written stay as they are.

    Args:
        directory: directory of the installation, which already contains the pyramids.
        public_url: public URL of the server, without a trailing slash.
        kept: called with the path of each edited file.

    Raises:
        OSError: a file cannot be read or written.
    """
    edited = write_unless_edited(directory, lambda new: _write(directory, new, public_url))
    for path in edited:
        kept(path)
    return directory.resolve() / "server.json"


def _write(directory: Path, target: Path, public_url: str) -> None:
    """Write the files of the configuration of a directory into another one."""
    installed = entry_points(group="mastaba").names
    services = installed_services()
    overrides: dict[str, Any] = {"global": {"provider": "Mastaba demo", "cors": True}}
    switches: dict[str, Any] = {}
    if "ogcapi" in services:
        overrides["ogcapi"] = {"coverages": True}
        switches["coverages"] = True
    if "history" in installed:
        services.append("history")
    if "export" in installed:
        services.append("export")
        overrides["export"] = {
            "directory": str(directory.resolve() / EXPORTS),
            "workers": 1,
            "keep": 1,
        }
        switches["export"] = {"enabled": True}
    if "elevation" in services:
        overrides["elevation"] = _ELEVATION
    if "viewer" in services:
        places = (directory / PYRAMIDS / PLACES).read_text(encoding="utf-8")
        overrides["viewer"] = {"start": _start(Settings()), "places": json.loads(places)}
    layers = {
        name: layer_document(
            directory / PYRAMIDS / f"{name}.json",
            attribution={"title": "A fictional world", "url": f"{public_url}/viewer"},
            **switches,
            **fields,
        )
        for name, fields in _LAYERS.items()
    }
    layers["flights"] = layer_document(directory / PYRAMIDS / f"{_NEWEST}_sources.json", **_FLIGHTS)
    if "dimensions" in installed:
        layers["campaigns"] = layer_document(
            directory / PYRAMIDS / f"{_NEWEST}.json",
            variants={"stack": str(directory.resolve() / PYRAMIDS / STACK)},
            **switches,
            **_CAMPAIGNS,
        )
    if "history" in installed:
        layers[NAME] = layer_document(directory / PYRAMIDS / f"{NAME}.json", **switches, **_MOSAIC)
    layers |= archive_layers(directory, layers)
    write_installation(
        target,
        layers=layers,
        styles={
            "flights": _palette_style("flights", "Flights", _FLIGHT_STOPS),
            "hypsometric": _palette_style("hypsometric", "Elevation tints", _HYPSOMETRIC_STOPS),
            "shading": _shading(),
            "terrainrgb": {
                "identifier": "terrainrgb",
                "title": "Elevation encoded as colours",
                "terrainrgb": {"min_elevation": -10000, "step": 0.1},
            },
        },
        services=services,
        public_url=public_url,
        services_overrides=overrides,
    )


def _start(settings: Settings) -> Document:
    """Return where the viewer opens: the focus, around which all levels have tiles."""
    x, y = settings.focus
    latitude = math.degrees(math.atan(math.sinh(math.pi * (1 - 2 * y))))
    return {
        "longitude": round(360 * x - 180, 5),
        "latitude": round(latitude, 5),
        "metres_per_pixel": _OPENING,
    }


def _shading() -> Document:
    """Return a style in which shade darkens the layers below, and light brightens them.

    Flat ground is transparent.
    """
    stops = (
        (0, 14, 20, 48, 200),
        (_FLAT, 14, 20, 48, 0),
        (_FLAT + 0.001, 255, 250, 235, 0),
        (255, 255, 250, 235, 150),
    )
    return _palette_style("shading", "Light and shade", stops)


def _palette_style(
    identifier: str, title: str, stops: tuple[tuple[float, int, int, int, int], ...]
) -> Document:
    names = ("value", "red", "green", "blue", "alpha")
    return {
        "identifier": identifier,
        "title": title,
        "abstract": "",
        "keywords": [],
        "palette": {
            "no_alpha": False,
            "rgb_continuous": True,
            "alpha_continuous": True,
            "colours": [dict(zip(names, stop, strict=True)) for stop in stops],
        },
    }
