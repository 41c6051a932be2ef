"""Lines of the access logs of front servers."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from typing import Final, NamedTuple, Protocol

LONGEST: Final = 65_536
"""Bytes of a line; a longer one cannot be read."""
DIGITS: Final = 15
"""Of the bytes of an answer; sums of longer numbers would not fit into the database."""

_SIZE: Final = re.compile(rf"[0-9]{{1,{DIGITS}}}")
_COMBINED: Final = re.compile(
    r"(?P<client>\S+) \S+ (?P<user>.+?) "
    r"\[(?P<time>\d\d/[A-Z][a-z][a-z]/\d{4}:\d\d:\d\d:\d\d [+-]\d{4})\] "
    r'"(?P<method>[A-Z]+) (?P<target>[^ "]+)(?: HTTP/[\d.]+)?" (?P<status>\d{3}) '
    rf"(?P<size>\d{{1,{DIGITS}}}|-)(?: |$)",
    re.ASCII,
)
_MONTHS: Final = "JanFebMarAprMayJunJulAugSepOctNovDec"
_FIELDS: Final = ("date", "sc-bytes", "c-ip", "cs-method", "cs-uri-stem", "sc-status")


class Line(NamedTuple):
    """What a line says about a request.

    Attributes:
        day: ISO 8601 date, UTC.
        method: of HTTP.
        path: percent-encoded.
        query: percent-encoded.
        status: of HTTP; 0 if the client has left.
        size: bytes.
        client: its address.
        user: name; empty for none.
    """

    day: str
    method: str
    path: str
    query: str
    status: int
    size: int
    client: str
    user: str = ""


class Reader(Protocol):
    """Reads the lines of a file in order."""

    def __call__(self, text: str) -> Line | None:
        """Return what a line says; None for a line that is about no request.

        Raises:
            ValueError: it is not a line of such a log.
        """


def combined(text: str) -> Line:
    """Read a line of the combined or the common format, as in `Reader`.

    Varnish writes whole URLs in it.
    """
    found = _COMBINED.match(text)
    if found is None:
        raise ValueError("not a line of the combined format")
    target = found["target"]
    if not target.startswith("/"):
        _, scheme, rest = target.partition("://")
        if not scheme:
            raise ValueError("not the address of a request")
        target = rest[len(rest.partition("/")[0]) :] or "/"
    path, _, query = target.partition("?")
    size = 0 if found["size"] == "-" else int(found["size"])
    user = "" if found["user"] == "-" else found["user"]
    return Line(
        _day(found["time"]),
        found["method"],
        path,
        query,
        int(found["status"]),
        size,
        found["client"],
        user,
    )


class CloudFront:
    """Reads the standard log of CloudFront: its first lines name the fields."""

    def __init__(self) -> None:
        self._fields: dict[str, int] = {}

    def __call__(self, text: str) -> Line | None:
        """Read a line, as in `Reader`."""
        if text.startswith("#"):
            name, _, rest = text.partition(":")
            if name == "#Fields":
                self._fields = {field: place for place, field in enumerate(rest.split())}
            return None
        values = text.split("\t")
        if len(values) != len(self._fields):
            raise ValueError("not a line with the fields that #Fields names")
        try:
            day, size, client, method, path, status = (
                values[self._fields[name]] for name in _FIELDS
            )
            query = values[self._fields["cs-uri-query"]]
        except KeyError as error:
            raise ValueError(f"the field {error} is missing") from None
        query = "" if query == "-" else query
        day = datetime.strptime(day, "%Y-%m-%d").replace(tzinfo=UTC).date().isoformat()
        if not path.startswith("/"):
            raise ValueError("not the address of a request")
        if _SIZE.fullmatch(size) is None:
            raise ValueError("not a number of bytes")
        return Line(day, method, path, query, int(status), int(size), client)


FORMATS: Final[dict[str, Callable[[], Reader]]] = {
    "nginx": lambda: combined,
    "varnish": lambda: combined,
    "cloudfront": CloudFront,
}
"""What makes a reader for a file, by the name of the format."""


def _day(text: str) -> str:
    """Return the day, UTC, of a time such as ``24/Nov/2026:21:18:26 +0000``."""
    return _day_of_hour(text[:14], text[-5:])


@lru_cache(maxsize=4096)
def _day_of_hour(text: str, offset: str) -> str:
    # Not by the names of months in the language of the system.
    month = _MONTHS.index(text[3:6]) // 3 + 1
    away = timedelta(hours=int(offset[1:3]), minutes=int(offset[3:]))
    zone = timezone(-away if offset[0] == "-" else away)
    hour = datetime(int(text[7:11]), month, int(text[:2]), int(text[12:14]), tzinfo=zone)
    try:
        return hour.astimezone(UTC).date().isoformat()
    except OverflowError:
        raise ValueError("not a time in the years 1 to 9999") from None
