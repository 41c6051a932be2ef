"""From the facts of a database to a pyramid."""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from time import time
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mastaba.api.catalogue import BoundingBox
from mastaba.api.containers import (
    Context,
    Level,
    MakeReader,
    Pyramid,
    RasterSpecification,
    Source,
    Table,
    TileFormat,
    TileLimits,
    TileMatrix,
    TileMatrixSet,
    digest_of,
)
from mastaba.api.storages import Environment
from mastaba.errors import ContainerFormatError, StorageUnavailableError
from mastaba_containers.heads import check_signature, head
from mastaba_containers.replacement import LoadedFacts
from mastaba_containers.sets import GridPlacement, stem_of
from mastaba_sqlite_tiles.connection import Connection
from mastaba_sqlite_tiles.database import DatabaseFile
from mastaba_sqlite_tiles.pictures import STORED
from mastaba_sqlite_tiles.reader import BLOCK, DatabaseReader, StoredLevel
from mastaba_sqlite_tiles.staging import StagedFile, Staging

if TYPE_CHECKING:
    from collections.abc import Callable

SIGNATURE = b"SQLite format 3\0"
GEOPACKAGES = frozenset((0x47504B47, 0x47503130, 0x47503131))
"""Values of ``application_id`` of GeoPackages: GPKG, and GP10 and GP11 of earlier versions."""
_YOUNG = 60.0
"""Seconds. What changes in a file that is read without locks is not seen, or seen in part."""


@dataclass(frozen=True, slots=True)
class Grid:
    """One zoom of a table of tiles.

    Attributes:
        zoom: value of zoom_level.
        matrix: the grid as the file has it; its identifier is the zoom.
        limits: the tiles that may exist.
        window: see `Level`.
        tables: of vector tiles.
    """

    zoom: int
    matrix: TileMatrix
    limits: TileLimits
    window: tuple[int, int] | None = None
    tables: tuple[Table, ...] = ()


def opened_database(
    source: Source, context: Context, examine: Callable[[Connection], Hashable]
) -> DatabaseFile:
    """Open a database for the first time; one in an object store is copied before.

    Args:
        examine: as of `DatabaseFile`.

    Raises:
        ContainerFormatError: it is something else, and the message says what; or it is in an object
            store, and no directory is set for copies.
        StorageError: it cannot be read.
    """
    name, path = str(source), source.local_path
    file: DatabaseFile
    if path is not None:
        source.storage.stat(path)
        file = DatabaseFile(path, name, examine)
    else:
        staging = Staging.from_environment(Environment())
        if staging is None:
            raise ContainerFormatError(
                f"{name} is an SQLite database, which can only be read from the file system",
                "copy it there, set MASTABA_STAGING_DIRECTORY, or convert it to PMTiles",
            )
        head(source, len(SIGNATURE), (SIGNATURE,))
        use = staging.use(name)
        try:
            staging.update(source.storage, source.key, name, waits=True)
            file = StagedFile(
                *(staging, source.storage, source.key, context.indices, name, examine)
            )
        finally:
            os.close(use)
    try:
        generation = file.generation()
    except ContainerFormatError:
        # Not read before: closing a descriptor releases the locks of this process.
        with open(file.path, "rb") as data:
            check_signature(source, data.read(16), (SIGNATURE,))
        raise
    if path is not None and generation.is_immutable and time() - generation.modified < _YOUNG:
        context.warning(
            "it was written less than a minute ago, perhaps in place",
            "write files beside their place, and rename them",
        )
    return file


def require_same(loaded: list[Any], found: Any, name: str) -> None:
    """Refuse a file with another grid or kind of tiles that has taken the place of the first one.

    Args:
        loaded: facts of the first file; empty until then.
        found: facts of the present file.

    Raises:
        StorageUnavailableError: they differ.
    """
    if not loaded:
        loaded.append(found)
    elif loaded[0] != found:
        raise StorageUnavailableError(
            f"{name} was replaced by a file with another grid or another kind of tiles: "
            "reload to publish it"
        )


def note_limits(loaded: list[LoadedFacts], facts: Mapping[str, object], name: str) -> None:
    """Tell operators of a file with other levels or bounds that has taken the place of the first.

    Args:
        loaded: facts of the first file; empty until then.
        facts: of the present file.
    """
    if not loaded:
        loaded.append(LoadedFacts(name, facts))
    loaded[0].compare(facts, tuple(facts.values()))


def published_pyramid(
    source: Source,
    context: Context,
    file: DatabaseFile,
    tile_matrix_set: TileMatrixSet,
    grids: Sequence[tuple[Grid, GridPlacement, int]],
    tile_format: TileFormat,
    raster: RasterSpecification | None,
    options: Mapping[str, Any],
    store: Callable[[int, int, int, int], StoredLevel],
    bbox: BoundingBox | None,
) -> tuple[Pyramid, Mapping[str, MakeReader]]:
    """Return the pyramid of a table of tiles, and what makes its readers.

    Args:
        grids: zooms, their places in the set, and the direction of stored rows: 1 if they are
            counted from the top, -1 from the bottom.
        store: returns a `StoredLevel` for zoom, added columns, added rows and direction.
        bbox: of the data as the file says; not used if it leaves out tiles.
    """
    levels: dict[str, Level] = {}
    readers: dict[str, MakeReader] = {}
    for grid, place, direction in sorted(grids, key=lambda one: -one[1].matrix.cell_size):
        window = grid.window
        if window is not None:
            window = (
                window[0] + place.columns * grid.matrix.tile_width,
                window[1] + place.rows * grid.matrix.tile_height,
            )
        level = Level(
            matrix=place.matrix,
            tiles_per_width=BLOCK,
            tiles_per_height=BLOCK,
            limits=place.limits(grid.limits),
            tables=grid.tables,
            limits_from=str(source),
            window=window,
        )
        rows = -place.rows
        if direction < 0:
            rows = grid.matrix.matrix_height - 1 + place.rows
        levels[place.matrix.id] = level
        readers[place.matrix.id] = partial(
            DatabaseReader,
            storage=source.storage,
            indices=context.indices,
            file=file,
            stored=store(grid.zoom, -place.columns, rows, direction),
        )
    version = file.generation().version
    pyramid = Pyramid(
        stem_of(source),
        tile_matrix_set,
        tile_format,
        raster,
        MappingProxyType(levels),
        digest_of([tile_format.name, dict(options), version]),
        bbox=bbox if bbox and all(_is_within(level, bbox) for level in levels.values()) else None,
    )
    return pyramid, MappingProxyType(readers)


def _is_within(level: Level, bbox: BoundingBox) -> bool:
    inside = level.matrix.limits_of(bbox)
    return inside is not None and inside.intersection(level.limits) == level.limits


def raster_of(channels: int, nodata: Any) -> RasterSpecification:
    """Return the properties of pictures.

    Args:
        nodata: option of that name: a number, or one for each channel.
    """
    if nodata is None:
        values = (0.0,) * channels if channels in (2, 4) else (255.0,) * channels
    else:
        given = nodata if isinstance(nodata, list) else [nodata] * channels
        if len(given) != channels:
            raise ContainerFormatError(
                f"the option nodata has {len(given)} values for {channels} channels"
            )
        values = tuple(map(float, given))
    return RasterSpecification(channels, values, "gray" if channels < 3 else "rgb")


COMMON_OPTIONS: Mapping[str, Any] = MappingProxyType(
    {
        "crs": {
            "type": "string",
            "description": "CRS of the tiles, if the file does not say it, as AUTHORITY:CODE.",
        },
        "tile_matrix_set": {
            "type": "string",
            "description": "Identifier of the tile matrix set that has the grid of the file; `own` "
            "for a set of its own. By default, a known set is used if one has this grid.",
        },
        "nodata": {
            "description": "Value of pixels without data, or one for each channel.",
            "type": ["number", "array"],
            "items": {"type": "number"},
        },
        "format": {
            "type": "string",
            "enum": ["png", "jpeg", "webp", STORED],
            "description": "Format in which all pictures are delivered. By default, that of the "
            "file; PNG if it contains several. With `stored`, each is sent as it is, with its own "
            "media type.",
        },
    }
)
