"""Texts of the pages: one JSON file for each language, which the scripts use too."""

from __future__ import annotations

import json
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from mastaba.api.web import Accept

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mastaba.api.web import Request

LANGUAGES: Final = ("en", "fr")


def language(request: Request) -> str:
    """Return the language of a page: the one that the browser prefers, or else English."""
    wanted = Accept(request.header("Accept-Language") or "")
    # "fr-FR, en;q=0.5" prefers French.
    names = (tag.partition("-")[0] for tag, weight in wanted.elements if weight)
    return next((name for name in names if name in LANGUAGES), LANGUAGES[0])


@lru_cache(maxsize=len(LANGUAGES))
def texts(lang: str) -> Mapping[str, str]:
    """Return all texts of a language by key, with placeholders in braces."""
    content = files("mastaba_viewer").joinpath("texts", f"{lang}.json").read_text("utf-8")
    found: Mapping[str, str] = json.loads(content)
    return found


def text(key: str, lang: str, **values: object) -> str:
    """Return one text with its placeholders replaced."""
    return texts(lang)[key].format_map(values)
