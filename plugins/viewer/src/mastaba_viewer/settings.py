"""The settings of the viewer in services.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

SETTINGS: Final[Mapping[str, Any]] = {
    "basemap": {
        "type": "object",
        "description": "Tiles in Web Mercator, from any server, that may be shown below a layer.",
        "required": ["title", "url", "attribution"],
        "additionalProperties": False,
        "properties": {
            "title": {"type": "string", "minLength": 1},
            "url": {
                "description": "URL with {z}, {x} and {y}.",
                "type": "string",
                "pattern": "^https?://[^{]*(\\{[zxy]\\}[^{]*){3}$",
            },
            "attribution": {"type": "string"},
            "max_zoom": {"type": "integer", "minimum": 0, "maximum": 30},
        },
    },
    "start": {
        "type": "object",
        "description": "Where pages open, if their layer has something there.",
        "required": ["longitude", "latitude", "metres_per_pixel"],
        "additionalProperties": False,
        "properties": {
            "longitude": {"type": "number", "minimum": -180, "maximum": 180},
            "latitude": {"type": "number", "minimum": -90, "maximum": 90},
            "metres_per_pixel": {"type": "number", "exclusiveMinimum": 0},
        },
    },
    "places": {
        "type": "array",
        "description": "Places that can be searched by name.",
        "items": {
            "type": "object",
            "required": ["name", "longitude", "latitude"],
            "additionalProperties": False,
            "properties": {
                "name": {"type": "string", "minLength": 1},
                "longitude": {"type": "number", "minimum": -180, "maximum": 180},
                "latitude": {"type": "number", "minimum": -90, "maximum": 90},
            },
        },
    },
}
"""JSON Schema properties."""
