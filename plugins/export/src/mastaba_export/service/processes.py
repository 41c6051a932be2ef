"""The processes, and their descriptions (18-062r2 clause 7.8 and 8)."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from mastaba import __version__
from mastaba_export.jobs.exporting import FILE_TYPES
from mastaba_export.request import export_schema
from mastaba_ows.links import JSON, REL, link, self_links

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer

_AREA: Final = ("layer", "bbox", "crs", "levels")
_BOX: Final = {
    "title": "Area",
    "description": "West, south, east, north in the CRS of the input crs; west may be greater than "
    "east in longitudes. Also an object with the members bbox and crs.",
}
_TITLES: Final = {
    "layer": "Layer",
    "area": "Polygons",
    "crs": "CRS of the area",
    "levels": "Levels",
    "zoom": "Zooms",
    "format": "Format",
    "compression": "Compression",
    "predictor": "Predictor",
    "fit": "Cells",
    "mask": "Masks",
    "style": "Style",
    "tms": "Tile matrix set",
    "tile_format": "Format of drawn tiles",
    "clip": "Clip",
    "tile_compression": "Compression of vector tiles",
    "dedup": "Equal tiles",
    "scheme": "Numbers of rows",
}
"""Titles of inputs."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process.

    Attributes:
        formats: values of the input ``format``; the first is the default.
        inputs: names of the inputs, of those in the schema of `mastaba_export.request`.
        takes_vectors: whether layers of vector tiles can be exported.
    """

    id: str
    title: str
    description: str
    formats: Sequence[str]
    inputs: Sequence[str]
    takes_vectors: bool

    def takes(self, layer: Layer) -> bool:
        """Return whether the process can export a layer that is offered."""
        return self.takes_vectors or not layer.is_vector


PROCESSES: Final = {
    process.id: process
    for process in (
        Process(
            "export-coverage",
            "Export of stored values",
            "Writes the stored values of an area into one GeoTIFF, as they are. Nothing is "
            "resampled.",
            ("cog", "tif"),
            (*_AREA, "area", "format", "compression", "predictor", "fit", "mask"),
            takes_vectors=False,
        ),
        Process(
            "export-tiles",
            "Export of tiles",
            "Writes the tiles of an area into one archive: as they are stored, or drawn in a style "
            "or in another tile matrix set.",
            ("pmtiles", "mbtiles", "gpkg", "dir", "pyramid"),
            (
                *(*_AREA, "area", "zoom", "format", "style", "tms", "tile_format", "clip"),
                *("tile_compression", "dedup", "scheme"),
            ),
            takes_vectors=True,
        ),
    )
}


def process_address(process: Process, uri: str) -> str:
    """Return the address of the description of a process."""
    return f"{uri}/processes/{process.id}"


def process_list(uri: str) -> dict[str, Any]:
    """Return the list of processes."""
    address = f"{uri}/processes"
    return {
        "processes": [_summary(process, uri) for process in PROCESSES.values()],
        "links": self_links(address, "Processes"),
    }


def description(process: Process, uri: str, layers: Collection[str]) -> dict[str, Any]:
    """Return the description of a process.

    Args:
        layers: identifiers of those that it can export.
    """
    schema = export_schema()
    found = _summary(process, uri)
    found["inputs"] = {
        name: _input(name, schema["properties"][name], process, layers) for name in process.inputs
    }
    found["outputs"] = {
        "result": {
            "title": "The file",
            "schema": {
                "oneOf": [
                    {"type": "string", "format": "binary", "contentMediaType": FILE_TYPES[name]}
                    for name in process.formats
                ]
            },
        }
    }
    address = found["links"][0]["href"]
    found["links"] = [
        *self_links(address, process.title),
        link(f"{address}/execution", f"{REL}/execute", JSON, "Order a job"),
        link(f"{address}/estimate", "estimate", JSON, "What a job would write"),
    ]
    return found


def _summary(process: Process, uri: str) -> dict[str, Any]:
    return {
        "id": process.id,
        "version": __version__,
        "title": process.title,
        "description": process.description,
        "jobControlOptions": ["async-execute", "dismiss"],
        "outputTransmission": ["reference"],
        "links": [link(process_address(process, uri), "self", JSON, process.title)],
    }


def _input(
    name: str, schema: Mapping[str, Any], process: Process, layers: Collection[str]
) -> dict[str, Any]:
    own = {key: value for key, value in copy.deepcopy(dict(schema)).items() if key != "x-option"}
    text = own.pop("description", "")
    about = {"title": _TITLES.get(name, ""), "description": text}
    if name == "bbox":
        about = dict(_BOX)
        box: dict[str, Any] = {"type": "object", "format": "ogc-bbox"}
        box["properties"] = {"bbox": dict(own), "crs": {"type": "string"}}
        own = {"oneOf": [own, {**box, "required": ["bbox"]}]}
    elif name == "area":
        about["description"] = (
            "GeoJSON with polygons, of at most 10,000 points; the cells of cog and tif outside of "
            "them have no data."
        )
    elif name == "crs":
        about["description"] = "CRS of the area, x before y."
    elif name == "levels":
        about["description"] = "Identifiers of the levels; all by default."
    elif name == "format":
        about["description"] = "Format of the file; dir and pyramid are packed as ZIP."
        own = {"type": "string", "enum": list(process.formats), "default": process.formats[0]}
    elif name == "layer":
        about["description"] = (
            "The layer; the server also takes names of its values and versions, such as "
            "ORTHO;time=1950 and ORTHO~4f0c1d2e3a4b."
        )
        own = {"type": "string", "enum": sorted(layers)} if layers else {"type": "string"}
    if "enum" in own:
        own.setdefault("type", "string")
    return {**about, "schema": own, "minOccurs": int(name == "layer"), "maxOccurs": 1}
