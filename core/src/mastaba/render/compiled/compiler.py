"""How functions are compiled."""

from __future__ import annotations

import logging
from functools import cache
from typing import Any

import numba

# The compiler reports its progress at levels that would fill our log.
logging.getLogger("numba").setLevel(logging.WARNING)

_LOG = logging.getLogger(__name__)

# A product and the sum it goes into may be rounded once instead of twice.
_OPTIONS: Any = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}}


def given(dtype: Any, dimensions: int) -> Any:
    """Return the type of an array that is only read: decoded tiles in a cache are read-only."""
    return numba.types.Array(dtype, dimensions, "C", readonly=True)


def compiled(*signatures: Any) -> Any:
    """Return a decorator that compiles a function for some signatures when it is defined.

    Compiled code is kept on disk, so that only the first start of an installation waits for it.
    It is made anew when the file of the function changes, not when another one does that it
    calls something from.
    """

    def compile_it(function: Any) -> Any:
        try:
            return numba.njit(list(signatures), cache=True, **_OPTIONS)(function)
        except RuntimeError as error:
            if "cannot cache" not in str(error):
                raise
        _tell_that_nothing_is_kept()
        return numba.njit(list(signatures), **_OPTIONS)(function)

    return compile_it


def part(function: Any) -> Any:
    """Compile a function as a part of the compiled functions of the same file."""
    return numba.njit(function, **_OPTIONS)


@cache
def _tell_that_nothing_is_kept() -> None:
    _LOG.warning(
        "no folder to keep compiled code in, so each start compiles it again for some seconds: "
        "let NUMBA_CACHE_DIR name a folder that this user may write to"
    )
