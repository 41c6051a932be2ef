"""Tables in GeoPackage, as ``gdaltindex`` writes them for GDAL's driver GTI.

The file is opened from memory: so it may be in any storage, and cannot change while it is read.
"""

from __future__ import annotations

import re
import sqlite3
import struct
from typing import Any, Final, NamedTuple

from mastaba_cog.errors import CogError
from mastaba_cog.mosaic.geometry import Box, box_of_wkb
from mastaba_cog.mosaic.table import COLUMNS, Rows, Wanted

_LOCATIONS: Final = ("location", "path")
_MOST_STEPS: Final = 200_000_000
_STEPS: Final = 10_000
_ITEM: Final = re.compile(r'<MDI key="(SORT_FIELD|SORT_FIELD_ASC)">([^<]{1,128})</MDI>')
_READS: Final = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ})
_REMEDY: Final = "make it with gdaltindex -f GPKG"


def rows_of_geopackage(data: bytes, wanted: Wanted) -> Rows:
    """Return the rows of a table of features. Raises `CogError`."""
    if data[18:20] == b"\x02\x02":
        raise CogError("it is in WAL mode", "PRAGMA journal_mode=DELETE")
    database = sqlite3.connect(":memory:")
    try:
        database.deserialize(data)
        _secure(database)
        return _rows(database, wanted)
    except (sqlite3.Error, OverflowError, UnicodeDecodeError) as error:
        # Messages of the library contain names as they are in the file.
        raise CogError(f"the database is damaged ({str(error)[:80]})", _REMEDY) from None
    finally:
        database.close()


def _secure(database: sqlite3.Connection) -> None:
    """Limit what a schema of a stranger can do."""
    database.execute("PRAGMA trusted_schema=OFF")
    database.execute("PRAGMA cell_size_check=ON")
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 16 * 1024 * 1024)
    left = [_MOST_STEPS // _STEPS]

    def stop() -> int:
        left[0] -= 1
        return int(left[0] < 0)

    database.set_progress_handler(stop, _STEPS)
    database.set_authorizer(
        lambda action, *_: sqlite3.SQLITE_OK if action in _READS else sqlite3.SQLITE_DENY
    )
    database.text_factory = lambda data: data.decode("utf-8", "replace")


class Features(NamedTuple):
    """A table of files.

    Attributes:
        name: of the table.
        system: number of the CRS of its footprints.
        columns: their names.
        location: the column with the paths.
    """

    name: str
    system: object
    columns: list[str]
    location: str


def features_of(database: sqlite3.Connection, layer: str | None) -> Features:
    """Return the table of files.

    Args:
        layer: its name; None for the only table of features.

    Raises:
        CogError: there is none.
        sqlite3.Error: the database is no GeoPackage.
    """
    tables = dict(
        database.execute(
            "SELECT table_name, srs_id FROM gpkg_contents WHERE data_type = 'features' LIMIT 100"
        )
    )
    name = layer or (next(iter(tables)) if len(tables) == 1 else None)
    if name is None or name not in tables:
        known = ", ".join(map(str, tables))[:80] or "none"
        raise CogError(f"its tables of features are: {known}", 'name one in the option "layer"')
    cursor = database.execute(f"SELECT * FROM {quoted(name)} LIMIT 0")  # noqa: S608 - quoted
    columns = [column[0] for column in cursor.description]
    location = next((one for one in _LOCATIONS if one in columns), None)
    if location is None:
        raise CogError('its table has no column "location"', _REMEDY)
    return Features(name, tables[name], columns, location)


def _rows(database: sqlite3.Connection, wanted: Wanted) -> Rows:
    features = features_of(database, wanted.layer)
    name, location, columns = features.name, features.location, features.columns
    found = database.execute(
        "SELECT column_name FROM gpkg_geometry_columns WHERE table_name = ?", (name,)
    ).fetchone()
    crs = database.execute(
        "SELECT organization, organization_coordsys_id FROM gpkg_spatial_ref_sys WHERE srs_id = ?",
        (features.system,),
    ).fetchone()
    if found is None or crs is None or not str(crs[0]).isalnum():
        raise CogError("its footprints have no CRS", _REMEDY)
    sort_field, descends = wanted.sort_field, wanted.descends
    said = _said(database)
    if sort_field is None and "SORT_FIELD" in said:
        sort_field = said["SORT_FIELD"]
        if descends is None:
            descends = said.get("SORT_FIELD_ASC", "YES").upper() in ("NO", "FALSE", "0")
    if sort_field is None and "order" in columns:
        sort_field = "order"
    if sort_field is not None and sort_field not in columns:
        raise CogError(f"its table has no column {sort_field[:40]!r}", "correct the sort field")
    facts = [one for one in COLUMNS if one in columns]
    names = [location, found[0], sort_field or location, *facts]
    listed = ", ".join(map(quoted, names))
    rows = Rows(f"{str(crs[0]).upper()}:{crs[1]}", descends=bool(descends))
    for path, geometry, key, *values in database.execute(
        f"SELECT {listed} FROM {quoted(name)}"  # noqa: S608 - quoted
    ):
        further: dict[str, Any] = dict(zip(facts, values, strict=True))
        rows.add(path, _box(geometry), key if sort_field else None, further)
    return rows


def _said(database: sqlite3.Connection) -> dict[str, str]:
    """Return how the writer sorts the files."""
    try:
        texts = database.execute("SELECT metadata FROM gpkg_metadata LIMIT 100").fetchall()
    except sqlite3.OperationalError:
        return {}
    return {
        key: value
        for (text,) in texts
        if isinstance(text, str)
        for key, value in _ITEM.findall(text[:65536])
    }


def quoted(name: str) -> str:
    """Return an identifier in a statement."""
    return '"' + str(name).replace('"', '""') + '"'


def _box(blob: object) -> Box:
    """Return the envelope of a geometry (GeoPackage 2.1.3)."""
    if not isinstance(blob, bytes) or blob[:2] != b"GP" or len(blob) < 8:
        raise CogError("a row has no footprint", _REMEDY)
    order, kind = "<" if blob[3] & 1 else ">", blob[3] >> 1 & 7
    try:
        if kind:
            xmin, xmax, ymin, ymax = struct.unpack_from(f"{order}4d", blob, 8)
            return xmin, ymin, xmax, ymax
        return box_of_wkb(blob[8:])
    except struct.error:
        raise CogError("a footprint is damaged", _REMEDY) from None
