"""The first bytes of a container, and whether they are those of its format."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from mastaba.api.storages import ByteRange, ObjectRead
from mastaba.errors import ContainerFormatError

if TYPE_CHECKING:
    from mastaba.api.containers import Source

_KINDS: Final = (
    (b"PMTiles", "a PMTiles archive"),
    (b"PM", "a PMTiles archive of version 1 or 2"),
    (b"SQLite format 3\0", "an SQLite database (MBTiles or GeoPackage)"),
    (b"II*\0", "a GeoTIFF"),
    (b"MM\0*", "a GeoTIFF"),
    (b"II+\0", "a GeoTIFF (BigTIFF)"),
    (b"MM\0+", "a GeoTIFF (BigTIFF)"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"\x1f\x8b", "a file compressed with gzip"),
    (b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"{", "a JSON document"),
    (b"<", "an XML or HTML document"),
)


def kind_of(data: bytes) -> str:
    """Return what the first bytes of a file are called, or ``an unknown file``."""
    return next((name for magic, name in _KINDS if data.startswith(magic)), "an unknown file")


def head(source: Source, length: int, signatures: Iterable[bytes]) -> ObjectRead:
    """Return the first bytes of a container, with its version. Reads once.

    Args:
        length: bytes; a shorter container is returned as a whole.
        signatures: what it may begin with.

    Raises:
        ContainerFormatError: it begins differently; the message says with what.
        StorageError: it cannot be read.
    """
    read = source.storage.read(source.key, ByteRange(0, length))
    check_signature(source, read.data, signatures)
    return read


def check_signature(source: Source, data: bytes, signatures: Iterable[bytes]) -> None:
    """Refuse a container that does not begin with one of the signatures.

    Raises:
        ContainerFormatError: the message says what it is instead.
    """
    if data.startswith(tuple(signatures)):
        return
    if not data:
        raise ContainerFormatError(f"{source} is empty")
    raise ContainerFormatError(
        f"{source} is {kind_of(data)}", "correct its path, its suffix or its container"
    )


def require_complete(source: Source, end: int) -> None:
    """Refuse a file that ends too early, as after an interrupted copy.

    Objects in stores are there as a whole or not at all: nothing is asked about them.

    Args:
        end: bytes that the container must have.

    Raises:
        ContainerFormatError: the file is shorter.
        StorageError: its size cannot be read.
    """
    if source.local_path is None:
        return
    size = source.storage.stat(source.key).size
    if size < end:
        raise ContainerFormatError(
            f"{source} is incomplete: it ends after {size} of at least {end} bytes",
            "copy or download it again",
        )
