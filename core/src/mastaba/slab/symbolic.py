"""Symbolic objects: small objects that refer to a slab elsewhere (slab.md section 5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mastaba.errors import ObjectNotFoundError, SlabFormatError, StorageError
from mastaba_storage.base import ByteRange, ObjectRead, Storage

SIGNATURE: Final = b"SYMLINK#"
"""First bytes of a symbolic object; the full name of its target follows."""


def is_symbolic(data: bytes, wanted: int) -> bool:
    """Return whether the first read of a slab returned a symbolic object.

    Args:
        data: data returned by the read.
        wanted: number of requested bytes (header and index), which exceeds a symbolic object.
    """
    return len(data) < wanted and data.startswith(SIGNATURE)


def follow(
    storage: Storage,
    key: str,
    data: bytes,
    wanted: ByteRange,
    open_container: Callable[[str], Storage],
) -> tuple[Storage, str, ObjectRead]:
    """Return the storage, the key and the first bytes of the slab that a symbolic object points to.

    Args:
        storage, key, data: of the symbolic object.
        wanted: bytes to read.
        open_container: opens the container of the slab.

    Raises:
        SlabFormatError: it does not point to a slab.
        StorageError: the slab cannot be read.
    """
    text = data[len(SIGNATURE) :].decode("utf-8", "backslashreplace")
    described = f"the symbolic object {storage.full_name}/{key} points to {text!r}"
    container, _, target = text.partition("/")
    if not container or not target:
        raise SlabFormatError(f"{described}, which is not of the form container/name")
    try:
        target_storage = open_container(container)
        read = target_storage.read(target, wanted)
    except ValueError as error:
        raise SlabFormatError(f"{described}: {error}") from error
    except ObjectNotFoundError as error:
        raise SlabFormatError(f"{described}, which does not exist") from error
    except StorageError as error:
        raise type(error)(f"{described}: {error}", storage=storage.full_name, key=key) from error
    if not read.data:
        raise SlabFormatError(f"{described}, which is empty")
    if is_symbolic(read.data, wanted.length):
        raise SlabFormatError(
            f"{described}, which is another symbolic object: chains are not followed"
        )
    return target_storage, target, read
