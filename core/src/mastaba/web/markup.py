"""XML and HTML, written piece by piece: enough for capabilities and exception reports."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from html import escape
from typing import Final
from urllib.parse import urlsplit

# Illegal in XML 1.0 (section 2.2); a title in a JSON file can contain any character.
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
        name: name with prefix.
        content: markup of the children, or a text from `text`.
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
    """Return an element around a plain text, or an empty string if the text is empty."""
    return leaf(name, value) if value else ""


def anchor(href: str, title: str) -> str:
    """Return an HTML link, or plain text if a browser might run the address as a script."""
    return f'<a href="{escape(href)}">{escape(title)}</a>' if _is_harmless(href) else escape(title)


def _is_harmless(href: str) -> bool:
    try:
        return urlsplit(href).scheme.lower() in _SCHEMES
    except ValueError:  # for example an unclosed bracket
        return False


def decimal(value: float) -> str:
    """Return the shortest decimal text, without exponent, that parses to the same number."""
    return _plain(repr(float(value)))


def coordinate(value: float) -> str:
    """Return a coordinate without exponent and with at most 15 significant digits."""
    return _plain(f"{value:.15g}")


def _plain(number: str) -> str:
    digits = format(Decimal(number), "f")
    if "." in digits:
        digits = digits.rstrip("0").rstrip(".")
    return "0" if digits == "-0" else digits
