"""Reads with obstore, in a process that does not fork afterwards."""

import json
import os
from functools import cache
from typing import Any, Final

import obstore
from obstore import exceptions
from obstore.store import ObjectStore, from_url

from mastaba.api.storages import MAX_WHOLE, ByteRange, ObjectRead, ObjectStat
from mastaba.errors import (
    AccessDeniedError,
    ObjectChangedError,
    ObjectNotFoundError,
    StorageError,
    StorageUnavailableError,
)

_FAR: Final = 2**62  # bytes; obstore takes no larger numbers
_threads_in: list[int] = []


def can_run_here() -> bool:
    """Return whether obstore works in this process.

    Its threads belong to the first process that uses it. They do not survive a fork: a call in a
    child of that process would never return.
    """
    if not _threads_in:
        _threads_in.append(os.getpid())
    return _threads_in[0] == os.getpid()


@cache
def _opened(store: str) -> ObjectStore:
    document = json.loads(store)
    local = document["url"].startswith("file:")
    timeout = document["timeout"]
    client = {"allow_http": True, "timeout": f"{timeout}s" if timeout else None}
    further: dict[str, Any] = {
        "client_options": {name: value for name, value in client.items() if value},
        "retry_config": {"max_retries": 0},  # Mastaba repeats failed reads
    }
    return from_url(document["url"], **document.get("options", {}), **({} if local else further))


def check(store: str, _key: str) -> None:
    """Raise a StorageError if a store cannot be opened."""
    try:
        _opened(store)
    except (exceptions.BaseError, TypeError, ValueError) as error:
        raise StorageError(f"obstore cannot open the store: {error}") from error


def read(store: str, key: str, byte_range: ByteRange | None, version: str | None) -> ObjectRead:
    _require_exact(key)
    options: Any = {}
    # Weak ETags never match (RFC 9110, 13.1.1).
    if version is not None and not version.startswith("W/"):
        options["if_match"] = version
    if byte_range is not None:
        start = min(byte_range.offset, _FAR)
        options["range"] = (start, start + min(byte_range.length, _FAR))
        if byte_range.length == 0:
            return _nothing(store, key, start, version)
    try:
        result = obstore.get(_opened(store), key, options=options)
        facts = _stat(result.meta)
        if byte_range is None and facts.size > MAX_WHOLE:
            raise StorageError(f"{key} is too large to be read as a whole")
        data = bytes(result.bytes())
    except exceptions.GenericError as error:
        # Stores refuse a range that starts at the end or behind it.
        if byte_range is not None:
            return _nothing(store, key, start, version, error)
        raise _translated(error, key) from error
    except (exceptions.BaseError, OSError) as error:
        raise _translated(error, key) from error
    if version not in (None, facts.version):
        raise ObjectChangedError(f"{key} was replaced")
    return ObjectRead(data, facts.version, facts.modified)


def stat(store: str, key: str) -> ObjectStat:
    _require_exact(key)
    try:
        return _stat(obstore.head(_opened(store), key))
    except (exceptions.BaseError, OSError) as error:
        raise _translated(error, key) from error


def _require_exact(key: str) -> None:
    # obstore removes these slashes, and would find another object.
    if key.startswith("/") or key.endswith("/"):
        raise ObjectNotFoundError(f"there is no {key}")


def _nothing(
    store: str, key: str, start: int, version: str | None, error: Exception | None = None
) -> ObjectRead:
    """Return no bytes of an object, if they are what a range of it contains."""
    facts = stat(store, key)
    if version not in (None, facts.version):
        raise ObjectChangedError(f"{key} was replaced")
    if error is not None and start < facts.size:
        raise _translated(error, key) from error
    return ObjectRead(b"", facts.version, facts.modified)


def _stat(meta: Any) -> ObjectStat:
    version = meta["e_tag"] or meta["version"]
    return ObjectStat(meta["size"], version, meta["last_modified"].timestamp())


def _translated(error: Exception, key: str) -> StorageError:
    absent = (exceptions.NotFoundError, exceptions.InvalidPathError, FileNotFoundError)
    if isinstance(error, absent):
        return ObjectNotFoundError(f"there is no {key}")
    if isinstance(error, exceptions.PreconditionError):
        return ObjectChangedError(f"{key} was replaced")
    refused = (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError, PermissionError)
    kind = AccessDeniedError if isinstance(error, refused) else StorageUnavailableError
    return kind(f"cannot read {key}: {' '.join(str(error).split())[:300]}")
