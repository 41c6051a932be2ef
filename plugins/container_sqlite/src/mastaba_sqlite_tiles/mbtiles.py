"""MBTiles 1.3: pictures or vector tiles in the grid of web maps, or in a named one."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, ClassVar, Final

from mastaba.api.catalogue import BoundingBox
from mastaba.api.containers import (
    TILE_FORMATS,
    Container,
    Context,
    OpenedContainer,
    Source,
    TileLimits,
    TileMatrixSet,
)
from mastaba.errors import ContainerFormatError
from mastaba_containers.metadata import (
    TABLES_SCHEMA,
    VectorTable,
    link_of,
    parsed_metadata,
    plain_text,
    tables_at,
    vector_tables,
    with_tables,
)
from mastaba_containers.replacement import LoadedFacts
from mastaba_containers.sets import (
    OWN,
    WEB_MERCATOR_QUAD,
    GridPlacement,
    published,
    web_mercator_box,
    web_mercator_matrix,
    web_mercator_set,
)
from mastaba_sqlite_tiles.connection import Connection
from mastaba_sqlite_tiles.database import DatabaseFile
from mastaba_sqlite_tiles.layers import (
    COMMON_OPTIONS,
    GEOPACKAGES,
    SIGNATURE,
    Grid,
    note_limits,
    opened_database,
    published_pyramid,
    raster_of,
    require_same,
)
from mastaba_sqlite_tiles.pictures import (
    STORED,
    PictureDecoder,
    common_format,
    delivery_of,
    size_of,
    type_of,
)
from mastaba_sqlite_tiles.reader import StoredLevel
from mastaba_sqlite_tiles.table import TileTable

_DEEPEST: Final = 24
_HAS_TILES: Final = "SELECT 1 FROM sqlite_master WHERE name = 'tiles' COLLATE NOCASE"
_NAMES: Final = {"jpg": "jpeg", "image/jpeg": "jpeg", "image/png": "png", "image/webp": "webp"}


class MBTiles(Container):
    """MBTiles files."""

    name = "mbtiles"
    suffixes = (".mbtiles",)
    signatures = (SIGNATURE,)
    reads = "local"
    options_schema: ClassVar[Mapping[str, Any]] = {
        **COMMON_OPTIONS,
        "scheme": {
            "type": "string",
            "enum": ["tms", "xyz"],
            "description": "Where rows are counted from: `tms`, as MBTiles says, from the bottom; "
            "`xyz` from the top.",
        },
        "tables": TABLES_SCHEMA,
    }
    cannot = frozenset(("batch", "symbolic", "history", "remote", "float", "own_grid"))

    @classmethod
    def open(cls, source: Source, options: Mapping[str, Any], context: Context) -> OpenedContainer:
        name, table = str(source), TileTable.of("tiles")
        loaded: list[Any] = []
        noted: list[LoadedFacts] = []

        def examine(connection: Connection) -> Any:
            if not connection.some(_HAS_TILES):
                is_package = connection.application in GEOPACKAGES
                kind = "a GeoPackage" if is_package else "an SQLite database, but not an MBTiles"
                raise ContainerFormatError(
                    f"{name} is {kind}", "correct its path, its suffix or its container"
                )
            table.require_index(connection)
            zooms = table.zooms(connection)
            samples = table.samples(connection, zooms)
            is_vector = samples[0].kind == "mvt"
            kinds = tuple(sorted({sample.kind for sample in samples}))
            # A file of the same kind may have other levels, but not other tiles.
            require_same(loaded, is_vector or common_format(samples, "png", name)[1], name)
            bounds: list[Any] = []
            # They are not needed to serve the file.
            with suppress(sqlite3.Error):
                bounds = connection.some("SELECT value FROM metadata WHERE name = 'bounds'")
            note_limits(noted, {"zooms": tuple(zooms), "bounds": bounds}, name)
            return tuple(zooms), tuple(samples), kinds

        file = opened_database(source, context, examine)
        contents: Any = file.generation().contents
        zooms, samples, kinds = contents
        metadata = _metadata(file, context)
        if samples[0].kind == "mvt":
            if len(kinds) > 1:
                raise ContainerFormatError(f"{name}: pictures and vector tiles in one table")
            tile_format, raster, size = TILE_FORMATS["TIFF_PBF_MVT"], None, (256, 256)
            if any(sample.coding not in (None, "gzip") for sample in samples):
                raise ContainerFormatError(f"{name}: vector tiles are not compressed with gzip")
            decoder, deliver, sent = None, None, None
        else:
            tile_format, channels = common_format(samples, options.get("format"), name)
            size, raster = size_of(samples, name), raster_of(channels, options.get("nodata"))
            decoder = PictureDecoder(tile_format, raster, *size)
            deliver = delivery_of(tile_format, decoder)
            sent = type_of if options.get("format") == STORED else None
        declared = _NAMES.get(metadata.get("format", ""), metadata.get("format", ""))
        found = "pbf" if samples[0].kind == "mvt" else samples[0].kind
        if declared and (declared not in (found, "application/x-protobuf") or len(kinds) > 1):
            context.warning(
                f"its metadata says format {declared!r}, its tiles are {', '.join(kinds)}",
                "correct the row format of its table metadata",
            )
        tables = _tables(metadata, options, context) if raster is None else []
        bounds = _bounds(metadata.get("bounds", ""), context)
        is_top_down = options.get("scheme", "tms") == "xyz"
        grids = _grids(zooms, size, bounds, file, table, options, context, tables)
        own_set, grids_at = grids
        pyramid, readers = published_pyramid(
            source,
            context,
            file,
            own_set,
            [(grid, place, 1 if is_top_down else -1) for grid, place in grids_at],
            tile_format,
            raster,
            options,
            lambda zoom, columns, rows, direction: StoredLevel(
                *(table.find, zoom, columns, rows, direction, None, deliver, decoder, sent)
            ),
            bounds if options.get("tile_matrix_set") in (None, OWN, WEB_MERCATOR_QUAD) else None,
        )
        way = (
            "as stored"
            if len(kinds) == 1 or sent
            else f"as {tile_format.extension}, others encoded"
        )
        return OpenedContainer(
            pyramid,
            readers,
            title=plain_text(metadata.get("name", "")),
            abstract=plain_text(metadata.get("description", "")),
            attribution=plain_text(metadata.get("attribution", "")),
            attribution_url=link_of(metadata.get("attribution", "")),
            report=(f"tiles of the kinds {', '.join(kinds)} in {own_set.id}, delivered {way}",),
        )


def _metadata(file: DatabaseFile, context: Context) -> dict[str, str]:
    """Return the rows of the table metadata; the last one of each name."""
    with file.reading() as (_, connection):
        names = connection.some(
            "SELECT 1 FROM sqlite_master WHERE name = 'metadata' AND type IN ('table', 'view')"
        )
        if not names:
            context.warning("it has no table metadata", "add the table, with a name and a format")
            return {}
        rows = connection.some("SELECT name, value FROM metadata")
    return {str(name): str(value) for name, value in rows if value is not None}


def _tables(
    metadata: Mapping[str, str], options: Mapping[str, Any], context: Context
) -> list[VectorTable]:
    if "tables" in options:
        return vector_tables(with_tables({}, options))
    text = metadata.get("json", "")
    try:
        return vector_tables(parsed_metadata(text.encode(errors="replace")))
    except ContainerFormatError as error:
        context.warning(
            f"the row json does not describe its vector tiles: {error}", "write vector_layers"
        )
        return []


def _bounds(text: str, context: Context) -> BoundingBox | None:
    """Return the row bounds in Web Mercator; None if it is absent or invalid."""
    if not text:
        return None
    try:
        west, south, east, north = map(float, text.split(","))
    except ValueError:
        west = math.nan
    if not (math.isfinite(west) and -180 <= west < east <= 180 and -90 <= south < north <= 90):
        context.warning(f"its bounds {text[:80]!r} are not a box", "correct the row bounds")
        return None
    return web_mercator_box(west, south, east, north)


def _grids(
    zooms: tuple[int, ...],
    size: tuple[int, int],
    bounds: BoundingBox | None,
    file: DatabaseFile,
    table: TileTable,
    options: Mapping[str, Any],
    context: Context,
    tables: list[VectorTable],
) -> tuple[TileMatrixSet, list[tuple[Grid, GridPlacement]]]:
    """Return the published set, and the zooms with their places in it."""
    wanted = options.get("tile_matrix_set")
    named = None
    if wanted not in (None, OWN):
        named = context.named_set(wanted)
    elif "crs" in options and options["crs"].upper() not in ("EPSG:3857", "EPSG:900913"):
        raise ContainerFormatError(
            f"{file.name}: the grid of {options['crs']} is not known",
            "name the set with the option tile_matrix_set",
        )
    if named is None and size[0] != size[1]:
        raise ContainerFormatError(f"{file.name}: its tiles have {size} pixels: not square")
    grids: list[Grid] = []
    with file.reading() as (_, connection):
        for zoom in zooms:
            if named is not None:
                matrix = named.matrices.get(str(zoom))
                if matrix is None or (matrix.tile_width, matrix.tile_height) != size:
                    raise ContainerFormatError(
                        f"{file.name}: {named.id} has no matrix {zoom} with tiles of {size} pixels"
                    )
                box = None
            elif zoom > _DEEPEST:
                context.warning(f"zoom {zoom} is deeper than {_DEEPEST}", "it is left out")
                continue
            else:
                matrix, box = web_mercator_matrix(zoom, size[0]), bounds
            limits = matrix.all_tiles if box is None else matrix.limits_of(box) or matrix.all_tiles
            columns = table.columns(connection, zoom)
            if columns is not None:
                low = min(max(columns[0], 0), matrix.matrix_width - 1)
                high = min(max(columns[1], low), matrix.matrix_width - 1)
                if box is None:
                    limits = TileLimits(limits.min_row, limits.max_row, low, high)
                elif low < limits.min_col or high > limits.max_col:
                    context.warning(
                        f"its bounds leave out tiles of zoom {zoom}", "correct the row bounds"
                    )
                    limits = TileLimits(0, matrix.matrix_height - 1, low, high)
            grids.append(Grid(zoom, matrix, limits, None, tables_at(tables, zoom)))
    if not grids:
        raise ContainerFormatError(f"{file.name} contains no tiles")
    if named is not None:
        return named, [(grid, GridPlacement(grid.matrix)) for grid in grids]
    complete = web_mercator_set(size[0])
    own = TileMatrixSet.of(complete.id, complete.crs, [grid.matrix for grid in grids])
    match = published(context, own, {grid.matrix.id: grid.limits for grid in grids}, wanted)
    known = match.tile_matrix_set
    return (
        # All zooms: other files share the set.
        complete if known is own else known,
        [(grid, match.places[grid.matrix.id]) for grid in grids],
    )
