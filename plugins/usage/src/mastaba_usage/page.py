"""The page of usage for browsers."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode

from mastaba_server.web.pages import STYLE, page_headers, rendered_page
from mastaba_usage.database import SLOT
from mastaba_usage.heat import drawn, of_one_level
from mastaba_usage.reading import instant

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer
    from mastaba_usage.blocks import Block
    from mastaba_usage.database import Database

_TABLES: Final = (("Day", "day"), ("Layer", "layer"), ("Service", "service"))
_OF_ALL: Final = (*_TABLES, ("Key", "key"))
_MOST_ROWS: Final = 366
"""Of a table; those with most hits are shown."""

_BARS: Final = 288
"""Slots of 5 minutes in a day."""
_STYLE: Final = (
    STYLE
    + """
body { max-width: 48rem; }
a { margin-right: 1rem; }
table { border-collapse: collapse; width: 100%; }
th, td { padding: 0.2rem 0.5rem; text-align: right; font-variant-numeric: tabular-nums; }
th:first-child { text-align: left; font-weight: normal; overflow-wrap: anywhere; }
thead th { border-bottom: 1px solid; }
"""
)

HEADERS: Final = page_headers(_STYLE)


def usage_page(
    database: Database,
    address: str,
    period: tuple[str, str],
    where: Mapping[str, str],
    who: str,
    layers: Iterable[str] = (),
) -> str:
    """Return the page.

    Args:
        address: of the service.
        period: first and last day.
        where: what is shown, as in `Database.sums`.
        who: whose usage it is; empty for that of all.
        layers: those that have heat maps.

    Raises:
        UsageError: the database cannot be read.
    """
    first, last = period
    tables = []
    for title, column in _TABLES if who else _OF_ALL:
        rows = database.sums(first, last, [column], where)
        largest = sorted(rows, key=lambda row: -row["hits"])[:_MOST_ROWS]
        if column == "day":
            largest.sort(key=lambda row: str(row["day"]), reverse=True)
        shown = [(row[column], row["hits"], row["bytes"], row["cost"]) for row in largest]
        tables.append((title, shown))
    shown_for = who or "All clients"
    return rendered_page(
        "mastaba_usage",
        _STYLE,
        title=f"Usage – {shown_for}",
        who=shown_for,
        first=first,
        last=last,
        links=_links(address, first, last),
        bars=_bars(database, where.get("key", "")),
        maps=[(name, f"{address}/heat/{quote(name, safe='')}?f=html") for name in layers],
        tables=tables,
    )


def heat_page(
    layer: Layer, blocks: Sequence[Block], address: str, period: tuple[str, str], viewer: str
) -> str:
    """Return the page of a heat map, which draws one level.

    Args:
        layer: whose.
        blocks: with most hits first; the level of the first one that it has is drawn.
        address: of the heat map.
        period: first and last day.
        viewer: address of the page of the layer; empty without one.
    """
    level, found = of_one_level(layer, blocks)
    box, shapes = drawn(layer, found)
    named = {"from": period[0], "to": period[1]}
    links = [
        (f"Level {name}", f"{address}?{urlencode({**named, 'level': name, 'f': 'html'})}")
        for name in layer.pyramid.levels
    ]
    if viewer:
        links.append(("On the map", f"{viewer}#heat={'..'.join(period)}"))
    name = layer.title or layer.id
    return rendered_page(
        "mastaba_usage",
        _STYLE,
        "heat.html",
        title=f"Heat map – {name}",
        layer=name,
        level=level,
        first=period[0],
        last=period[1],
        links=[*links, ("GeoJSON", f"{address}?{urlencode({**named, 'f': 'json'})}")],
        box=box,
        shapes=shapes,
    )


def error_page(text: str) -> str:
    """Return the page of an error. It names nothing else: strangers may see it."""
    return rendered_page("mastaba_usage", _STYLE, "error.html", title="Usage", text=text)


def _bars(database: Database, key: str) -> list[tuple[int, float, str]]:
    """Return the last 24 hours: number of a slot, height in percent of the largest, and text."""
    now = time.time()
    begin = int(now // SLOT) * SLOT - (_BARS - 1) * SLOT
    slots = database.slots(begin, now, key)
    most = max((hits for _, hits, _ in slots), default=1) or 1
    return [
        ((start - begin) // SLOT, round(100 * hits / most, 1), f"{instant(start)}: {hits:,}")
        for start, hits, _ in slots
    ]


def _links(address: str, first: str, last: str) -> list[tuple[str, str]]:
    begin = date.fromisoformat(first).replace(day=1)
    found = []
    for text, month in (("Month before", begin - timedelta(1)), ("Next month", _next(begin))):
        start = month.replace(day=1)
        end = _next(start) - timedelta(1)
        query = urlencode({"from": start.isoformat(), "to": end.isoformat(), "f": "html"})
        found.append((text, f"{address}?{query}"))
    for text, form in (("CSV", "csv"), ("JSON", "json")):
        found.append((text, f"{address}?{urlencode({'from': first, 'to': last, 'f': form})}"))
    return found


def _next(month: date) -> date:
    return (month.replace(day=28) + timedelta(4)).replace(day=1)
