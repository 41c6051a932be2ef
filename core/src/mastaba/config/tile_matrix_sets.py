"""Tile matrix set descriptors (tilematrixset.md section 2)."""

from __future__ import annotations

from typing import Any

from mastaba.config.identifiers import problem_of, shortened
from mastaba.model.crs import CRS, UnknownCRSError
from mastaba.model.tile_matrix_set import TileMatrix, TileMatrixSet
from mastaba_documents.faults import FileFaults


def make_tile_matrix_set(
    identifier: str, document: dict[str, Any], faults: FileFaults
) -> TileMatrixSet:
    """Return the set from a valid document.

    Raises:
        UnusableError: it cannot be used; the reason is recorded.
    """
    try:
        crs = CRS.from_code(document["crs"])
    except UnknownCRSError as error:
        faults.refuse("$.crs", str(error), "write AUTHORITY:CODE, as in EPSG:3857")
    matrices: dict[str, TileMatrix] = {}
    for position, entry in enumerate(document["tileMatrices"]):
        if entry["id"] in matrices:
            at, reason = f"$.tileMatrices[{position}].id", f"duplicate matrix {entry['id']!r}"
            faults.error(at, reason, "give each matrix its own id")
            continue
        problem = problem_of(entry["id"])
        if problem is not None:
            reason = f"{shortened(entry['id'])} cannot be the id of a matrix: {problem}"
            faults.error(f"$.tileMatrices[{position}].id", reason, "choose another one")
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
    faults.require_usable()
    title, abstract = document.get("title", ""), document.get("description", "")
    keywords = tuple(document.get("keywords", ()))
    scale_set = document.get("wellKnownScaleSet", "")
    texts = title, abstract, keywords, scale_set
    return TileMatrixSet.of(identifier, crs, matrices.values(), *texts)
