"""Archives as sources: no file in them may name other files, because GDAL would follow it."""

from __future__ import annotations

import gzip
import os
import tarfile
import zlib
from collections.abc import Iterator
from functools import lru_cache
from zipfile import BadZipFile, ZipFile

from mastaba_build.errors import SourceError

_HEAD = 4096
HDF5 = b"\x89HDF\r\n\x1a\n"


def check_archive(path: str, marks: tuple[bytes, ...]) -> None:
    """Check the start of all files in a local archive.

    Args:
        marks: none of the files may contain one of them at its start.

    Raises:
        SourceError: one does, or the archive cannot be read.
    """
    status = os.stat(path)
    found = _marked(path, marks, status.st_size, status.st_mtime_ns)
    if found is not None:
        raise SourceError(
            f"{path}: {found} in this archive may name other files; unpack the archive"
        )


@lru_cache(256)
def _marked(path: str, marks: tuple[bytes, ...], size: int, modified: int) -> str | None:
    """Return the first file in an archive with one of some marks."""
    try:
        for name, head in _heads(path):
            if any(mark in head for mark in (*marks, HDF5, b"OVERVIEW_FILE")):
                return name
    except (OSError, EOFError, ValueError, RuntimeError, BadZipFile, tarfile.TarError) as error:
        raise SourceError(f"{path}: cannot be read as an archive: {error}") from None
    except (zlib.error, NotImplementedError) as error:
        raise SourceError(f"{path}: cannot be read as an archive: {error}") from None
    return None


def _heads(path: str) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the start of each file in an archive."""
    with open(path, "rb") as stream:
        start = stream.read(262)
    if tarfile.is_tarfile(path):
        with tarfile.open(path) as archive:
            for member in archive:
                content = archive.extractfile(member) if member.isfile() else None
                if content is not None:
                    yield member.name, content.read(_HEAD)
    elif start.startswith(b"\x1f\x8b"):
        with gzip.open(path) as unpacked:
            yield "the file", unpacked.read(_HEAD)
    else:
        with ZipFile(path) as zipped:
            for info in zipped.infolist():
                with zipped.open(info) as file:
                    yield info.filename, file.read(_HEAD)
