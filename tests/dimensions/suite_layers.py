"""Layers with dimensions for the suites of WMTS and OGC API (docs/conformance.md).

Run as a program, it writes an installation: ``python -m tests.dimensions.suite_layers FOLDER URL``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from tests.series import TIME, colour_of

from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import web_mercator

LEVELS = 3
DAYS = ("2024-01-01", "2024-01-02", "2024-01-03")
HEIGHTS = ("0", "500")
YEARS = ("1950", "1975", "2023-05")
METRES = {"name": "elevation", "units": "CRS:88", "unit_symbol": "m", "default": "0"}
"""Layers in the order of their identifiers: DAYS, HEIGHTS (which also has years) and YEARS."""


def _pyramid(folder: Path, position: int) -> Path:
    """Write the world: a square of one colour in its middle, transparent to its edges."""

    def tile(level: str, row: int, col: int) -> Any:
        size = 256 << int(level)
        pixels = np.zeros((size, size, 4), np.uint8)
        inner = slice(3 * size // 8, -3 * size // 8)
        pixels[inner, inner] = (*colour_of(position), 255)
        return pixels[256 * row : 256 * row + 256, 256 * col : 256 * col + 256]

    return write_pyramid(
        folder,
        f"value_{position}",
        tile_matrix_set=web_mercator(LEVELS),
        format="TIFF_PNG_UINT8",
        channels=4,
        nodata=(0, 0, 0, 0),
        levels=[LevelPlan(str(n), 0, 2**n - 1, 0, 2**n - 1) for n in range(LEVELS)],
        tile=tile,
        tables=(),
    )


def _series(
    folder: Path,
    values: Sequence[Mapping[str, str]],
    dimensions: Sequence[Mapping[str, Any]] = TIME,
    **fields: Any,
) -> dict[str, Any]:
    paths = [_pyramid(folder, position) for position in range(len(values))]
    variants = [
        {"at": dict(at), "pyramids": [{"path": str(path)}]}
        for at, path in zip(values, paths, strict=True)
    ]
    document = dict(layer_document(paths[-1], tile_matrix_sets={"PM": web_mercator(LEVELS)}))
    return {**document, "dimensions": list(dimensions), "variants": variants, **fields}


def layers(folder: Path) -> dict[str, dict[str, Any]]:
    """Write the pyramids, and return the descriptors of the layers."""
    info: dict[str, Any] = {"get_feature_info": {"type": "PYRAMID"}}
    both = [{"elevation": height, "time": year} for height, year in product(HEIGHTS[::-1], YEARS)]
    found = {
        "DAYS": _series(folder / "days", [{"time": day} for day in DAYS]),
        "HEIGHTS": _series(folder / "heights", both, [*TIME, METRES], **info),
        "YEARS": _series(folder / "years", [{"time": year} for year in YEARS], **info),
    }
    for name, document in found.items():
        document.update(title=name, abstract=f"Test data {name}", keywords=["time"])
    return found


def write(folder: Path, url: str) -> Path:
    """Write an installation, and return its server.json."""
    limits = {"layers_count": 20, "width": 4096, "height": 4096}
    # The suite of WMTS reads no WebP.
    formats = ["image/png", "image/jpeg"]
    overrides: dict[str, Any] = {
        "global": {
            "cors": True,
            "contact": {"name": "Mapping agency", "voice": "+33 1 23 45 67 89"},
            "map": {"reprojection": True, "limits": limits},
            "tile": {"formats": formats},
        },
    }
    return write_installation(
        folder,
        layers=layers(folder / "pyramids"),
        tile_matrix_sets={"PM": web_mercator(LEVELS)},
        services=("ogcapi", "wms", "wmts"),
        public_url=url,
        services_overrides=overrides,
    )


if __name__ == "__main__":
    print(write(Path(sys.argv[1]), sys.argv[2]))
