"""Layers with dimensions for tests: a small pyramid of one colour for each value."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import web_mercator

LEVELS = (LevelPlan("2", 1, 1, 2, 2), LevelPlan("3", 2, 3, 4, 5))
"""Levels of each pyramid: 1 x 1 and 2 x 2 tiles of the set PM."""

TIME = ({"name": "time"},)


def write_value(
    directory: Path,
    name: str,
    colour: tuple[int, ...],
    *,
    format: str = "TIFF_PNG_UINT8",
    levels: Sequence[LevelPlan] = LEVELS,
) -> Path:
    """Write a pyramid whose pixels all have one colour, and return its descriptor."""
    is_float = format.endswith("FLOAT32")

    def tile(level: str, row: int, col: int) -> Any:
        shape = (256, 256, len(colour)) if not is_float else (256, 256)
        value = np.array(colour if not is_float else colour[0])
        return np.broadcast_to(value, shape).astype(np.float32 if is_float else np.uint8)

    pyramids = directory / "pyramids"
    pyramids.mkdir(parents=True, exist_ok=True)
    write_pyramid(
        pyramids,
        name,
        tile_matrix_set=web_mercator(),
        format=format,
        channels=len(colour),
        levels=levels,
        tile=tile,
        tables=(),
    )
    return pyramids / f"{name}.json"


def colour_of(position: int) -> tuple[int, int, int]:
    """Return the colour of the value at a position."""
    return (position * 37 % 251 + 2, position * 91 % 241 + 5, 100 + position % 100)


def series_document(
    directory: Path,
    values: Sequence[Mapping[str, str]],
    *,
    dimensions: Sequence[Mapping[str, Any]] = TIME,
    default: int = -1,
    format: str = "TIFF_PNG_UINT8",
    **fields: Any,
) -> dict[str, Any]:
    """Write a pyramid for each combination of values, and return the descriptor of their layer.

    Args:
        values: of each dimension, by name; the pyramid at a position has `colour_of` it.
        default: position of the pyramid that is served without values.
        format: of the tiles.
        fields: further keys of the descriptor.
    """
    variants = []
    for position, at in enumerate(values):
        path = write_value(directory, f"value_{position}", colour_of(position), format=format)
        variants.append({"at": dict(at), "pyramids": [{"path": str(path)}]})
    document = dict(layer_document(Path(variants[default]["pyramids"][0]["path"])))
    return {**document, "dimensions": list(dimensions), "variants": variants, **fields}


def series_installation(
    directory: Path,
    values: Sequence[Mapping[str, str]] = ({"time": "1950"}, {"time": "1975"}, {"time": "2023"}),
    *,
    name: str = "ORTHO",
    services: Sequence[str] = (),
    others: Mapping[str, Mapping[str, Any]] | None = None,
    services_overrides: Mapping[str, Any] | None = None,
    server_overrides: Mapping[str, Any] | None = None,
    **options: Any,
) -> Path:
    """Write an installation with the layer ORTHO, which has dimensions, and return server.json.

    Args:
        values, options: as in `series_document`.
        others: descriptors of further layers.
        services, services_overrides, server_overrides: as in `write_installation`.
    """
    layers: dict[str, Mapping[str, Any]] = {name: series_document(directory, values, **options)}
    return write_installation(
        directory,
        layers=layers | dict(others or {}),
        services=services,
        services_overrides=services_overrides or {},
        server_overrides=server_overrides or {},
    )


def rewrite_layer(directory: Path, name: str, document: Mapping[str, Any]) -> None:
    """Replace the descriptor of a layer."""
    (path,) = directory.rglob(f"layers/{name}.json")
    path.write_text(json.dumps(document))
