"""What is read of usage, for the command and the service: inputs, and forms of tables."""

from __future__ import annotations

import io
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any, Final

from mastaba_documents.times import parse_day
from mastaba_server.web.pieces import csv_pieces
from mastaba_usage.database import GROUPS, NUMBERS
from mastaba_usage.errors import UsageError

DEFAULT: Final = "day,service,layer,key,label,status"
"""Columns, if none are named."""
_DAY: Final = 86400


def days(first: str | None, last: str | None) -> tuple[str, str]:
    """Return the days of a period; without them, the current month.

    Raises:
        ValueError: one is not an ISO 8601 date, or the first is after the last.
    """
    today = datetime.now(UTC).date()
    one = today.replace(day=1) if not first else _day(first)
    other = today if not last else _day(last)
    if one > other:
        raise ValueError(f"the period ends on {other}, before it begins on {one}")
    return one.isoformat(), other.isoformat()


def time_span(first: str | None, last: str | None) -> tuple[float, float]:
    """Return the Unix seconds at which days begin and end; without them, the last 24 hours.

    Raises:
        ValueError: as `days`.
    """
    if not first and not last:
        now = time.time()
        return now - _DAY, now
    one, other = days(first, last)
    begin, end = (
        datetime.fromisoformat(f"{day}T00:00:00+00:00").timestamp() for day in (one, other)
    )
    return begin, end + _DAY


def instant(seconds: float) -> str:
    """Return a time in Unix seconds as RFC 3339 in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def columns(text: str) -> list[str]:
    """Return the columns of a list with commas.

    Raises:
        ValueError: one is unknown.
    """
    found = list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    for name in found:
        if name not in GROUPS:
            raise ValueError(f"{name[:40]!r} is not one of {', '.join(GROUPS)}")
    return found


def conditions(texts: Iterable[str]) -> dict[str, str]:
    """Return the values of columns from texts such as ``service=wmts``.

    Raises:
        ValueError: a text has another form, or its column is unknown.
    """
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not columns(name):
            raise ValueError(f"{text[:40]!r} is not COLUMN=VALUE")
        found[name] = value
    return found


def as_csv(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> str:
    """Return rows as CSV (RFC 4180), with a line of names."""
    return b"".join(csv_pieces(rows, names)).decode()


def as_parquet(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> bytes:
    """Return rows as a Parquet file: columns of numbers and of strings.

    Raises:
        UsageError: pyarrow is not installed.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise UsageError("Parquet needs pyarrow: pip install 'mastaba-usage[parquet]'") from None
    fields = [(name, pyarrow.int64() if name in NUMBERS else pyarrow.string()) for name in names]
    table = pyarrow.Table.from_pylist(list(rows), pyarrow.schema(fields))
    stream = io.BytesIO()
    parquet.write_table(table, stream)
    return stream.getvalue()


def as_table(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> str:
    """Return rows in columns of equal width, for people."""
    lines = [list(names), *([_shown(row[name]) for name in names] for row in rows)]
    widths = [max(len(line[number]) for line in lines) for number in range(len(names))]
    is_number = [name in NUMBERS for name in names]
    return "".join(
        "  ".join(
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, is_number, strict=True)
        ).rstrip()
        + "\n"
        for line in lines
    )


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value) or "-"


def _day(text: str) -> date:
    day = parse_day(text)
    if day is None:
        raise ValueError(f"{text[:40]!r} is not a day such as 2026-11-30")
    return day
