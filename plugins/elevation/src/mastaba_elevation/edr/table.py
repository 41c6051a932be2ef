"""Comma-separated values (RFC 4180)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mastaba_elevation.edr.answers import Points
from mastaba_elevation.edr.names import ELEVATION
from mastaba_elevation.edr.sources import cell_of
from mastaba_elevation.web.numbers import rounded


def table(found: Points) -> str:
    """Return a line for each point."""
    columns: dict[str, Iterable[Any]] = {
        "x": found.x.tolist(),
        "y": found.y.tolist(),
        ELEVATION: rounded(found.heights, found.decimals),
        **({"datetime": instants} if (instants := found.instants) else {}),
        **found.columns,
    }
    lines = [",".join(columns)]
    lines += [
        ",".join(map(_field, map(cell_of, row))) for row in zip(*columns.values(), strict=True)
    ]
    return "\r\n".join(lines) + "\r\n"


def _field(value: float | str | None) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else repr(value)
    if any(character in text for character in ',"\r\n'):
        return '"' + text.replace('"', '""') + '"'
    return text
