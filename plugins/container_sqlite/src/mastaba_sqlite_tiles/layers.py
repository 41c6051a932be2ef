"""From the facts of a database to a pyramid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

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
from mastaba.errors import ContainerFormatError, StorageUnavailableError
from mastaba_containers.heads import check_signature
from mastaba_containers.sets import Place
from mastaba_sqlite_tiles.database import DatabaseFile
from mastaba_sqlite_tiles.reader import BLOCK, DatabaseReader, StoredLevel

if TYPE_CHECKING:
    from collections.abc import Callable

SIGNATURE = b"SQLite format 3\0"
GEOPACKAGES = frozenset((0x47504B47, 0x47503130, 0x47503131))
"""Values of ``application_id`` of GeoPackages: GPKG, and GP10 and GP11 of earlier versions."""


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


def local_path(source: Source) -> str:
    """Return the path of a database.

    Raises:
        ContainerFormatError: it is in another storage than files.
        StorageError: it does not exist.
    """
    path = source.local_path
    if path is None:
        raise ContainerFormatError(
            f"{source} is an SQLite database, which can only be read from the file system",
            "copy it there, or convert it to PMTiles",
        )
    source.storage.stat(path)
    return path


def require_database(source: Source, file: DatabaseFile) -> None:
    """Open a database for the first time.

    Raises:
        ContainerFormatError: the file is something else, and the message says what.
        StorageError: it cannot be read.
    """
    try:
        file.generation()
    except ContainerFormatError:
        # Not read before: closing a descriptor releases the locks of this process.
        with open(file.path, "rb") as data:
            check_signature(source, data.read(16), (SIGNATURE,))
        raise


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


def published_pyramid(
    source: Source,
    context: Context,
    file: DatabaseFile,
    tile_matrix_set: TileMatrixSet,
    grids: Sequence[tuple[Grid, Place, int]],
    tile_format: TileFormat,
    raster: RasterSpecification | None,
    options: Mapping[str, Any],
    store: Callable[[int, int, int, int], StoredLevel],
) -> tuple[Pyramid, Mapping[str, MakeReader]]:
    """Return the pyramid of a table of tiles, and what makes its readers.

    Args:
        grids: zooms, their places in the set, and the direction of stored rows: 1 if they are
            counted from the top, -1 from the bottom.
        store: returns a `StoredLevel` for zoom, added columns, added rows and direction.
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
    name = source.path.key.rpartition("/")[2]
    stem = name.rpartition(".")[0] or name
    version = file.generation().version
    pyramid = Pyramid(
        stem,
        tile_matrix_set,
        tile_format,
        raster,
        MappingProxyType(levels),
        digest_of([tile_format.name, dict(options), version]),
    )
    return pyramid, MappingProxyType(readers)


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
            "enum": ["png", "jpeg", "webp"],
            "description": "Format in which all pictures are delivered. By default, that of the "
            "file; PNG if it contains several.",
        },
    }
)
