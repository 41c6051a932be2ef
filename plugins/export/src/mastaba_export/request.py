"""What is exported: the inputs of the command line and of jobs, which one schema describes.

Besides the keywords of JSON Schema, a property may have ``x-option``: its option and the
placeholder of the value, as ``--tms SET``; by default the option has the name of the property.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib.resources import files
from typing import Any, Final, Self

from jsonschema_rs import Draft202012Validator

from mastaba_export.errors import InvalidRequestError

COVERAGES: Final = frozenset({"tif", "cog"})
"""Formats of one raster instead of tiles."""

_EXTENSIONS: Final = {
    ".tif": "cog",
    ".tiff": "cog",
    ".pmtiles": "pmtiles",
    ".mbtiles": "mbtiles",
    ".gpkg": "gpkg",
    ".json": "pyramid",
}
_ONLY: Final = {
    "compression": COVERAGES,
    "predictor": COVERAGES,
    "fit": COVERAGES,
    "mask": COVERAGES,
    "scheme": frozenset({"dir"}),
    "tile_compression": frozenset({"pmtiles"}),
    "dedup": frozenset({"pmtiles", "mbtiles"}),
}
"""Inputs that only some formats have."""
_MOST: Final = 64
"""Elements of a list; no input may have more."""
_LONGEST_MESSAGE: Final = 500


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """The inputs of an export; ``schemas/export.json`` describes each.

    Attributes:
        area: a GeoJSON object; coordinates are checked when the export is planned.
        levels: identifiers of levels; empty for all.
    """

    layer: str
    bbox: tuple[float, float, float, float] | None = None
    area: Mapping[str, Any] | None = None
    crs: str = "CRS:84"
    levels: tuple[str, ...] = ()
    zoom: tuple[int, int] | None = None
    format: str | None = None
    compression: str = "stored"
    predictor: str | None = None
    fit: str = "tiles"
    mask: bool = False
    style: str | None = None
    tms: str | None = None
    tile_format: str | None = None
    clip: bool = False
    scheme: str = "xyz"
    tile_compression: str = "gzip"
    dedup: str = "small"

    @classmethod
    def from_inputs(cls, inputs: Mapping[str, Any]) -> Self:
        """Return the request of some inputs.

        Raises:
            InvalidRequestError: inputs are wrong, or exclude each other; the message names all.
        """
        # Each element of a list that is too long could have an error of its own.
        checked = {
            key: value[: _MOST + 1] if isinstance(value, list) else value
            for key, value in inputs.items()
        }
        errors = list(Draft202012Validator(export_schema()).iter_errors(checked))
        if errors:
            places = ["/".join(map(str, error.instance_path)) for error in errors]
            texts = [
                f"{place}: {error.message}" if place else error.message
                for place, error in zip(places, errors, strict=True)
            ]
            message = "; ".join(texts)
            if len(message) > _LONGEST_MESSAGE:
                message = message[:_LONGEST_MESSAGE] + "…"
            raise InvalidRequestError(message, places[0].partition("/")[0] or None)
        values: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in inputs.items()
        }
        request = cls(**values)
        request._check()
        return request

    def to_inputs(self) -> dict[str, Any]:
        """Return the inputs that differ from the defaults, as `from_inputs` takes them."""
        found: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if value != field.default:
                found[field.name] = list(value) if isinstance(value, tuple) else value
        return found

    def with_format(self, format: str) -> ExportRequest:
        """Return the same request for a format.

        Raises:
            InvalidRequestError: the format does not have one of the inputs.
        """
        request = replace(self, format=format)
        request._check()
        return request

    @property
    def is_drawn(self) -> bool:
        """Whether the tiles are drawn, not copied."""
        return not (self.style is None and self.tms is None and self.tile_format is None)

    def _check(self) -> None:
        if self.bbox is not None and self.area is not None:
            raise InvalidRequestError("bbox and area exclude each other", "area")
        if self.bbox is not None and not all(map(_is_finite, self.bbox)):
            raise InvalidRequestError("bbox: a coordinate is not a finite number", "bbox")
        if self.levels and self.zoom is not None:
            raise InvalidRequestError("levels and zoom exclude each other", "zoom")
        if self.zoom is not None and self.zoom[0] > self.zoom[1]:
            raise InvalidRequestError("zoom: the first zoom is above the last one", "zoom")
        if self.clip and self.bbox is None and self.area is None:
            raise InvalidRequestError("clip needs an area: state bbox or area", "clip")
        if self.format is None:
            return
        for key, formats in _ONLY.items():
            default = next(field.default for field in fields(self) if field.name == key)
            if getattr(self, key) != default and self.format not in formats:
                listed = ", ".join(sorted(formats))
                raise InvalidRequestError(f"{key} is an input of {listed} only", key)
        if self.is_drawn and self.format in {*COVERAGES, "pyramid"}:
            raise InvalidRequestError(
                f"{self.format} contains what is stored; remove style, tms and tile_format", "style"
            )


def _is_finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # an integer of hundreds of digits
        return False


@cache
def export_schema() -> dict[str, Any]:
    """Return the JSON schema of the inputs, which must not be changed."""
    text = files("mastaba_export").joinpath("schemas", "export.json").read_text("utf-8")
    document: dict[str, Any] = json.loads(text)
    return document


def format_of(destination: str) -> str | None:
    """Return the format that the name of an output stands for, or None."""
    if destination.endswith("/"):
        return "dir"
    name = destination.rpartition("/")[2].lower()
    return _EXTENSIONS.get(f".{name.rpartition('.')[2]}") if "." in name else None
