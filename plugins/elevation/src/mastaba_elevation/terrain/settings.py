"""Settings of the service ``terrain`` in services.json (elevation.md 0 and 4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from mastaba_elevation.settings import HEIGHT_RANGE, limit
from mastaba_elevation.settings import SETTINGS_SCHEMA as QUERIES_SCHEMA
from mastaba_elevation.terrain.contours.intervals import DEFAULT, UNITS

PRECISIONS: Final = ("full", "auto")
FILLS: Final = ("none", "edge")
MISSING: Final = (200, 404)
SIZES: Final = (33, 65, 129)

_NAME: Final[Mapping[str, Any]] = {"type": "string", "minLength": 1, "maxLength": 100}

_SHARED: Final = ("datasets", "valid_range")
"""Keys whose default is their value in the section ``elevation``."""

SETTINGS_SCHEMA: Final[Mapping[str, Any]] = {
    "datasets": {
        **QUERIES_SCHEMA["datasets"],
        "description": "Named stacks of layers. Every single layer is a dataset too. "
        "The default are those of the section elevation.",
    },
    "valid_range": {
        **HEIGHT_RANGE,
        "description": "Lowest and highest height. Values outside count as nodata. "
        "The default is that of the section elevation.",
    },
    "precision": {
        "enum": list(PRECISIONS),
        "default": "full",
        "description": "Steps of heights in tiles: those of the encoding, or (auto) coarser ones "
        "at coarse zooms, which make smaller files.",
    },
    "fill": {
        "enum": list(FILLS),
        "default": "none",
        "description": "Heights of holes: the nodata_height of the dataset, or (edge) the nearest "
        "height within 64 pixels.",
    },
    "missing": {
        "enum": list(MISSING),
        "default": 200,
        "description": "Status of tiles inside the limits without any height: 200 for a constant "
        "tile, 404 for clients that then show a coarser tile.",
    },
    "overzoom": {
        "type": "integer",
        "minimum": 0,
        "maximum": 6,
        "default": 0,
        "description": "Number of zooms beyond the finest level that are interpolated.",
    },
    "mesh": {
        "type": "object",
        "default": {},
        "description": "Tiles of triangles for globes.",
        "additionalProperties": False,
        "properties": {
            "size": {
                "enum": list(SIZES),
                "default": 65,
                "description": "Samples on each side of a tile.",
            },
            "error_factor": {
                "type": "number",
                "minimum": 0.01,
                "maximum": 1,
                "default": 0.25,
                "description": "Largest error of heights, as a part of the error that Cesium "
                "assumes at each zoom. Smaller numbers make more triangles.",
            },
            "grids": {
                "type": "string",
                "minLength": 1,
                "description": "Directory with grid files of PROJ, for to_ellipsoid in layer "
                "descriptors.",
            },
        },
    },
    "contours": {
        "type": "object",
        "default": {},
        "description": "Contour lines as vector tiles.",
        "additionalProperties": False,
        "properties": {
            "intervals": {
                "type": "object",
                "minProperties": 1,
                "additionalProperties": False,
                "patternProperties": {
                    "^(1?[0-9]|2[0-4])$": {
                        "type": "array",
                        "items": {"type": "number", "minimum": 0.1},
                        "minItems": 1,
                        "maxItems": 8,
                    }
                },
                "description": "Distances between lines, by the zoom from which they count: of all "
                "lines, then of those drawn more strongly, each a multiple of the one before. "
                "There are none before the first zoom.",
            },
            "unit": {
                "enum": list(UNITS),
                "default": "m",
                "description": "Unit of the intervals and of the heights of lines.",
            },
            "smooth": {
                "type": "number",
                "minimum": 0,
                "maximum": 4,
                "default": 0,
                "description": "Standard deviation in pixels by which heights are smoothed, from "
                "one zoom before the finest level on.",
            },
            "simplify": {
                "type": "number",
                "minimum": 0,
                "maximum": 16,
                "default": 1,
                "description": "Distance by which lines may be displaced before the finest level, "
                "in units of 1/4096 of a tile.",
            },
            "layer": {**_NAME, "default": "contour", "description": "Name of the layer."},
            "ele": {**_NAME, "default": "ele", "description": "Name of the height."},
            "level": {
                **_NAME,
                "default": "level",
                "description": "Name of the position in the intervals.",
            },
            "index": {
                **_NAME,
                "default": "index",
                "description": "Name of the mark of the strongest lines.",
            },
        },
    },
    "limits": {
        "type": "object",
        "default": {},
        "description": "Limits of one answer, checked before anything is read.",
        "additionalProperties": False,
        "properties": {"tiles": limit(1024, "Stored tiles read for one answer.")},
    },
}


@dataclass(frozen=True, slots=True)
class Options:
    """How heights become tiles.

    Attributes:
        precision: one of `PRECISIONS`.
        fill: one of `FILLS`.
        missing: one of `MISSING`.
    """

    precision: str = "full"
    fill: str = "none"
    missing: int = 200


@dataclass(frozen=True, slots=True)
class MeshSettings:
    """How heights become triangles.

    Attributes:
        size: samples on each side of a tile.
        error_factor: largest error, as a part of the one that Cesium assumes.
        grids: directory with grid files of PROJ; empty for none.
    """

    size: int = 65
    error_factor: float = 0.25
    grids: str = ""


@dataclass(frozen=True, slots=True)
class ContourSettings:
    """How heights become lines.

    Attributes:
        intervals: distances between lines by zoom, see `contours.intervals.DEFAULT`.
        unit: of intervals and heights of lines.
        smooth: standard deviation, pixels.
        simplify: units of a tile.
        layer: name of the layer in the tiles.
        ele, level, index: names of the attributes.
    """

    intervals: tuple[tuple[int, tuple[float, ...]], ...] = DEFAULT
    unit: str = "m"
    smooth: float = 0.0
    simplify: float = 1.0
    layer: str = "contour"
    ele: str = "ele"
    level: str = "level"
    index: str = "index"

    @classmethod
    def of(cls, own: Mapping[str, Any]) -> ContourSettings:
        """Return the settings in the section of the service."""
        if "intervals" not in own:
            return cls(**own)
        given = sorted((int(zoom), tuple(row)) for zoom, row in own["intervals"].items())
        return cls(**{**own, "intervals": tuple(given)})


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of the section that are not those of datasets.

    Attributes:
        options: of requests that set none.
        overzoom: zooms beyond the finest level.
        tiles: stored tiles read for one answer, at most.
        mesh: of tiles of triangles.
        contours: of tiles of lines.
    """

    options: Options
    overzoom: int
    tiles: int
    mesh: MeshSettings
    contours: ContourSettings

    @classmethod
    def of(cls, own: Mapping[str, Any]) -> Settings:
        """Return the settings of a section of services.json, which is validated."""
        options = Options(
            own.get("precision", "full"), own.get("fill", "none"), own.get("missing", 200)
        )
        return cls(
            options=options,
            overzoom=own.get("overzoom", 0),
            tiles=own.get("limits", {}).get("tiles", 1024),
            mesh=MeshSettings(**own.get("mesh", {})),
            contours=ContourSettings.of(own.get("contours", {})),
        )


def dataset_settings(
    own: Mapping[str, Any], queries: Mapping[str, Any] | None
) -> Mapping[str, Any]:
    """Return the settings of datasets.

    Args:
        own: the section ``terrain``.
        queries: the section ``elevation``; None without one.
    """
    return {
        key: section[key] for section in (queries or {}, own) for key in _SHARED if key in section
    }
