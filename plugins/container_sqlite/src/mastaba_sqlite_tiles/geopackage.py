"""GeoPackage: tables of pictures, and gridded coverages (OGC 12-128r17, 17-066r1)."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from mastaba.api.catalogue import CRS, BoundingBox
from mastaba.api.containers import (
    TILE_FORMATS,
    Container,
    Context,
    OpenedContainer,
    RasterSpecification,
    Source,
    TileLimits,
    TileMatrix,
    TileMatrixSet,
)
from mastaba.errors import ContainerFormatError, MastabaError
from mastaba_containers.metadata import plain_text
from mastaba_containers.replacement import LoadedFacts
from mastaba_containers.sets import free_identifier, published, stem_of
from mastaba_sqlite_tiles.connection import Connection
from mastaba_sqlite_tiles.coverage import Coverage, CoverageDecoding
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
from mastaba_sqlite_tiles.table import MAX_ZOOM, TileTable

_KINDS: Final = ("tiles", "2d-gridded-coverage")
_EQUAL: Final = 1e-6
_MAX_SIDE: Final = 1 << 31
_SIDES: Final = range(16, 4097)


@dataclass(frozen=True, slots=True)
class _Contents:
    """What a table of tiles is, as the tables of the package say."""

    table: str
    kind: str
    title: str
    abstract: str
    box: tuple[float, ...] | None
    crs: str
    corner: tuple[float, float]
    extent: tuple[float, float]
    matrices: tuple[tuple[int, int, int, int, int, float, float], ...]
    coverage: Coverage | None


class GeoPackage(Container):
    """GeoPackage files."""

    name = "geopackage"
    suffixes = (".gpkg",)
    signatures = (SIGNATURE,)
    reads = "local"
    options_schema: ClassVar[Mapping[str, Any]] = {
        "table": {
            "type": "string",
            "description": "Table of tiles; required if the file has several.",
        },
        **COMMON_OPTIONS,
    }
    cannot = frozenset(("batch", "symbolic", "history", "remote", "vector"))

    @classmethod
    def open(cls, source: Source, options: Mapping[str, Any], context: Context) -> OpenedContainer:
        name = str(source)
        loaded: list[Any] = []
        noted: list[LoadedFacts] = []

        def examine(connection: Connection) -> Any:
            contents = _contents(connection, options)
            table = _table(contents)
            table.require_index(connection)
            require_same(loaded, replace(contents, title="", abstract="", box=None), name)
            note_limits(noted, {"bounds": contents.box}, name)
            return contents

        file = opened_database(source, context, examine)
        contents = file.generation().contents
        assert isinstance(contents, _Contents)
        table = _table(contents)
        with file.reading() as (_, connection):
            zooms = [row[0] for row in contents.matrices]
            samples = [] if contents.coverage else table.samples(connection, zooms)
            grids = _grids(contents, connection, table, context)
        crs = _crs(contents.crs, name)
        own = TileMatrixSet.of(
            free_identifier(context, crs, stem_of(source)), crs, [grid.matrix for grid in grids]
        )
        limits = {grid.matrix.id: grid.limits for grid in grids}
        match = published(context, own, limits, options.get("tile_matrix_set"))
        store: Callable[[int, int, int, int], StoredLevel]
        if contents.coverage is not None:
            coverage = contents.coverage
            nodata = float(options.get("nodata", coverage.nodata))
            tile_format = TILE_FORMATS["TIFF_RAW_FLOAT32"]
            raster = RasterSpecification(1, (nodata,), "gray")
            sizes = {grid.zoom: (grid.matrix.tile_width, grid.matrix.tile_height) for grid in grids}

            def store(zoom: int, columns: int, rows: int, direction: int) -> StoredLevel:
                decode = CoverageDecoding(coverage, sizes[zoom], nodata, name)
                return StoredLevel(table.find, zoom, columns, rows, direction, decode)

            kinds, way = coverage.datatype, "decoded to float32"
        else:
            size = size_of(samples, name)
            if any((grid.matrix.tile_width, grid.matrix.tile_height) != size for grid in grids):
                raise ContainerFormatError(f"{name}: gpkg_tile_matrix has other sizes of tiles")
            tile_format, channels = common_format(samples, options.get("format"), name)
            raster = raster_of(channels, options.get("nodata"))
            decoder = PictureDecoder(tile_format, raster, *size)
            deliver = delivery_of(tile_format, decoder)
            sent = type_of if options.get("format") == STORED else None

            def store(zoom: int, columns: int, rows: int, direction: int) -> StoredLevel:
                return StoredLevel(
                    *(table.find, zoom, columns, rows, direction, None, deliver, decoder, sent)
                )

            kinds = ", ".join(sorted({sample.kind for sample in samples}))
            way = "as stored" if "," not in kinds or sent else f"as {tile_format.extension}"
        pyramid, readers = published_pyramid(
            source,
            context,
            file,
            match.tile_matrix_set,
            [(grid, match.places[grid.matrix.id], 1) for grid in grids],
            tile_format,
            raster,
            options,
            store,
            _box(contents, grids[0].matrix),
        )
        return OpenedContainer(
            pyramid,
            readers,
            title=plain_text(contents.title),
            abstract=plain_text(contents.abstract),
            report=(f"{kinds} tiles in {match.tile_matrix_set.id}, delivered {way}",),
        )


def _box(contents: _Contents, matrix: TileMatrix) -> BoundingBox | None:
    """Return the box of the data, as far as there can be tiles."""
    whole = matrix.bbox_of(matrix.all_tiles)
    return BoundingBox(*contents.box).intersection(whole) if contents.box else None


def _table(contents: _Contents) -> TileTable:
    make = TileTable.of if contents.coverage is None else TileTable.of_coverage
    return make(contents.table)


def _contents(connection: Connection, options: Mapping[str, Any]) -> _Contents:
    """Read the tables of a package.

    Raises:
        ContainerFormatError: it is not a package, or its tiles cannot be published.
    """
    name = connection.name
    if connection.application not in GEOPACKAGES:
        raise ContainerFormatError(
            f"{name} is an SQLite database, but not a GeoPackage",
            "correct its path, or its container",
        )
    rows = connection.some(
        "SELECT table_name, data_type, identifier, description, min_x, min_y, max_x, max_y, srs_id "
        "FROM gpkg_contents WHERE data_type IN ('tiles', '2d-gridded-coverage') "
        "ORDER BY table_name"
    )
    wanted = options.get("table")
    names = ", ".join(str(row[0]) for row in rows)
    chosen = [row for row in rows if wanted in (None, row[0])]
    if not chosen:
        raise ContainerFormatError(f"{name}: no such table of tiles; it has: {names or 'none'}")
    if len(chosen) > 1:
        raise ContainerFormatError(
            f"{name} has several tables of tiles: {names}", "name one with the option table"
        )
    table, kind, title, abstract, *box, _ = chosen[0]
    grid = connection.one(
        "SELECT srs_id, min_x, min_y, max_x, max_y FROM gpkg_tile_matrix_set WHERE table_name = ?",
        (table,),
    )
    if grid is None or not all(map(_is_number, grid)):
        raise ContainerFormatError(f"{name}: gpkg_tile_matrix_set has no box of {table}")
    number, min_x, min_y, max_x, max_y = grid
    system = connection.one(
        "SELECT organization, organization_coordsys_id FROM gpkg_spatial_ref_sys WHERE srs_id = ?",
        (number,),
    )
    crs = options.get("crs")
    if crs is None and number not in (-1, 0) and system is not None:
        crs = f"{system[0]}:{system[1]}".upper()
    if crs is None:
        raise ContainerFormatError(
            f"{name}: the reference system of {table} is undefined", "name it with the option crs"
        )
    matrices = connection.some(
        "SELECT zoom_level, matrix_width, matrix_height, tile_width, tile_height, pixel_x_size, "
        "pixel_y_size FROM gpkg_tile_matrix WHERE table_name = ? ORDER BY zoom_level",
        (table,),
    )
    if not 0 < len(matrices) <= MAX_ZOOM + 1:
        raise ContainerFormatError(f"{name}: gpkg_tile_matrix has {len(matrices)} zooms of {table}")
    coverage = _coverage(connection, table) if kind == _KINDS[1] else None
    return _Contents(
        str(table),
        kind,
        str(title or table),
        str(abstract or ""),
        tuple(map(float, box)) if all(map(_is_number, box)) else None,
        str(crs),
        (float(min_x), float(max_y)),
        (float(max_x) - float(min_x), float(max_y) - float(min_y)),
        tuple(matrices),
        coverage,
    )


def _coverage(connection: Connection, table: str) -> Coverage:
    row = connection.one(
        "SELECT datatype, scale, offset, data_null, grid_cell_encoding "
        "FROM gpkg_2d_gridded_coverage_ancillary WHERE tile_matrix_set_name = ?",
        (table,),
    )
    if row is None:
        raise ContainerFormatError(
            f"{connection.name}: gpkg_2d_gridded_coverage_ancillary has no row for {table}"
        )
    datatype, scale, offset, null, encoding = row
    if encoding == "grid-value-is-corner":
        raise ContainerFormatError(
            f"{connection.name}: the values of {table} belong to corners of cells",
            "convert it to a coverage whose values belong to centres",
        )
    scale, offset = (1.0 if scale is None else scale), (0.0 if offset is None else offset)
    if datatype not in ("integer", "float") or not (_is_number(scale) and _is_number(offset)):
        raise ContainerFormatError(f"{connection.name}: the coverage {table} is invalid")
    null = float(null) if _is_number(null) and _is_float32(null) else None
    return Coverage(datatype, float(scale), float(offset), null)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _is_float32(value: float) -> bool:
    """Return whether a number is finite when it is rounded to 32 bits."""
    try:
        struct.pack("<f", value)
    except OverflowError:
        return False
    return True


def _crs(code: str, name: str) -> CRS:
    try:
        return CRS.from_code(code)
    except (MastabaError, ValueError) as error:
        raise ContainerFormatError(
            f"{name}: the reference system {code} is unknown", "name it with the option crs"
        ) from error


def _grids(
    contents: _Contents, connection: Connection, table: TileTable, context: Context
) -> list[Grid]:
    """Return the zooms that have tiles."""
    used = set(table.zooms(connection))
    grids = []
    name = contents.table
    for row in contents.matrices:
        if not all(map(_is_number, row)):
            raise ContainerFormatError(f"{connection.name}: a matrix of {name} is invalid")
        zoom, *sizes = row
        width, height, tile_width, tile_height = map(int, sizes[:4])
        cell, cell_y = map(float, sizes[4:])
        if (
            not all(0 < side <= _MAX_SIDE for side in (width, height))
            or tile_width not in _SIDES
            or tile_height not in _SIDES
            or cell <= 0
        ):
            raise ContainerFormatError(f"{connection.name}: the matrix {zoom} of {name} is invalid")
        if abs(cell - cell_y) > _EQUAL * cell:
            raise ContainerFormatError(
                f"{connection.name}: the pixels of matrix {zoom} are not square", "resample it"
            )
        spans = width * tile_width * cell, height * tile_height * cell
        if any(
            abs(span - side) > _EQUAL * side
            for span, side in zip(spans, contents.extent, strict=True)
        ):
            context.warning(
                f"the matrix {zoom} of {name} does not fill its box",
                "correct gpkg_tile_matrix_set; the upper left corner and the pixels count",
            )
        if zoom not in used:
            continue
        matrix = TileMatrix(
            *(str(zoom), cell, *contents.corner, tile_width, tile_height, width, height)
        )
        limits, window = matrix.all_tiles, None
        if contents.box is not None:
            box = BoundingBox(*contents.box)
            inside = matrix.limits_of(box)
            columns = table.columns(connection, zoom)
            if inside is not None and (
                columns is None or (inside.min_col <= columns[0] and columns[1] <= inside.max_col)
            ):
                limits = inside
                window = (
                    min(width * tile_width, _pixels(box.xmax - matrix.origin_x, cell)),
                    min(height * tile_height, _pixels(matrix.origin_y - box.ymin, cell)),
                )
            elif columns is not None:
                context.warning(
                    f"the box of {name} leaves out tiles of zoom {zoom}", "correct gpkg_contents"
                )
                low, high = max(0, columns[0]), min(width - 1, columns[1])
                limits = TileLimits(0, height - 1, low, max(low, high))
        if window == (width * tile_width, height * tile_height):
            window = None
        grids.append(Grid(zoom, matrix, limits, window))
    if not grids:
        raise ContainerFormatError(f"{connection.name}: {name} contains no tiles")
    return grids


def _pixels(length: float, cell: float) -> int:
    return math.ceil(length / cell - 1e-3)
