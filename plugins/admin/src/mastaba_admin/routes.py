"""Changes by method and path (admin.md section 2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mastaba.api.services import Action
from mastaba.errors import UnknownPathError
from mastaba_admin.errors import UnsupportedMethodError

_LAYERS: Final = "/layers"
_FIXED: Final[Mapping[str, Mapping[str, Action | None]]] = {
    "": {"GET": None},
    # Made older servers update their capabilities; does nothing here.
    _LAYERS: {"PUT": None},
    "/on": {"PUT": Action.ENABLE_SERVICES},
    "/off": {"PUT": Action.DISABLE_SERVICES},
    "/reload": {"PUT": Action.RELOAD},
    "/indices": {"DELETE": Action.FORGET_INDICES},
}
_LAYER: Final = {
    "POST": Action.CREATE_LAYER,
    "PUT": Action.REPLACE_LAYER,
    "DELETE": Action.DELETE_LAYER,
}


def route(method: str, path: str) -> tuple[Action | None, str]:
    """Return the action, or None for none, and the layer identifier, empty without a layer.

    Raises:
        UnknownPathError: the path is unknown.
        UnsupportedMethodError: the path does not support the method.
    """
    actions, layer = _FIXED.get(path), ""
    if actions is None and path.startswith(f"{_LAYERS}/"):
        actions, layer = _LAYER, path[len(_LAYERS) + 1 :]
    if actions is None:
        raise UnknownPathError("Unknown admin request path")
    if method not in actions:
        raise UnsupportedMethodError(tuple(actions))
    return actions[method], layer
