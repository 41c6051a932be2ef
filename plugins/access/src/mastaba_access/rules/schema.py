"""The JSON Schema of the file of rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_NAME: Final = {"type": "string", "pattern": "^[^\\s:][^:]*$", "maxLength": 64}

_SELECTORS: Final = {
    "type": "array",
    "minItems": 1,
    "items": {
        "type": ["string", "array"],
        "minLength": 1,
        "minItems": 1,
        "items": {"type": "string", "minLength": 1},
        "description": "A selector, or a list of selectors that must all match.",
    },
    "description": "Selectors such as anonymous, key:ID, group:NAME, [known, address:10.0.0.0/8].",
}


def _words(description: str) -> dict[str, Any]:
    items = {"type": "string", "minLength": 1}
    return {"type": "array", "minItems": 1, "items": items, "description": description}


def _range(description: str) -> dict[str, Any]:
    return {
        "type": "array",
        "minItems": 2,
        "maxItems": 2,
        "items": {"type": "number", "minimum": 0, "description": "A number of 0 or more."},
        "description": description,
    }


def _number(description: str) -> dict[str, Any]:
    return {"type": "integer", "minimum": 1, "description": description}


def _limits(description: str, **further: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "description": description,
        "properties": {
            "area": {**_NAME, "description": "Name of one of `areas`: nothing outside is shown."},
            "cut": {
                "enum": ["mask", "drop", "keep"],
                "description": "What happens to tiles that the edge of the area cuts.",
            },
            "resolution": _range("Least and greatest size of a pixel in metres."),
            "scale": _range("Least and greatest scale denominator, with pixels of 0.28 mm."),
            "pixels": _number("Pixels of a map."),
            "width": _number("Columns of a map."),
            "height": _number("Rows of a map."),
            "layers": _number("Layers of a map."),
            "formats": _words("Media types of maps and tiles."),
            "time": {
                "type": "array",
                "description": "First and last time of layers with times, both included, in any "
                "precision; empty for no limit. Other values do not exist.",
                "items": {"type": ["string", "integer"]},
                "minItems": 2,
                "maxItems": 2,
            },
            "points": _number("Points of a query of heights."),
            "tiles": _number("Tiles that a query of heights reads."),
            **further,
        },
    }


_WHAT: Final = {
    "services": _words("Services: wmts, wmts@VIRTUAL, or @VIRTUAL for all of one."),
    "layers": _words("Layers: identifiers, patterns such as PLAN_*, keyword:WORD, dataset:ID."),
    "styles": _words("Styles, which then do not exist. Only in rules that deny."),
    "abilities": _words("Abilities of services, such as tiles, maps, info, legend, heights."),
}

_RULE: Final = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name"],
    "description": "A rule.",
    "properties": {
        "name": {**_NAME, "description": "Name, which no other rule has."},
        "who": {**_SELECTORS, "description": "To whom it applies; by default everybody."},
        "what": {
            "type": "object",
            "additionalProperties": False,
            "description": "To what it applies; by default everything.",
            "properties": _WHAT,
        },
        "from": {"type": "string", "description": "Start, as 2026-11-01T00:00:00Z."},
        "until": {"type": "string", "description": "End, as 2026-12-01T00:00:00+01:00."},
        "hours": {"type": "string", "description": "Hours, as Mo-Fr 08:00-18:00 Europe/Paris."},
        "allow": _limits(
            "Allows, with these limits and those of rules above.",
            cache={
                "enum": ["private", "shared"],
                "description": "Whether shared caches may keep what this rule opens.",
            },
        ),
        "deny": {
            "type": "object",
            "additionalProperties": False,
            "description": "Denies: hidden layers are unknown, locked ones are described.",
            "properties": {
                "as": {"enum": ["hide", "lock"], "description": "hide (the default) or lock."}
            },
        },
        "limit": _limits("Limits what a rule below it, or the default, allows."),
    },
}

_RATE: Final = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name", "per"],
    "description": "How much the clients that it matches may request.",
    "properties": {
        "name": {**_NAME, "description": "Name, which no other rate has."},
        "who": {**_SELECTORS, "description": "To whom it applies; by default everybody."},
        "what": {
            "type": "object",
            "additionalProperties": False,
            "description": "To what it applies; by default everything.",
            "properties": {name: _WHAT[name] for name in ("services", "layers", "abilities")},
        },
        "per": {
            "enum": ["key", "user", "address", "rule"],
            "description": "Who shares it: key, user, address, or rule for all together.",
        },
        "rate": {
            "type": "number",
            "exclusiveMinimum": 0,
            "maximum": 1e9,
            "description": "Cost per second, above 0.",
        },
        "burst": {
            "type": "number",
            "minimum": 1,
            "maximum": 1e9,
            "description": "Cost at once; by default that of ten seconds.",
        },
        "quota": {
            "type": "object",
            "additionalProperties": False,
            "minProperties": 1,
            "description": "Cost in a day or a month, UTC: {day: 100000}.",
            "properties": {
                "day": {**_number("Cost in a day, UTC."), "maximum": 10**15},
                "month": {**_number("Cost in a month, UTC."), "maximum": 10**15},
            },
        },
    },
}

ACCESS_SCHEMA: Final[Mapping[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Rules of mastaba-access: who may see what",
    "type": "object",
    "additionalProperties": False,
    "required": ["default"],
    "properties": {
        "default": {
            "enum": ["allow", "deny"],
            "description": "What happens to what no rule matches.",
        },
        "areas": {
            "type": "object",
            "description": "Areas by name.",
            "additionalProperties": {
                "type": "object",
                "additionalProperties": False,
                "description": "The path of a GeoJSON file, or WKT and its CRS.",
                "properties": {
                    "path": {
                        "type": "string",
                        "minLength": 1,
                        "description": "GeoJSON file; relative to the file of rules.",
                    },
                    "wkt": {
                        "type": "string",
                        "minLength": 1,
                        "description": "POLYGON or MULTIPOLYGON.",
                    },
                    "crs": {
                        "type": "string",
                        "minLength": 1,
                        "description": "CRS of the WKT, such as EPSG:2154.",
                    },
                },
            },
        },
        "groups": {
            "type": "object",
            "description": "Groups by name: lists of selectors.",
            "additionalProperties": _SELECTORS,
        },
        "rules": {"type": "array", "description": "Rules; the order counts.", "items": _RULE},
        "rates": {"type": "array", "description": "Rates; all that match hold.", "items": _RATE},
    },
}
"""Every member has a description, which is the remedy in messages."""
