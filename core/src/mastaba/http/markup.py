"""XML and HTML, written piece by piece: capabilities and exception reports need nothing more."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from html import escape
from typing import Final
from urllib.parse import urlsplit

# What XML 1.0 section 2.2 leaves out; a title in a JSON file can hold any character.
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_SCHEMES: Final = ("", "http", "https", "mailto")

DECLARATION: Final = '<?xml version="1.0" encoding="UTF-8"?>\n'


def legal(value: str, substitute: str) -> str:
    """Return a text with each character that is illegal in XML 1.0 replaced."""
    return _ILLEGAL.sub(substitute, value)


def text(value: str) -> str:
    """Return a text as XML content or attribute value; characters illegal in XML become U+FFFD."""
    return escape(legal(value, "\ufffd"))


def element(name: str, *content: str, attributes: Mapping[str, str] | None = None) -> str:
    """Return an element.

    Args:
        name: with its prefix.
        content: markup of the children, or a text that went through `text`.
        attributes: plain texts by name.
    """
    start = name
    for key, value in (attributes or {}).items():
        start += f' {key}="{text(value)}"'
    inside = "".join(content)
    return f"<{start}>{inside}</{name}>" if inside else f"<{start}/>"


def leaf(name: str, value: str) -> str:
    """Return an element around a plain text."""
    return element(name, text(value))


def optional_leaf(name: str, value: str) -> str:
    """Return an element around a plain text, or nothing when the text is empty."""
    return leaf(name, value) if value else ""


def anchor(href: str, title: str) -> str:
    """Return a link in HTML; an address that a browser would run as a script becomes plain text."""
    return f'<a href="{escape(href)}">{escape(title)}</a>' if _is_harmless(href) else escape(title)


def _is_harmless(href: str) -> bool:
    try:
        return urlsplit(href).scheme.lower() in _SCHEMES
    except ValueError:  # a bracket that is not closed, for one
        return False


def decimal(value: float) -> str:
    """Return the shortest decimal text, without exponent, that reads back as the same number."""
    return _plain(repr(float(value)))


def coordinate(value: float) -> str:
    """Return a coordinate without exponent and with at most 15 significant digits."""
    return _plain(f"{value:.15g}")


def _plain(number: str) -> str:
    digits = format(Decimal(number), "f")
    if "." in digits:
        digits = digits.rstrip("0").rstrip(".")
    return "0" if digits == "-0" else digits
