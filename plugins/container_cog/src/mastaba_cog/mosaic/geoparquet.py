"""Tables in GeoParquet, also of STAC items (stac-geoparquet)."""

from __future__ import annotations

import json
from typing import Any, Final

from mastaba_cog.errors import CogError
from mastaba_cog.mosaic.geojson import asset_of
from mastaba_cog.mosaic.geometry import box_of_wkb
from mastaba_cog.mosaic.table import COLUMNS, MOST_ROWS, Rows, Wanted

_LOCATIONS: Final = ("path", "location")
_MOST_BYTES: Final = 1024 * 1024 * 1024
"""Decompressed bytes of the columns that are read."""
_DAMAGE: Final = ValueError, OSError, KeyError, TypeError, AttributeError
_REMEDY: Final = "write it as GeoParquet with geometries in WKB"


def rows_of_geoparquet(data: bytes, wanted: Wanted) -> Rows:
    """Return the rows of a file. Raises `CogError`."""
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError:
        raise CogError(
            "it is a GeoParquet, which needs pyarrow", "install mastaba-cog[geoparquet]"
        ) from None
    try:
        file = parquet.ParquetFile(arrow.BufferReader(data))
        return _rows(file, wanted)
    except (arrow.ArrowException, *_DAMAGE) as error:
        if isinstance(error, CogError):
            raise
        raise CogError(f"it is damaged ({str(error)[:80]})", _REMEDY) from None


def _rows(file: Any, wanted: Wanted) -> Rows:
    metadata, names = file.metadata, file.schema_arrow.names
    if metadata.num_rows > MOST_ROWS:
        raise CogError(f"it has more than {MOST_ROWS:,} rows", "divide it")
    try:
        geo = json.loads((metadata.metadata or {})[b"geo"])
        column = geo["primary_column"]
        described = geo["columns"][column]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise CogError("it is a Parquet without geometries", _REMEDY) from None
    if described.get("encoding") != "WKB":
        raise CogError("its geometries are not in WKB", _REMEDY)
    location = next((one for one in (*_LOCATIONS, "assets") if one in names), None)
    if location is None:
        raise CogError('it has no column "path"', _REMEDY)
    sort_field = wanted.sorted_by(names)
    facts = [one for one in COLUMNS if one in names]
    read = list(dict.fromkeys([location, column, *facts, *([sort_field] if sort_field else [])]))
    total = 0
    rows = Rows(_crs(described.get("crs", "CRS:84")), descends=bool(wanted.descends))
    # What the file says of its columns is not looked at: damage there ends the process.
    for batch in file.iter_batches(batch_size=8192, columns=read):
        total += batch.nbytes
        if total > _MOST_BYTES:
            raise CogError(f"its columns have more than {_MOST_BYTES:,} bytes", "divide it")
        values = {name: batch.column(name).to_pylist() for name in read}
        for number, (path, geometry) in enumerate(
            zip(values[location], values[column], strict=True)
        ):
            if location == "assets":
                given = {key: one for key, one in (path or {}).items() if one is not None}
                path = asset_of(given, wanted.asset)
            key = values[sort_field][number] if sort_field else None
            further = {name: values[name][number] for name in facts}
            rows.add(path, box_of_wkb(geometry or b""), key, further)
    return rows


def _crs(value: Any) -> str:
    if value == "CRS:84":
        return "CRS:84"
    identifier = value.get("id") if isinstance(value, dict) else None
    if not isinstance(identifier, dict):
        raise CogError("its CRS has no code", _REMEDY)
    code = f"{identifier.get('authority')}:{identifier.get('code')}"
    return "CRS:84" if code == "OGC:CRS84" else code
