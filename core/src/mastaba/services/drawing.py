"""Where the core reaches mastaba-render, which draws, and need not be installed."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from mastaba.errors import RendererMissingError

_PACKAGE = "mastaba_render"


def can_draw() -> bool:
    """Return whether mastaba-render is installed. Nothing of it is loaded."""
    return find_spec(_PACKAGE) is not None


def load(module: str) -> Any:
    """Import a module of mastaba-render. The first call loads libraries, which takes time.

    Raises:
        RendererMissingError: it is not installed.
    """
    try:
        return import_module(f"{_PACKAGE}.{module}")
    except ModuleNotFoundError as error:
        if error.name != _PACKAGE:
            raise
        raise RendererMissingError from None
