"""Tables by their first bytes, and the limits of each format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from mastaba_cog.errors import CogError
from mastaba_cog.mosaic.table import Rows, Wanted
from mastaba_containers.heads import kind_of

LARGEST: Final = 1024 * 1024 * 1024
"""Bytes of a table."""
_LARGEST_TEXT: Final = 64 * 1024 * 1024
"""Bytes of a table in JSON or XML, which takes several times as much in memory."""


def _geojson(data: bytes, wanted: Wanted) -> Rows:
    from mastaba_cog.mosaic.geojson import rows_of_geojson

    return rows_of_geojson(data, wanted)


def _vrt(data: bytes, wanted: Wanted) -> Rows:
    from mastaba_cog.mosaic.vrt import rows_of_vrt

    return rows_of_vrt(data)


def _geopackage(data: bytes, wanted: Wanted) -> Rows:
    from mastaba_cog.mosaic.geopackage import rows_of_geopackage

    return rows_of_geopackage(data, wanted)


def _flatgeobuf(data: bytes, wanted: Wanted) -> Rows:
    from mastaba_cog.mosaic.flatgeobuf import rows_of_flatgeobuf

    return rows_of_flatgeobuf(data, wanted)


def _geoparquet(data: bytes, wanted: Wanted) -> Rows:
    from mastaba_cog.mosaic.geoparquet import rows_of_geoparquet

    return rows_of_geoparquet(data, wanted)


_READERS: Final[Mapping[bytes, Callable[[bytes, Wanted], Rows]]] = {
    b"{": _geojson,
    b"<": _vrt,
    b"SQLite format 3\0": _geopackage,
    b"PAR1": _geoparquet,
    b"fgb": _flatgeobuf,
}
SIGNATURES: Final = tuple(_READERS)


def rows_of(data: bytes, wanted: Wanted) -> Rows:
    """Return the rows of a table.

    Raises:
        CogError: it is another kind of file, cannot be read, or is larger than the limits.
    """
    # A mark of UTF-8, and white space, may precede texts.
    start = data[:64].removeprefix(b"\xef\xbb\xbf").lstrip()
    for signature, reader in _READERS.items():
        if (start if len(signature) == 1 else data).startswith(signature):
            if len(signature) == 1 and len(data) > _LARGEST_TEXT:
                reason = f"it has {len(data)} bytes of text, more than {_LARGEST_TEXT}"
                raise CogError(reason, "write it as a GeoPackage or GeoParquet")
            return reader(data, wanted)
    if not data:
        raise CogError("the table is empty", "write it again")
    reason = f"it is {kind_of(data)}, not a table of files"
    raise CogError(reason, "name a GeoJSON, GeoPackage, GeoParquet, FlatGeobuf or VRT")
