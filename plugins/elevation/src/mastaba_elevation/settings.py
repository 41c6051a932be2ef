"""Settings of the service in services.json (elevation.md 0)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mastaba_elevation.queries.queries import Limits
from mastaba_elevation.queries.taps import METHODS

Schema = Mapping[str, Any]


def described(schema: Schema, description: str, **more: Any) -> Schema:
    """Return a schema with a description and further keywords."""
    return {**schema, **more, "description": description}


def limit(default: int, description: str) -> Schema:
    """Return the schema of a limit, an integer of 1 or more."""
    return {"type": "integer", "minimum": 1, "default": default, "description": description}


def choice(values: Iterable[str | int], description: str, **more: Any) -> Schema:
    """Return the schema of one of some values."""
    return {"enum": list(values), **more, "description": description}


def number(low: float, high: float, default: float, description: str) -> Schema:
    """Return the schema of a number, of an integer if the default is one."""
    kind = "integer" if isinstance(default, int) else "number"
    limits = {"minimum": low, "maximum": high, "default": default}
    return {"type": kind, **limits, "description": description}


def members(description: str, properties: Mapping[str, Schema], **more: Any) -> Schema:
    """Return the schema of an object with no other members; empty by default."""
    rest = {"default": {}, "additionalProperties": False, "properties": properties}
    return {"type": "object", **rest, **more, "description": description}


HEIGHT_RANGE: Final[Schema] = {
    "type": "array",
    "items": {"type": "number"},
    "minItems": 2,
    "maxItems": 2,
    "description": "Lowest and highest height. Values outside count as nodata.",
}
_INTERPOLATION: Final = choice(METHODS, "Default method of interpolation.")
TEXT: Final[Schema] = {"type": "string", "minLength": 1}


def _facade(description: str, **properties: Schema) -> Schema:
    schema = {"type": ["boolean", "object"], "description": description}
    return {**schema, "additionalProperties": False, "properties": properties}


_ID: Final[Schema] = {"type": "string", "pattern": "^[A-Za-z0-9_.-]+$"}
_LIST: Final[Schema] = {"type": "array", "items": TEXT, "minItems": 1}
_DATASET: Final[Schema] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["id", "layers"],
    "properties": {
        "id": described(_ID, "Identifier: letters, digits and . _ -"),
        "title": described(TEXT, "Title for human readers."),
        "layers": described(_LIST, "Layers in order of preference, the finest first."),
        "interpolation": {**_INTERPOLATION, "default": "bilinear"},
        "unit": described(TEXT, "Unit of heights; by default of the first layer."),
        "nodata_height": {
            "type": "number",
            "default": 0,
            "description": "Height of holes in formats that know no nodata. "
            "Queries never return it.",
        },
        "valid_range": HEIGHT_RANGE,
    },
}

SETTINGS_SCHEMA: Final[Schema] = {
    "datasets": {
        "type": "array",
        "description": "Named stacks of layers. Every single layer is a dataset too.",
        "items": _DATASET,
    },
    "facades": members(
        "Protocols besides the native one: false, true, or settings.",
        {
            "edr": _facade(
                "OGC API Environmental Data Retrieval at /edr; on by default.",
                temporal={
                    "type": "boolean",
                    "default": True,
                    "description": "Whether collections have a temporal extent.",
                },
            ),
            "ign": _facade(
                "Altimetry service of IGN.",
                default_resource=described(TEXT, "Dataset of requests that name none."),
                aliases={
                    "type": "object",
                    "additionalProperties": TEXT,
                    "description": "Datasets by other names, such as ign_rge_alti_wld.",
                },
            ),
            "swisstopo": _facade(
                "Height and profile services of swisstopo.",
                dataset=described(TEXT, "Dataset that is queried. The default is the only one."),
                crs=described(
                    _LIST,
                    "EPSG numbers of the accepted CRSs, in the order of guessing.",
                    items={"type": "integer"},
                ),
                alts=described(_LIST, "Names of the height in profiles."),
                interpolation=_INTERPOLATION,
            ),
            "google": _facade(
                "Elevation API of Google and Open Topo Data.",
                dataset=described(
                    TEXT, "Dataset of the paths without one. The default is the only one."
                ),
            ),
            "tileserver": _facade("Elevation of tileserver-gl."),
        },
    ),
    "limits": members(
        "Limits of one query, checked before anything is read.",
        {
            "points": limit(5000, "Points of a query, and vertices of a line."),
            "tiles": limit(1024, "Tiles read for a query."),
            "bytes": limit(256 * 1024**2, "Bytes of these tiles, decoded."),
            "pixels": limit(4_000_000, "Pixels of an area."),
        },
    ),
    "decimals": number(
        *(-1, 10, 2),
        "Decimal places of heights where the protocol sets none; "
        "-1 for as many as the stored number has.",
    ),
    "valid_range": {**HEIGHT_RANGE, "default": [-12000, 9000]},
}

FACADES: Final = ("edr", "ign", "swisstopo", "google", "tileserver")


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of the section that are not those of datasets.

    Attributes:
        facades: settings of each active one by name.
        decimals: of heights; -1 for as many as the stored number has.
    """

    facades: Mapping[str, Mapping[str, Any]]
    limits: Limits
    decimals: int

    @classmethod
    def of(cls, own: Mapping[str, Any]) -> Settings:
        """Return the settings of a section of services.json, which is validated."""
        given = own.get("facades", {})
        active = {}
        for name in FACADES:
            value = given.get(name, name == "edr")
            if value is not False:
                active[name] = {} if value is True else value
        limits = {**own.get("limits", {})}
        if "bytes" in limits:
            limits["size"] = limits.pop("bytes")
        return cls(active, Limits(**limits), own.get("decimals", 2))
