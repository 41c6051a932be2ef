"""Operations by method and path (admin.md section 2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from mastaba.api.access import Operation
from mastaba.api.services import Action
from mastaba.errors import UnknownPathError
from mastaba_admin.errors import UnsupportedMethodError

_ID: Final = "{id}"


class Route(NamedTuple):
    """What a method does at a path.

    Attributes:
        method: of the request.
        path: below the root path; a segment may be ``{id}``.
        title: for the list of operations; empty if it is not listed.
        does: a change, an operation of the gate, another answer, or None for nothing.
        needs_secret: whether it is refused if the administration has no secret.
    """

    method: str
    path: str
    title: str
    does: Action | Operation | Callable[[str], object] | None
    needs_secret: bool = False


CHANGES: Final = (
    # Before the paths of layers, whose identifiers may contain slashes.
    Route(
        "POST", "/layers/{id}/refresh", "Read the variants of a layer again", Action.REFRESH_LAYER
    ),
    Route("POST", "/layers/{id}", "Create a layer", Action.CREATE_LAYER),
    Route("PUT", "/layers/{id}", "Replace a layer", Action.REPLACE_LAYER),
    Route("DELETE", "/layers/{id}", "Delete a layer", Action.DELETE_LAYER),
    # Made older servers update their capabilities; does nothing here.
    Route("PUT", "/layers", "", None),
    Route("PUT", "/on", "Turn services on", Action.ENABLE_SERVICES),
    Route("PUT", "/off", "Turn services off", Action.DISABLE_SERVICES),
    Route("PUT", "/reload", "Read the configuration again", Action.RELOAD),
    Route("DELETE", "/indices", "Read the indices of replaced slabs again", Action.FORGET_INDICES),
    *(
        Route(method, "/virtual/{id}", f"{verb} a virtual service", action, needs_secret=True)
        for method, verb, action in (
            ("POST", "Create", Action.CREATE_VIRTUAL),
            ("PUT", "Replace", Action.REPLACE_VIRTUAL),
            ("DELETE", "Delete", Action.DELETE_VIRTUAL),
        )
    ),
)
OF_VIRTUAL: Final = frozenset(
    (Action.CREATE_VIRTUAL, Action.REPLACE_VIRTUAL, Action.DELETE_VIRTUAL)
)


def route(routes: Iterable[Route], method: str, path: str) -> tuple[Route, str]:
    """Return the route of a request, and what is in the place of ``{id}``.

    Raises:
        UnknownPathError: the path is unknown.
        UnsupportedMethodError: the path does not support the method.
    """
    methods = []
    for one in routes:
        found = _matched(one.path, path)
        if found is not None:
            if one.method == method:
                return one, found
            methods.append(one.method)
    if not methods:
        raise UnknownPathError("Unknown admin request path")
    raise UnsupportedMethodError(tuple(methods))


def _matched(template: str, path: str) -> str | None:
    start, found, end = template.partition(_ID)
    if not found:
        return "" if path == template else None
    # Identifiers of layers may contain slashes.
    is_longer = len(path) >= len(start) + len(end)
    if not (is_longer and path.startswith(start) and path.endswith(end)):
        return None
    return path[len(start) : len(path) - len(end)]
