"""Limits of answers, as services configure them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class CoverageLimits:
    """Limits of one answer, and of a process.

    Attributes:
        stream_bytes: bytes of an answer that is made while it is sent.
        spool: bytes of an answer that is made before it is sent, in a temporary file.
        pixels: resampled cells of one answer.
        tiles: tiles of one answer.
        indices: slabs whose indices are read for one answer.
        streams: answers of more than 1 MiB that a process sends at a time.
    """

    stream_bytes: int = 16 * 1024**3
    spool: int = 512 * 1024**2
    pixels: int = 100_000_000
    tiles: int = 1_048_576
    indices: int = 8192
    streams: int = 2


_DESCRIPTIONS: Final = {
    "stream_bytes": "Bytes of one answer whose parts can be requested.",
    "spool": "Bytes of one answer that is compressed or resampled first, in a temporary file.",
    "pixels": "Resampled cells of one answer.",
    "tiles": "Tiles of one answer.",
    "indices": "Slabs that one answer looks up.",
    "streams": "Answers of more than 1 MiB that a process sends at a time.",
}

LIMITS_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        item.name: {
            "type": "integer",
            "minimum": 1,
            "default": item.default,
            "description": _DESCRIPTIONS[item.name],
        }
        for item in fields(CoverageLimits)
    },
}
"""JSON schema of the object ``limits`` in the section of a service."""


def coverage_limits(section: Mapping[str, Any]) -> CoverageLimits:
    """Return the limits in the section of a service; the defaults if there are none."""
    return CoverageLimits(**section.get("limits", {}))
