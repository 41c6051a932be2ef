"""Sizes of tests: smaller for each change, and as large as the product promises on request."""

from __future__ import annotations

import os
from typing import Any, Final, TypeVar

import pytest

FULL: Final = os.environ.get("MASTABA_SIZES") == "full"
"""Whether tests have their full sizes; some then take hours."""

PART, PARTS = map(int, os.environ.get("MASTABA_PART", "1/1").split("/"))
"""Which part of how many is run of a test that takes hours: ``MASTABA_PART=3/10``."""

T = TypeVar("T")


def sized(usual: T, full: T) -> T:
    """Return the size of a test: `full` if the variable ``MASTABA_SIZES`` is ``full``."""
    return full if FULL else usual


def only_full(case: Any) -> tuple[Any, ...]:
    """Return the live case of a test that repeats more than its thorough one, for full sizes."""
    return (pytest.param(case, marks=pytest.mark.live),) if FULL else ()
