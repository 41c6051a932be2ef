"""Settings of the service in services.json (elevation.md 0)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from mastaba_elevation.queries.queries import Limits
from mastaba_elevation.queries.taps import METHODS

HEIGHT_RANGE: Final[Mapping[str, Any]] = {
    "type": "array",
    "items": {"type": "number"},
    "minItems": 2,
    "maxItems": 2,
    "description": "Lowest and highest height. Values outside count as nodata.",
}
_INTERPOLATION: Final[Mapping[str, Any]] = {
    "enum": list(METHODS),
    "description": "Default method of interpolation.",
}
_TEXT: Final[Mapping[str, Any]] = {"type": "string", "minLength": 1}


def limit(default: int, description: str) -> dict[str, Any]:
    """Return the schema of a limit, an integer of 1 or more."""
    return {"type": "integer", "minimum": 1, "default": default, "description": description}


def _facade(description: str, **properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": ["boolean", "object"],
        "description": description,
        "additionalProperties": False,
        "properties": properties,
    }


def _dataset(description: str) -> dict[str, Any]:
    return {**_TEXT, "description": description}


SETTINGS_SCHEMA: Final[Mapping[str, Any]] = {
    "datasets": {
        "type": "array",
        "description": "Named stacks of layers. Every single layer is a dataset too.",
        "items": {
            "type": "object",
            "additionalProperties": False,
            "required": ["id", "layers"],
            "properties": {
                "id": {
                    "type": "string",
                    "pattern": "^[A-Za-z0-9_.-]+$",
                    "description": "Identifier: letters, digits and . _ -",
                },
                "title": {**_TEXT, "description": "Title for human readers."},
                "layers": {
                    "type": "array",
                    "items": _TEXT,
                    "minItems": 1,
                    "description": "Layers in order of preference, the finest first.",
                },
                "interpolation": {**_INTERPOLATION, "default": "bilinear"},
                "unit": {
                    **_TEXT,
                    "description": "Unit of heights; by default of the first layer.",
                },
                "nodata_height": {
                    "type": "number",
                    "default": 0,
                    "description": "Height of holes in formats that know no nodata. "
                    "Queries never return it.",
                },
                "valid_range": HEIGHT_RANGE,
            },
        },
    },
    "facades": {
        "type": "object",
        "default": {},
        "description": "Protocols besides the native one: false, true, or settings.",
        "additionalProperties": False,
        "properties": {
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
                default_resource=_dataset("Dataset of requests that name none."),
                aliases={
                    "type": "object",
                    "additionalProperties": _TEXT,
                    "description": "Datasets by other names, such as ign_rge_alti_wld.",
                },
            ),
            "swisstopo": _facade(
                "Height and profile services of swisstopo.",
                dataset=_dataset("Dataset that is queried. The default is the only one."),
                crs={
                    "type": "array",
                    "items": {"type": "integer"},
                    "minItems": 1,
                    "description": "EPSG numbers of the accepted CRSs, in the order of guessing.",
                },
                alts={
                    "type": "array",
                    "items": _TEXT,
                    "minItems": 1,
                    "description": "Names of the height in profiles.",
                },
                interpolation=_INTERPOLATION,
            ),
            "google": _facade(
                "Elevation API of Google and Open Topo Data.",
                dataset=_dataset("Dataset of the paths without one. The default is the only one."),
            ),
            "tileserver": _facade("Elevation of tileserver-gl."),
        },
    },
    "limits": {
        "type": "object",
        "default": {},
        "description": "Limits of one query, checked before anything is read.",
        "additionalProperties": False,
        "properties": {
            "points": limit(5000, "Points of a query, and vertices of a line."),
            "tiles": limit(1024, "Tiles read for a query."),
            "bytes": limit(256 * 1024**2, "Bytes of these tiles, decoded."),
            "pixels": limit(4_000_000, "Pixels of an area."),
        },
    },
    "decimals": {
        "type": "integer",
        "minimum": -1,
        "maximum": 10,
        "default": 2,
        "description": "Decimal places of heights where the protocol sets none; "
        "-1 for as many as the stored number has.",
    },
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
        limits = own.get("limits", {})
        defaults = Limits()
        return cls(
            facades=active,
            limits=Limits(
                limits.get("points", defaults.points),
                limits.get("tiles", defaults.tiles),
                limits.get("bytes", defaults.size),
                limits.get("pixels", defaults.pixels),
            ),
            decimals=own.get("decimals", 2),
        )
