"""Open file descriptors of this process."""

from __future__ import annotations

import os
from contextlib import suppress

import pytest


def open_descriptors() -> dict[int, str]:
    """Return the open descriptors, and the file, socket or pipe of each.

    Where the system does not list them, tests that need them are skipped.
    """
    folder = next((name for name in ("/proc/self/fd", "/dev/fd") if os.path.isdir(name)), None)
    if folder is None:
        return {}
    found: dict[int, str] = {}
    for name in os.listdir(folder):
        # The descriptor with which the folder is listed is closed by now.
        with suppress(OSError):
            found[int(name)] = os.readlink(f"{folder}/{name}")
    return found


def need_descriptors() -> None:
    """Skip a test where the system does not list open descriptors."""
    if not open_descriptors():
        pytest.skip("this system does not list open descriptors")
