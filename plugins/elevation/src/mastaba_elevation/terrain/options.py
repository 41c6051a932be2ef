"""Options of tiles in queries: ``precision``, ``fill`` and ``missing``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from urllib.parse import urlencode

from mastaba.api.web import printable
from mastaba.errors import InvalidParameterError
from mastaba_elevation.terrain.settings import FILLS, MISSING, PRECISIONS, Options


def requested_options(query: Mapping[str, str], default: Options) -> Options:
    """Return the options of a request.

    Raises:
        InvalidParameterError: one of them is invalid.
    """
    missing = choice(query, "missing", list(map(str, MISSING)), str(default.missing))
    return Options(
        choice(query, "precision", PRECISIONS, default.precision),
        choice(query, "fill", FILLS, default.fill),
        int(missing),
    )


def options_of(options: Options, default: Options) -> dict[str, str]:
    """Return the parameters that request options."""
    return {
        item.name: str(getattr(options, item.name))
        for item in fields(Options)
        if getattr(options, item.name) != getattr(default, item.name)
    }


def query_of(options: Options, default: Options) -> str:
    """Return the query that requests options: empty, or with a question mark."""
    given = options_of(options, default)
    return f"?{urlencode(given)}" if given else ""


def choice(query: Mapping[str, str], name: str, allowed: Sequence[str], default: str) -> str:
    """Return a parameter that has few values.

    Raises:
        InvalidParameterError: it has another value.
    """
    value = query.get(name) or default
    if value not in allowed:
        listed = ", ".join(allowed)
        raise InvalidParameterError(f"{name} is one of {listed}, not {printable(value)}", name)
    return value
