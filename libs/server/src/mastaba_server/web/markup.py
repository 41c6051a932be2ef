"""Texts and numbers in XML and HTML."""

from __future__ import annotations

import re
from decimal import Decimal
from html import escape
from typing import Final
from urllib.parse import urlsplit

# Illegal in XML 1.0 (section 2.2); a title in a JSON file can contain any character.
_ILLEGAL = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")

_SCHEMES: Final = ("", "http", "https", "mailto")


def legal(text: str) -> str:
    """Return a text in which each character that is illegal in XML 1.0 is U+FFFD."""
    return _ILLEGAL.sub("\ufffd", text)


def escaped(text: str) -> str:
    """Return a text as HTML content or attribute value."""
    return escape(legal(text))


def anchor(href: str, title: str) -> str:
    """Return an HTML link; plain text without an address, or if it might run as a script."""
    is_link = bool(href) and _is_harmless(href)
    return f'<a href="{escape(href)}">{escape(title)}</a>' if is_link else escape(title)


def _is_harmless(href: str) -> bool:
    try:
        return urlsplit(href).scheme.lower() in _SCHEMES
    except ValueError:  # for example an unclosed bracket
        return False


def decimal(value: float) -> str:
    """Return the shortest decimal text, without exponent, that parses to the same number."""
    return _plain(repr(float(value)).removesuffix(".0"))


def coordinate(value: float) -> str:
    """Return a coordinate without exponent and with at most 15 significant digits."""
    return _plain(f"{value:.15g}")


def _plain(number: str) -> str:
    if "e" in number:
        number = format(Decimal(number), "f")
    return "0" if number == "-0" else number
