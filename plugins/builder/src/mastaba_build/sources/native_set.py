"""The tile matrix set on whose finest level source pixels are stored as they are."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import pyproj

from mastaba.api.catalogue import TileMatrixSet
from mastaba_build.config.access import Access
from mastaba_build.config.configuration import Configuration, SourceOptions
from mastaba_build.errors import PlanError
from mastaba_build.sources.grid_sets import Grid, code_of, exact, set_of_grid
from mastaba_build.sources.inventory import inventory
from mastaba_build.sources.sets import known_crs, load_set, made_set
from mastaba_build.sources.source import Source

NATIVE: Final = "native"
"""Name of this set in the options of a build."""
GRID: Final = "grid"
"""Name of the set for the grid of another raster."""
_SAME_CELL: Final = 1e-6
"""Largest relative difference of cells."""
_SAME_PLACE: Final = 0.01
"""Largest distance of corners from the grid, in cells."""
_STEPS: Final = 1_000_000
"""Parts of a cell by which its corner is rounded: all products on a grid share the set."""
_HALF: Final = 0.5


def with_set(
    configuration: Configuration, sources: Sequence[Source]
) -> tuple[Configuration, TileMatrixSet, dict[str, Any]]:
    """Return a configuration that names its tile matrix set, the set, and its document.

    Raises:
        PlanError: the set is unknown or invalid, or cannot be made.
    """
    directory = configuration.tile_matrix_sets
    name, registration = configuration.tile_matrix_set, configuration.registration
    if (name == GRID) != (configuration.like is not None):
        raise PlanError(f"--tms {GRID} and --like FILE, the raster with the grid, go together")
    if name not in (NATIVE, GRID):
        return configuration, *load_set(name, directory, configuration.access.plugins)
    if configuration.like is not None:
        sources, registration = rasters_of(configuration.like, configuration.access), None
    is_post = registration == "post" or (registration is None and are_posts(sources))
    name, document = native_set(sources, directory, is_post=is_post)
    return replace(configuration, tile_matrix_set=name), *made_set(name, document)


def rasters_of(path: str, access: Access) -> list[Source]:
    """Return the rasters of a path as sources. Raises PlanError."""
    return inventory(SourceOptions(path), access.with_sources([path]))


def are_posts(sources: Sequence[Source]) -> bool:
    """Return whether the values of all sources are those of points."""
    return all(source.registration == "post" for source in sources)


def native_set(
    sources: Sequence[Source], directory: Path | None, *, is_post: bool
) -> tuple[str, dict[str, Any]]:
    """Return the name and the document of the set for the grid of sources.

    Args:
        directory: of tile matrix sets; one with the same matrices is used instead.
        is_post: whether the values are those of points.

    Raises:
        PlanError: the sources have no common grid, or their CRS has no code or no area of use.
    """
    grid = grid_of(sources)
    name = grid.name(is_post=is_post)
    try:
        document = set_of_grid(grid, name)
    except PlanError as error:
        raise PlanError(f"{sources[0].path}: {error}") from None
    for path, known in _known(directory):
        if _definition(known) == _definition(document):
            return path.stem, known
        if path.stem == name:
            raise PlanError(
                f"{path} is another tile matrix set than that of the sources; rename it"
            )
    return name, document


def grid_of(sources: Sequence[Source]) -> Grid:
    """Return the common grid of the pixels of sources.

    Raises:
        PlanError: there is none; the message names the sources that differ.
    """
    first = sources[0]
    crs, cell = pyproj.CRS.from_wkt(first.crs), _cell(first)
    x, y = first.transform[2] / cell, first.transform[5] / cell
    for source in sources[1:]:
        both = f"{first.path} and {source.path}"
        if source.crs != first.crs and pyproj.CRS.from_wkt(source.crs) != crs:
            raise PlanError(f"{both} have different CRSs; --tms {NATIVE} needs a common one")
        other = _cell(source)
        if abs(other - cell) > _SAME_CELL * cell:
            raise PlanError(f"{both} have different pixel sizes, {cell:.12g} and {other:.12g}")
        shifts = (source.transform[2] / cell - x, source.transform[5] / cell - y)
        for shift, axis in zip(shifts, "xy", strict=True):
            part = abs(shift - round(shift))
            if part > _SAME_PLACE:
                raise PlanError(
                    f"the pixels of {both} are shifted by {part * cell:.6g} in {axis}"
                    + _explained(part)
                )
    size = exact(cell)
    across, down = (_rounded(exact(one) / size) * size for one in first.transform[2:6:3])
    horizontal = crs.sub_crs_list[0] if crs.is_compound else crs
    try:
        # In files, a CRS has no area of use.
        return Grid.through(known_crs(code_of(horizontal)), size, across, down)
    except PlanError as error:
        raise PlanError(f"{first.path}: {error}") from None


def _rounded(place: Fraction) -> Fraction:
    return Fraction(round(place * _STEPS), _STEPS)


def _explained(part: float) -> str:
    if abs(part - _HALF) > _SAME_PLACE:
        return ""
    return ", half a pixel: the values of one are those of points, of the other those of areas"


def _cell(source: Source) -> float:
    """Return the size of the square pixels of a source, CRS units."""
    a, b, _, d, e, _ = source.transform
    if b or d or a <= 0 or e >= 0:
        raise PlanError(
            f"{source.path} is rotated or upside down; --tms {NATIVE} needs rows from "
            "west to east, the northernmost first"
        )
    if abs(a + e) > _SAME_CELL * a:
        raise PlanError(f"{source.path}: its pixels are not square ({a:.12g} x {-e:.12g})")
    return a


def _known(directory: Path | None) -> Iterator[tuple[Path, dict[str, Any]]]:
    for path in sorted(directory.glob("*.json")) if directory else ():
        try:
            yield path, json.loads(path.read_text("utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise PlanError(f"{path} cannot be read: {error}") from None


def _definition(document: dict[str, Any]) -> object:
    """Return what makes a set: two with the same have the same tiles."""
    keys = ("id", "cellSize", "pointOfOrigin", "tileWidth", "tileHeight")
    try:
        return document["crs"], [
            [matrix[key] for key in keys] for matrix in document["tileMatrices"]
        ]
    except (KeyError, TypeError):
        return None
