"""``mastaba tile LAYER SET MATRIX ROW COL``: where a tile is, or why it is missing."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from mastaba.api.catalogue import Catalogue, Layer
from mastaba.api.commands import failed
from mastaba.api.containers import TileReader
from mastaba.api.documents import Faults
from mastaba.api.slabs import LevelReader
from mastaba.api.storages import Environment
from mastaba.errors import ConfigurationError, MastabaError, escaped
from mastaba.tooling.documents import did_you_mean, load_catalogue, load_server
from mastaba.tooling.slabs import TileLookup, TileState, look_up
from mastaba_doctor.slab_report import size_mismatch

if TYPE_CHECKING:
    from mastaba.api.tools import Plugins

_WORDS: Final = {
    TileState.STORED: "stored",
    TileState.ABSENT: "absent: the index of the slab says that it is not stored",
    TileState.EMPTY_SLAB: "absent: the slab is empty",
    TileState.NO_SLAB: "absent: the slab does not exist",
    TileState.OUTSIDE: "outside the limits of the level",
}


def run(arguments: argparse.Namespace) -> int:
    """Describe a tile; return 0 if it is stored and its slab fits the descriptor, else 1."""
    faults = Faults()
    plugins: Plugins = arguments.plugins
    try:
        server = load_server(arguments.file, plugins, faults)
        catalogue = load_catalogue(server, plugins, Environment(), faults)
    except ConfigurationError as error:
        return failed(*error.faults)
    try:
        return _described(catalogue, arguments, faults)
    except MastabaError as error:
        return failed(error)
    finally:
        catalogue.storages.close()


def _described(catalogue: Catalogue, arguments: argparse.Namespace, faults: Faults) -> int:
    name, matrix = arguments.layer, arguments.matrix
    layer = catalogue.layers.get(name)
    if layer is None:
        if name in catalogue.missing_layers:
            return failed(f"the layer {name!r} is not published because of errors", *faults.errors)
        return failed(_unknown("layer", name, catalogue.layers))
    tile_matrix_set = layer.pyramid.tile_matrix_set
    if arguments.set != tile_matrix_set.id:
        return failed(
            f"the layer {name!r} is stored in the tile matrix set {tile_matrix_set.id!r} only; "
            "tiles of other sets are drawn from it"
        )
    level = layer.pyramid.levels.get(matrix)
    if level is None:
        if matrix in tile_matrix_set.matrices:
            levels = ", ".join(layer.pyramid.levels)
            return failed(f"the layer {name!r} has no level {matrix!r} (levels: {levels})")
        known = tile_matrix_set.matrices
        return failed(_unknown(f"matrix in {tile_matrix_set.id} with the id", matrix, known))
    limits = level.limits
    _line("layer", f"{name}, {layer.pyramid.format.name}{_hidden(layer)}")
    _line(
        "tile",
        f"matrix {matrix} of {tile_matrix_set.id}, row {arguments.row}, column {arguments.col}",
    )
    _line(
        "limits",
        f"rows {limits.min_row} to {limits.max_row}, columns {limits.min_col} to {limits.max_col}",
    )
    _line("", f"set by {level.limits_from}")
    reader = catalogue.readers[name][matrix]
    problem = _print_slab(reader, arguments.row, arguments.col)
    found = look_up(reader, arguments.row, arguments.col)
    _print_state(found)
    return 0 if found.state is TileState.STORED and not problem else 1


def _print_slab(reader: TileReader, row: int, col: int) -> bool:
    """Describe the slab; return whether its size contradicts the descriptor."""
    level = reader.level
    slab, number = reader.place_of(row, col)
    size = level.tiles_per_width, level.tiles_per_height
    name = reader.name_of(slab)
    if not isinstance(reader, LevelReader):
        _line("file", name)
        return False
    _line("slab", name)
    _line("", f"tile {number} of {size[0]} × {size[1]}")
    index = reader.index(slab)
    if index is None:
        return False
    if index.name != name:
        _line("", f"a link to {index.name}")
    problem = size_mismatch(index.storage, index.key, *size)
    if problem is not None:
        _line("PROBLEM", problem)
    return problem is not None


def _print_state(found: TileLookup) -> None:
    stored = found.state is TileState.STORED
    place = f", {found.size} bytes at {found.offset}" if stored else ""
    _line("state", _WORDS[found.state] + place)
    if found.state is not TileState.OUTSIDE:
        _line("", f"according to {found.said_by}")


def _hidden(layer: Layer) -> str:
    hidden = ", ".join(sorted(layer.hidden_from))
    return f", not published in {hidden}" if hidden else ""


def _unknown(kind: str, name: str, known: Iterable[str]) -> str:
    question = did_you_mean(name, known)
    return f"there is no {kind} {name!r}" + (f"; {question}" if question else "")


def _line(label: str, text: str) -> None:
    print(escaped(f"{label:<10} {text}"))
