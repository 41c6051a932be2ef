"""Texts of the pages: one JSON file for each language, which the scripts use too."""

from __future__ import annotations

import json
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

LANGUAGES: Final = ("en", "fr")


@lru_cache(maxsize=len(LANGUAGES))
def texts(lang: str) -> Mapping[str, str]:
    """Return all texts of a language by key, with placeholders in braces."""
    content = files("mastaba_viewer").joinpath("texts", f"{lang}.json").read_text("utf-8")
    found: Mapping[str, str] = json.loads(content)
    return found


def text(key: str, lang: str, **values: object) -> str:
    """Return one text with its placeholders replaced."""
    return texts(lang)[key].format_map(values)
