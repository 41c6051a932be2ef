"""Which files the rows of a table may name: what a stranger writes must not reach elsewhere."""

from __future__ import annotations

import posixpath
from collections.abc import Collection
from typing import Final

from mastaba.api.storages import FileStorage, ResourcePath
from mastaba_cog.errors import CogError

_LONGEST: Final = 4096
_REMEDY: Final = "correct the path in the table"


def member_path(location: object, table: ResourcePath, allowed: Collection[str]) -> str:
    """Return the full path of a member.

    Args:
        location: as in the table: a path below its folder, or a full one.
        table: path of the table.
        allowed: other storages that rows may name, such as ``s3://bucket``.

    Raises:
        CogError: rows must not name it.
    """
    if not isinstance(location, str) or not 0 < len(location) <= _LONGEST:
        raise CogError("a path is missing or too long", _REMEDY)
    if not location.isprintable() or location.lower().startswith("/vsi"):
        raise CogError(f"the path {location[:80]!r} is not allowed", _REMEDY)
    if "://" in location:
        return _full(location, table, allowed)
    is_local = table.storage == FileStorage.name
    if location.startswith("/"):
        if not is_local:
            raise CogError(f"the path {location[:80]!r} is absolute", _REMEDY)
        return posixpath.normpath(location)
    inside = posixpath.normpath(location)
    if inside == "." or inside.split("/")[0] == "..":
        raise CogError(f"the path {location[:80]!r} is not below the folder of the table", _REMEDY)
    folder = table.key.rpartition("/")[0]
    key = f"{folder}/{inside}" if folder or table.key.startswith("/") else inside
    return key if is_local else str(ResourcePath(table.storage, table.container, key))


def _full(location: str, table: ResourcePath, allowed: Collection[str]) -> str:
    try:
        path = ResourcePath.parse(location)
    except ValueError as error:
        raise CogError(f"the path {location[:80]!r} is invalid: {error}", _REMEDY) from None
    own = (table.storage, table.container)
    place = f"{path.storage}://{path.container}"
    if (path.storage, path.container) != own and place not in allowed:
        reason = f"the path {location[:80]!r} is in another storage than the table"
        raise CogError(reason, f'allow it with the option "allow": ["{place[:80]}"]')
    if ".." in path.key.split("/"):
        raise CogError(f"the path {location[:80]!r} has a part ..", _REMEDY)
    return str(path)
