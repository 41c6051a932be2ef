"""Documents that grow with the request, in pieces; commands write them too."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

_PIECE: Final = 256 * 1024


def in_pieces(data: bytes) -> Iterator[bytes]:
    """Yield parts of an answer that is in memory."""
    for start in range(0, len(data), _PIECE):
        yield data[start : start + _PIECE]


def json_pieces(head: Mapping[str, Any], name: str, items: Iterable[Any]) -> Iterator[bytes]:
    """Yield the parts of a compact JSON object whose last member is a list.

    Args:
        head: the other members.
        name: of the list.
        items: of the list; each is needed for a moment only.
    """
    yield from _joined(_json_texts(head, name, items))


def csv_pieces(rows: Iterable[Mapping[str, Any]], names: Sequence[str]) -> Iterator[bytes]:
    """Yield the parts of a table as CSV (RFC 4180), with a line of names.

    Args:
        rows: values by name; others are left out, missing ones are empty.
        names: of the columns.
    """
    yield from _joined(_csv_texts(rows, names))


def _json_texts(head: Mapping[str, Any], name: str, items: Iterable[Any]) -> Iterator[str]:
    yield _json({**head, name: []}).removesuffix("]}")
    for number, item in enumerate(items):
        yield f",{_json(item)}" if number else _json(item)
    yield "]}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _csv_texts(rows: Iterable[Mapping[str, Any]], names: Sequence[str]) -> Iterator[str]:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, names, extrasaction="ignore")
    writer.writeheader()
    for row in rows:
        writer.writerow(row)
        yield text.getvalue()
        text.seek(0)
        text.truncate()
    yield text.getvalue()


def _joined(texts: Iterable[str]) -> Iterator[bytes]:
    """Yield texts as UTF-8, in parts of at least `_PIECE` bytes."""
    waiting = bytearray()
    for text in texts:
        waiting += text.encode()
        if len(waiting) >= _PIECE:
            yield bytes(waiting)
            waiting.clear()
    yield bytes(waiting)
