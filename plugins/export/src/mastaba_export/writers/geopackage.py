"""GeoPackage 1.3: tiles, or float values as a gridded coverage (OGC 12-128r17, 17-066r1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyproj

from mastaba_export.formats import GRIDDED_TILES
from mastaba_export.writers.metadata import described
from mastaba_export.writers.sqlite import SQLiteWriter

if TYPE_CHECKING:
    from mastaba.api.catalogue import BoundingBox
    from mastaba_export.plan import Unit
    from mastaba_export.sources import Batch

_TABLE: Final = "map"
_APPLICATION: Final = 0x47504B47
_VERSION: Final = 10300
_FIRST_OWN: Final = 100_000
"""Numbers of reference systems without a number of EPSG."""
_GRIDDED: Final = "http://docs.opengeospatial.org/is/17-066r1/17-066r1.html"
_SPECIFICATION: Final = "http://www.geopackage.org/spec130/"
_UNIQUE_TIME: Final = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"

_TABLES: Final = (
    "CREATE TABLE gpkg_spatial_ref_sys (srs_name TEXT NOT NULL, srs_id INTEGER PRIMARY KEY, "
    "organization TEXT NOT NULL, organization_coordsys_id INTEGER NOT NULL, "
    "definition TEXT NOT NULL, description TEXT)",
    "CREATE TABLE gpkg_contents (table_name TEXT NOT NULL PRIMARY KEY, data_type TEXT NOT NULL, "
    "identifier TEXT UNIQUE, description TEXT DEFAULT '', last_change DATETIME NOT NULL "
    f"DEFAULT ({_UNIQUE_TIME}), min_x DOUBLE, min_y DOUBLE, max_x DOUBLE, max_y DOUBLE, "
    "srs_id INTEGER, CONSTRAINT fk_gc_r_srs_id FOREIGN KEY (srs_id) "
    "REFERENCES gpkg_spatial_ref_sys(srs_id))",
    "CREATE TABLE gpkg_tile_matrix_set (table_name TEXT NOT NULL PRIMARY KEY, "
    "srs_id INTEGER NOT NULL, min_x DOUBLE NOT NULL, min_y DOUBLE NOT NULL, "
    "max_x DOUBLE NOT NULL, max_y DOUBLE NOT NULL, CONSTRAINT fk_gtms_table_name "
    "FOREIGN KEY (table_name) REFERENCES gpkg_contents(table_name), CONSTRAINT fk_gtms_srs "
    "FOREIGN KEY (srs_id) REFERENCES gpkg_spatial_ref_sys (srs_id))",
    "CREATE TABLE gpkg_tile_matrix (table_name TEXT NOT NULL, zoom_level INTEGER NOT NULL, "
    "matrix_width INTEGER NOT NULL, matrix_height INTEGER NOT NULL, tile_width INTEGER NOT NULL, "
    "tile_height INTEGER NOT NULL, pixel_x_size DOUBLE NOT NULL, pixel_y_size DOUBLE NOT NULL, "
    "CONSTRAINT pk_ttm PRIMARY KEY (table_name, zoom_level), CONSTRAINT fk_tmm_table_name "
    "FOREIGN KEY (table_name) REFERENCES gpkg_contents(table_name))",
    "CREATE TABLE gpkg_extensions (table_name TEXT, column_name TEXT, "
    "extension_name TEXT NOT NULL, definition TEXT NOT NULL, scope TEXT NOT NULL, "
    "CONSTRAINT ge_tce UNIQUE (table_name, column_name, extension_name))",
    f"CREATE TABLE {_TABLE} (id INTEGER PRIMARY KEY AUTOINCREMENT, zoom_level INTEGER NOT NULL, "
    "tile_column INTEGER NOT NULL, tile_row INTEGER NOT NULL, tile_data BLOB NOT NULL, "
    "UNIQUE (zoom_level, tile_column, tile_row))",
)
_COVERAGE_TABLES: Final = (
    "CREATE TABLE gpkg_2d_gridded_coverage_ancillary (id INTEGER PRIMARY KEY AUTOINCREMENT "
    "NOT NULL, tile_matrix_set_name TEXT NOT NULL UNIQUE, datatype TEXT NOT NULL "
    "DEFAULT 'integer', scale REAL NOT NULL DEFAULT 1.0, offset REAL NOT NULL DEFAULT 0.0, "
    "precision REAL DEFAULT 1.0, data_null REAL, grid_cell_encoding TEXT "
    "DEFAULT 'grid-value-is-center', uom TEXT, field_name TEXT DEFAULT 'Height', "
    "quantity_definition TEXT DEFAULT 'Height', CONSTRAINT fk_g2dgtct_name "
    "FOREIGN KEY (tile_matrix_set_name) REFERENCES gpkg_tile_matrix_set (table_name), "
    "CHECK (datatype IN ('integer', 'float')))",
    "CREATE TABLE gpkg_2d_gridded_tile_ancillary (id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, "
    "tpudt_name TEXT NOT NULL, tpudt_id INTEGER NOT NULL, scale REAL NOT NULL DEFAULT 1.0, "
    "offset REAL NOT NULL DEFAULT 0.0, min REAL DEFAULT NULL, max REAL DEFAULT NULL, "
    "mean REAL DEFAULT NULL, std_dev REAL DEFAULT NULL, CONSTRAINT fk_g2dgtat_name "
    "FOREIGN KEY (tpudt_name) REFERENCES gpkg_contents(table_name), UNIQUE (tpudt_name, tpudt_id))",
)


class GeoPackageWriter(SQLiteWriter):
    """Writes GeoPackage, with one table of tiles."""

    @property
    def _is_coverage(self) -> bool:
        return self.plan.kind is not None and self.plan.kind.media_type == GRIDDED_TILES

    def create(self) -> None:
        self.run(f"PRAGMA application_id = {_APPLICATION}")
        self.run(f"PRAGMA user_version = {_VERSION}")
        for statement in (*_TABLES, *(_COVERAGE_TABLES if self._is_coverage else ())):
            self.run(statement)
        self._add_systems()
        self._add_matrices()
        self._add_extensions()

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        self.run(f"DELETE FROM {_TABLE} WHERE id > ?", (self.last,))  # noqa: S608 - a constant
        if self._is_coverage:
            self.run("DELETE FROM gpkg_2d_gridded_tile_ancillary WHERE tpudt_id > ?", (self.last,))

    def undo(self, units: Iterable[Unit]) -> None:
        """Do nothing: every row has a number of its own."""

    def add(self, unit: Unit, batch: Batch) -> None:
        zoom = self.plan.levels[unit.level].zoom
        rows = []
        for tile in batch.tiles:
            self.last += 1
            rows.append((self.last, zoom, tile.column, tile.row, tile.payload))
        self.many(f"INSERT INTO {_TABLE} VALUES (?, ?, ?, ?, ?)", rows)  # noqa: S608
        if self._is_coverage:
            self.many(
                "INSERT INTO gpkg_2d_gridded_tile_ancillary (tpudt_name, tpudt_id) VALUES (?, ?)",
                [(_TABLE, row[0]) for row in rows],
            )

    def finish(self, changed: Sequence[str]) -> None:
        if changed:
            text = f"{self.plan.layer.abstract} Slabs changed during the export: "
            text += ", ".join(changed)
            self.run("UPDATE gpkg_contents SET description = ?", (text.strip(),))
        self.complete()

    def _system(self) -> tuple[int, str, int]:
        """Return number, organisation and its number of the reference system."""
        code = self.plan.tile_matrix_set.crs.code
        authority, _, number = code.partition(":")
        if code == "CRS:84":
            return 4326, "EPSG", 4326
        if authority == "EPSG" and number.isdigit():
            return int(number), "EPSG", int(number)
        return _FIRST_OWN, authority, _FIRST_OWN

    def _add_systems(self) -> None:
        number, organisation, own = self._system()
        code = self.plan.tile_matrix_set.crs.code
        found: dict[int, tuple[Any, ...]] = {
            -1: ("Undefined Cartesian", -1, "NONE", -1, "undefined"),
            0: ("Undefined geographic", 0, "NONE", 0, "undefined"),
            4326: ("WGS 84", 4326, "EPSG", 4326, _wkt("EPSG:4326")),
        }
        if self._is_coverage:
            found[4979] = ("WGS 84 3D", 4979, "EPSG", 4979, _wkt("EPSG:4979"))
        if number not in found:
            found[number] = (code, number, organisation, own, _wkt(code))
        self.many(
            "INSERT INTO gpkg_spatial_ref_sys VALUES (?, ?, ?, ?, ?, NULL)",
            [found[key] for key in sorted(found)],
        )

    def _add_matrices(self) -> None:
        plan, number = self.plan, self._system()[0]
        found = described(plan)
        kind = "2d-gridded-coverage" if self._is_coverage else "tiles"
        finest = plan.levels[-1]
        inside: BoundingBox = finest.matrix.bbox_of(finest.selection.limits)
        self.run(
            "INSERT INTO gpkg_contents (table_name, data_type, identifier, description, min_x, "
            "min_y, max_x, max_y, srs_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(_TABLE, kind, found["name"], found.get("description", "")),
                *(inside.xmin, inside.ymin, inside.xmax, inside.ymax, number),
            ),
        )
        coarse = plan.levels[0].matrix
        span = coarse.cell_size * coarse.tile_width, coarse.cell_size * coarse.tile_height
        factors = [
            round(span[0] / (one.matrix.cell_size * one.matrix.tile_width)) for one in plan.levels
        ]
        # All matrices have one box, in whole tiles of the coarsest one.
        width, height = coarse.matrix_width, coarse.matrix_height
        for level, factor in zip(plan.levels, factors, strict=True):
            width = max(width, level.selection.limits.max_col // factor + 1)
            height = max(height, level.selection.limits.max_row // factor + 1)
        self.run(
            "INSERT INTO gpkg_tile_matrix_set VALUES (?, ?, ?, ?, ?, ?)",
            (
                *(_TABLE, number, coarse.origin_x, coarse.origin_y - height * span[1]),
                *(coarse.origin_x + width * span[0], coarse.origin_y),
            ),
        )
        for level, factor in zip(plan.levels, factors, strict=True):
            matrix = level.matrix
            self.run(
                "INSERT INTO gpkg_tile_matrix VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    *(_TABLE, level.zoom, width * factor, height * factor),
                    *(matrix.tile_width, matrix.tile_height),
                    span[0] / factor / matrix.tile_width,
                    span[1] / factor / matrix.tile_height,
                ),
            )

    def _add_extensions(self) -> None:
        plan = self.plan
        rows: list[tuple[str | None, str | None, str, str, str]] = []
        zooms = [level.zoom for level in plan.levels]
        sizes = [level.matrix.cell_size for level in plan.levels]
        is_halved = all(
            abs(sizes[0] / size - 2 ** (zoom - zooms[0])) < 1e-6 * 2 ** (zoom - zooms[0])
            for zoom, size in zip(zooms, sizes, strict=True)
        )
        if not is_halved:
            name = "gpkg_zoom_other"
            definition = f"{_SPECIFICATION}#extension_zoom_other_intervals"
            rows.append((_TABLE, "tile_data", name, definition, "read-write"))
        if plan.kind is not None and plan.kind.extension == "webp":
            definition = f"{_SPECIFICATION}#extension_tiles_webp"
            rows.append((_TABLE, "tile_data", "gpkg_webp", definition, "read-write"))
        if self._is_coverage:
            name = "gpkg_2d_gridded_coverage"
            for table, column in (
                ("gpkg_2d_gridded_coverage_ancillary", None),
                ("gpkg_2d_gridded_tile_ancillary", None),
                (_TABLE, "tile_data"),
            ):
                rows.append((table, column, name, _GRIDDED, "read-write"))
            raster, layer = plan.layer.pyramid.raster, plan.layer
            assert raster is not None
            # Levels made by averaging are areas, but one encoding is said for all of them.
            is_post = layer.registration == "post"
            self.run(
                "INSERT INTO gpkg_2d_gridded_coverage_ancillary (tile_matrix_set_name, datatype, "
                "data_null, grid_cell_encoding) VALUES (?, 'float', ?, ?)",
                (
                    *(_TABLE, raster.nodata[0]),
                    "grid-value-is-center" if is_post else "grid-value-is-area",
                ),
            )
        self.many("INSERT INTO gpkg_extensions VALUES (?, ?, ?, ?, ?)", rows)


def _wkt(code: str) -> str:
    name = "OGC:CRS84" if code == "CRS:84" else code
    crs = pyproj.CRS.from_user_input(name)
    try:
        return str(crs.to_wkt("WKT1_GDAL"))
    except pyproj.exceptions.CRSError:
        return str(crs.to_wkt())
