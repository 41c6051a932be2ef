"""Operations by method and path (admin.md section 2)."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from mastaba.errors import UnknownPathError
from mastaba_admin.errors import MethodNotAllowedError


class Operation(StrEnum):
    """An operation of the API."""

    STATUS = "status"
    REWRITE = "rewrite"
    """Made older servers update their capabilities; does nothing here."""
    CREATE = "create"
    REPLACE = "replace"
    DELETE = "delete"
    TURN_ON = "on"
    TURN_OFF = "off"


_LAYERS: Final = "/layers"
_FIXED: Final = {
    "": {"GET": Operation.STATUS},
    _LAYERS: {"PUT": Operation.REWRITE},
    "/on": {"PUT": Operation.TURN_ON},
    "/off": {"PUT": Operation.TURN_OFF},
}
_LAYER: Final = {
    "POST": Operation.CREATE,
    "PUT": Operation.REPLACE,
    "DELETE": Operation.DELETE,
}


def route(method: str, path: str) -> tuple[Operation, str]:
    """Return the operation and the layer identifier, empty for operations without a layer.

    Raises:
        UnknownPathError: the path is unknown.
        MethodNotAllowedError: the path does not support the method.
    """
    operations, layer = _FIXED.get(path), ""
    if operations is None and path.startswith(f"{_LAYERS}/"):
        operations, layer = _LAYER, path[len(_LAYERS) + 1 :]
    if operations is None:
        raise UnknownPathError("Unknown admin request path")
    if method not in operations:
        raise MethodNotAllowedError(tuple(operations))
    return operations[method], layer
