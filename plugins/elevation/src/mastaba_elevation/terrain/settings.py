"""Settings of the service ``terrain`` in services.json (elevation.md 0 and 4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from mastaba_elevation.settings import (
    HEIGHT_RANGE,
    TEXT,
    Schema,
    choice,
    described,
    limit,
    members,
    number,
)
from mastaba_elevation.settings import SETTINGS_SCHEMA as QUERIES_SCHEMA
from mastaba_elevation.terrain.contours.intervals import DEFAULT, UNITS

PRECISIONS: Final = ("full", "auto")
FILLS: Final = ("none", "edge")
MISSING: Final = (200, 404)
SIZES: Final = (33, 65, 129)

_NAME: Final = {**TEXT, "maxLength": 100}

_SHARED: Final = ("datasets", "valid_range")
"""Keys whose default is their value in the section ``elevation``."""

SETTINGS_SCHEMA: Final[Schema] = {
    "datasets": described(
        QUERIES_SCHEMA["datasets"],
        "Named stacks of layers. Every single layer is a dataset too. "
        "The default are those of the section elevation.",
    ),
    "valid_range": described(
        HEIGHT_RANGE,
        "Lowest and highest height. Values outside count as nodata. "
        "The default is that of the section elevation.",
    ),
    "precision": choice(
        PRECISIONS,
        "Steps of heights in tiles: those of the encoding, or (auto) coarser ones "
        "at coarse zooms, which make smaller files.",
        default="full",
    ),
    "fill": choice(
        FILLS,
        "Heights of holes: the nodata_height of the dataset, or (edge) the nearest "
        "height within 64 pixels.",
        default="none",
    ),
    "missing": choice(
        MISSING,
        "Status of tiles inside the limits without any height: 200 for a constant "
        "tile, 404 for clients that then show a coarser tile.",
        default=200,
    ),
    "overzoom": number(0, 6, 0, "Number of zooms beyond the finest level that are interpolated."),
    "mesh": members(
        "Tiles of triangles for globes.",
        {
            "size": choice(SIZES, "Samples on each side of a tile.", default=65),
            "error_factor": number(
                *(0.01, 1, 0.25),
                "Largest error of heights, as a part of the error that Cesium "
                "assumes at each zoom. Smaller numbers make more triangles.",
            ),
            "grids": described(
                TEXT,
                "Directory with grid files of PROJ, for to_ellipsoid in layer descriptors.",
            ),
        },
    ),
    "contours": members(
        "Contour lines as vector tiles.",
        {
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
            "unit": choice(
                UNITS, "Unit of the intervals and of the heights of lines.", default="m"
            ),
            "smooth": number(
                *(0, 4, 0.0),
                "Standard deviation in pixels by which heights are smoothed, from "
                "one zoom before the finest level on.",
            ),
            "simplify": number(
                *(0, 16, 1.0),
                "Distance by which lines may be displaced before the finest level, "
                "in units of 1/4096 of a tile.",
            ),
            "layer": described(_NAME, "Name of the layer.", default="contour"),
            "ele": described(_NAME, "Name of the height.", default="ele"),
            "level": described(_NAME, "Name of the position in the intervals.", default="level"),
            "index": described(_NAME, "Name of the mark of the strongest lines.", default="index"),
        },
    ),
    "limits": members(
        "Limits of one answer, checked before anything is read.",
        {"tiles": limit(1024, "Stored tiles read for one answer.")},
    ),
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
        given = {name: own[name] for name in ("precision", "fill", "missing") if name in own}
        return cls(
            options=Options(**given),
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
