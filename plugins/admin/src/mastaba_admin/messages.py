"""Reasons of refused changes, without the paths of the server."""

from __future__ import annotations

import re
from typing import Final

# Between these, a phrase may contain a path, whose directories may contain spaces.
_ENDS: Final = re.compile(r"([:;,'\"()\n](?!//))")
_START: Final = re.compile(r"(?<![\w.:/~-])(?:file://)?/")


def without_paths(text: str) -> str:
    """Return a text in which only the last part of each absolute path is left."""
    return "".join(_without_path(phrase) for phrase in _ENDS.split(text))


def _without_path(phrase: str) -> str:
    start = _START.search(phrase)
    return phrase if start is None else phrase[: start.start()] + phrase[phrase.rindex("/") + 1 :]
