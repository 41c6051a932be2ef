"""The public interface is the one in ``surface.txt``."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest
from scripts.public_api.names import CORE, LIBS
from scripts.public_api.surface import surface

_SNAPSHOT = Path(__file__).with_name("surface.txt")


def test_public_interface_is_the_recorded_one() -> None:
    recorded, found = _SNAPSHOT.read_text("utf-8"), surface((*CORE, *LIBS))
    if recorded == found:
        return
    changes = difflib.unified_diff(
        recorded.splitlines(), found.splitlines(), "surface.txt", "code", n=1, lineterm=""
    )
    pytest.fail(
        "the public interface has changed. If this is intended and docs/api.md allows it: run "
        "'make surface', and add a line to CHANGELOG.md.\n" + "\n".join(changes),
        pytrace=False,
    )


def test_surface_shows_no_addresses() -> None:
    assert " at 0x" not in surface(CORE)
