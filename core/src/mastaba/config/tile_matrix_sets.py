"""Tile matrix set descriptors (tilematrixset.md section 2)."""

from __future__ import annotations

from typing import Any

from mastaba.config.faults import Faults
from mastaba.model.crs import CRS, UnknownCRSError
from mastaba.model.tile_matrix_set import TileMatrix, TileMatrixSet


def make_tile_matrix_set(
    identifier: str, document: dict[str, Any], file: str, faults: Faults
) -> TileMatrixSet | None:
    """Return the set from a valid document, or None after recording a problem."""
    try:
        crs = CRS.from_code(document["crs"])
    except UnknownCRSError as error:
        faults.error(file, "$.crs", str(error), "write AUTHORITY:CODE, as in EPSG:3857")
        return None
    matrices: dict[str, TileMatrix] = {}
    usable = True
    for position, entry in enumerate(document["tileMatrices"]):
        if entry["id"] in matrices:
            faults.error(
                file,
                f"$.tileMatrices[{position}].id",
                f"duplicate matrix {entry['id']!r}",
                "give each matrix its own id",
            )
            usable = False
            continue
        x, y = entry["pointOfOrigin"]
        matrices[entry["id"]] = TileMatrix(
            id=entry["id"],
            cell_size=float(entry["cellSize"]),
            origin_x=float(x),
            origin_y=float(y),
            tile_width=int(entry["tileWidth"]),
            tile_height=int(entry["tileHeight"]),
            matrix_width=int(entry["matrixWidth"]),
            matrix_height=int(entry["matrixHeight"]),
        )
    if not usable:
        return None
    return TileMatrixSet.of(
        identifier,
        crs,
        matrices.values(),
        document.get("title", ""),
        document.get("description", ""),
        tuple(document.get("keywords", ())),
    )
