"""Tile matrix sets for builds: packaged ones, or those in a directory."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Self

import pyproj

from mastaba.api.catalogue import CRS, BoundingBox, TileMatrix, TileMatrixSet
from mastaba.api.documents import Faults, FileFaults, UnusableError
from mastaba.tooling.documents import make_tile_matrix_set
from mastaba_build.errors import PlanError
from mastaba_build.plugins import PluginSet
from mastaba_build.sources.turns import period_of
from mastaba_writer.registered_sets import REGISTERED
from mastaba_writer.tile_matrix_sets import PUBLISHED

_PACKAGED = {**PUBLISHED, **REGISTERED}


def load_set(
    name: str, directory: Path | None, plugins: PluginSet
) -> tuple[TileMatrixSet, dict[str, Any]]:
    """Return a tile matrix set and its document, from a directory or from the packaged ones.

    Raises:
        PlanError: the set is unknown or invalid.
    """
    if directory is None:
        return _packaged(name)
    document = _document(name, directory)
    for _, reason in plugins.problems("tile_matrix_set", document):
        raise PlanError(f"tile matrix set {name}: {reason}")
    return made_set(name, document)


@cache
def _packaged(name: str) -> tuple[TileMatrixSet, dict[str, Any]]:
    return made_set(name, _document(name, None))


def made_set(name: str, document: Any) -> tuple[TileMatrixSet, dict[str, Any]]:
    """Return the tile matrix set in a document, and this.

    Raises:
        PlanError: it is invalid.
    """
    faults = Faults()
    try:
        return make_tile_matrix_set(name, document, FileFaults(faults, name)), document
    except UnusableError:
        raise PlanError(
            "\n".join(f"tile matrix set {name}: {fault.reason}" for fault in faults.errors)
        ) from None


def is_known(name: str, directory: Path | None) -> bool:
    """Return whether a set is packaged, or in a directory of sets."""
    return name in _PACKAGED or (directory is not None and (directory / f"{name}.json").is_file())


def _document(name: str, directory: Path | None) -> Any:
    if directory is not None and not directory.is_dir():
        raise PlanError(f"{directory}, for tile matrix sets, is not a directory")
    if directory is not None and (directory / f"{name}.json").is_file():
        try:
            return json.loads((directory / f"{name}.json").read_text("utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise PlanError(f"{directory / name}.json cannot be read: {error}") from None
    if name not in _PACKAGED:
        listed = ", ".join(one for one in _PACKAGED if not one.startswith("UTM"))
        where = (
            f"{directory} does not contain it"
            if directory
            else "state its directory with --tms-directory"
        )
        raise PlanError(
            f"unknown tile matrix set {name!r}: {where}, or use one of {listed}, "
            "UTM01WGS84Quad to UTM60WGS84Quad"
        )
    return _PACKAGED[name]()


@dataclass(frozen=True, slots=True)
class SetExtent:
    """Where a tile matrix set is.

    Attributes:
        name: identifier of the set.
        box: extent of its finest matrix.
        period: units of x in a full turn around the earth; 0 if x does not repeat.
    """

    name: str
    crs: CRS
    box: BoundingBox
    period: float

    @classmethod
    def of(cls, tile_matrix_set: TileMatrixSet) -> Self:
        """Return the extent of a set."""
        crs, finest = tile_matrix_set.crs, list(tile_matrix_set.matrices.values())[-1]
        period = period_of(proj_crs(crs.code).to_wkt())
        return cls(tile_matrix_set.id, crs, finest.bbox_of(finest.all_tiles), period)


def proj_crs(code: str) -> pyproj.CRS:
    """Return the CRS of a tile matrix set, which has a code, as PROJ knows it."""
    return pyproj.CRS.from_user_input("OGC:CRS84" if code == "CRS:84" else code)


def known_crs(code: str) -> pyproj.CRS:
    """Return the CRS with a code such as EPSG:2154, as PROJ knows it.

    Raises:
        PlanError: it is unknown.
    """
    try:
        return proj_crs(CRS.from_code(code).code)
    except ValueError as error:
        raise PlanError(str(error)) from None


def box_factor(fine: TileMatrix, coarse: TileMatrix) -> int:
    """Return how many pixels of a matrix are on a side of a pixel of a coarser one.

    Returns:
        0 if a tile of the fine matrix is not a whole number of pixels of the coarse one.
    """
    factor = round(coarse.cell_size / fine.cell_size)
    fits = (
        factor >= 2
        and abs(coarse.cell_size - factor * fine.cell_size) < 0.0001 * fine.cell_size
        and (coarse.origin_x, coarse.origin_y) == (fine.origin_x, fine.origin_y)
        and (coarse.tile_width, coarse.tile_height) == (fine.tile_width, fine.tile_height)
        and fine.tile_width % factor == fine.tile_height % factor == 0
    )
    return factor if fits else 0
