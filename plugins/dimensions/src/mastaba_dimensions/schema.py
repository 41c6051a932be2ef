"""JSON schemas of the keys of layer descriptors (time.md section 1.1)."""

from __future__ import annotations

from typing import Any, Final

_PYRAMIDS: Final = {
    "type": "array",
    "description": "Level ranges of the variant; the levels may be left out.",
    "minItems": 1,
    "items": {
        "type": "object",
        "additionalProperties": False,
        "required": ["path"],
        "properties": {
            "path": {"type": "string", "minLength": 1},
            "container": {"type": "string", "minLength": 1},
            "options": {"type": "object"},
            "bottom_level": {"type": "string"},
            "top_level": {"type": "string"},
        },
    },
}
_ATTRIBUTION: Final = {
    "type": "object",
    "description": "Source of the data of this variant.",
    "additionalProperties": False,
    "required": ["title", "url"],
    "properties": {"title": {"type": "string"}, "url": {"type": "string"}},
}
_AT: Final = {
    "type": "object",
    "description": "One value of each dimension, by name.",
    "minProperties": 1,
    "additionalProperties": {"type": ["string", "number"]},
}

_FOUND: Final = {
    "additionalProperties": False,
    "properties": {
        "stack": {"type": "string", "description": "Path of a stack document.", "minLength": 1},
        "template": {
            "type": "string",
            "description": "Path of pyramid descriptors, with {name} for each dimension in the "
            "file name.",
            "minLength": 1,
        },
        "watch": {
            "type": "number",
            "description": "Seconds between two looks for new, replaced and removed variants "
            "(default: none).",
            "minimum": 1,
        },
    },
}
_NAMES: Final = {
    "additionalProperties": False,
    "required": ["template"],
    "properties": {
        "template": {"type": "string"},
        "listed": {
            "type": "boolean",
            "description": "Whether capabilities list these names.",
        },
    },
}

_DIMENSION: Final = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name"],
    "properties": {
        "name": {
            "type": "string",
            "description": "time, elevation, or another name in lower case.",
            "pattern": "^[a-z][a-z0-9_]{0,31}$",
        },
        "kind": {
            "enum": ["time", "number", "text"],
            "description": "What the values are. By default, time for time and reference_time, "
            "number for elevation, text for others.",
        },
        "units": {"type": "string", "description": "Unit of the values; ISO8601 for times."},
        "unit_symbol": {"type": "string", "description": "Symbol of the unit, such as m."},
        "default": {
            "type": ["string", "number"],
            "description": "Value of requests without one: latest, earliest, current, now, none, "
            "or a value.",
        },
        "nearest": {
            "type": "boolean",
            "description": "Whether the nearest value answers for one that does not exist.",
        },
        "tolerance": {
            "type": ["string", "number"],
            "description": "How far a nearest value may be: an ISO 8601 duration, or a number.",
        },
        "fallback": {
            "enum": ["previous"],
            "description": "For times: a tile that a value does not have, at a level that it "
            "has, is that of the newest older value that has it, of the 15 before.",
        },
        "multiple": {
            "type": "boolean",
            "description": "Whether a map may show several values, the newest on top. True for "
            "raster layers by default.",
        },
        "of": {
            "enum": ["variants", "pixels"],
            "description": "What the values are of: pyramids, or pixels of a float layer.",
        },
        "values": {
            "type": "string",
            "description": "Lowest and highest value and step of pixels, as in 0/425/1.",
        },
    },
}

LAYER_SCHEMA: Final[dict[str, Any]] = {
    "dimensions": {
        "type": "array",
        "description": "Dimensions of the layer, such as time; needs mastaba-dimensions.",
        "minItems": 1,
        "maxItems": 4,
        "items": _DIMENSION,
    },
    "variants": {
        "type": ["array", "object"],
        "description": "Pyramids of the values: a list, a stack document, or a template of file "
        "names.",
        "maxItems": 100_000,
        "items": {
            "type": "object",
            "additionalProperties": False,
            "required": ["at", "pyramids"],
            "properties": {
                "at": _AT,
                "pyramids": _PYRAMIDS,
                "title": {"type": "string"},
                "attribution": _ATTRIBUTION,
                "final": {
                    "type": "boolean",
                    "description": "Whether it will not change; caches may then keep it for long.",
                },
                "cache_control": {"type": "string"},
                "provenance": {
                    "description": "Table of the sources of its pixels, as of a layer.",
                    "anyOf": [{"type": "string", "minLength": 1}, {"const": False}],
                },
            },
        },
        "if": {"type": "object"},
        "then": _FOUND,
    },
    "names": {
        "type": ["string", "object"],
        "description": "Further layer name of each variant, as in ORTHO_{time}.",
        "if": {"type": "object"},
        "then": _NAMES,
    },
}
