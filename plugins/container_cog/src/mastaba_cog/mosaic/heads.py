"""The first bytes of the files of a mosaic, for its table: then none is read to open a file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from mastaba.api.storages import ResourcePath, Storage
from mastaba.errors import MastabaError
from mastaba_cog.errors import CogError
from mastaba_cog.image_tags import read_geotiff
from mastaba_cog.index import CogIndex, first_numbers
from mastaba_cog.mosaic.geopackage import features_of, quoted
from mastaba_cog.mosaic.paths import member_path
from mastaba_cog.reader import read_head

OpenStorage = Callable[[ResourcePath], Storage]


def write_heads(table: Path, layer: str | None, open_storage: OpenStorage) -> Iterator[str]:
    """Write version and first bytes of each file into the columns of a table in GeoPackage.

    All rows are written, or none.

    Args:
        layer: table of features; None for the only one.
        open_storage: returns the open storage of a path.

    Yields:
        why a file has no head: it is absent, has no version, or is no COG. Its row has none then.

    Raises:
        CogError: it is no table of files.
        sqlite3.Error: it cannot be written.
    """
    path = ResourcePath.parse(str(table.resolve()))
    # Without a mode, an empty file is made where there is none.
    uri = f"{table.resolve().as_uri()}?mode=rw"
    with closing(sqlite3.connect(uri, uri=True)) as database, database:
        features = features_of(database, layer)
        name, location = quoted(features.name), quoted(features.location)
        for column, kind in (("version", "TEXT"), ("header", "BLOB")):
            if column not in features.columns:
                database.execute(f"ALTER TABLE {name} ADD COLUMN {column} {kind}")
        rows = database.execute(f"SELECT rowid, {location} FROM {name}").fetchall()  # noqa: S608
        for number, file in rows:
            version, head = None, None
            try:
                # Files of the table only, as a server without the option allow reads them.
                member = ResourcePath.parse(member_path(file, path, ()))
                version, head = _head_of(open_storage(member), member.key)
            except (CogError, MastabaError) as error:
                yield f"{file}: {error}"
            database.execute(
                f"UPDATE {name} SET version = ?, header = ? WHERE rowid = ?",  # noqa: S608
                (version, head, number),
            )


def _head_of(storage: Storage, key: str) -> tuple[str, bytes]:
    """Return the version of a file, and its bytes up to its tiles, as far as they are read first.

    Raises:
        CogError: it is no COG, or has no version.
        StorageError: it cannot be read.
    """
    geotiff, found, read = read_head(storage, key)
    if read.version is None:
        raise CogError("its store has no versions", "use the table without heads")
    index = CogIndex(geotiff, found, storage, key, read.version, read.modified, "")
    places = [index.tile(number) for number in first_numbers(geotiff)]
    head = read.data[: min((place[0] for place in places if place), default=len(read.data))]
    try:
        read_geotiff(head, _refuse)
    except _FurtherReadError:
        # What it says of itself is behind its tiles.
        head = read.data
    return read.version, head


class _FurtherReadError(Exception):
    """More is needed than the first bytes."""


def _refuse(offset: int, length: int) -> bytes:
    raise _FurtherReadError
