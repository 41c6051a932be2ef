"""Memento (RFC 7089): links of the versions of a layer, and the list of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from mastaba.api.web import preferred_media_type
from mastaba_history.feeds import layer_href, version_href
from mastaba_history.instants import http_date
from mastaba_history.tokens import DAY

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer
    from mastaba.api.web import Request
    from mastaba_history.records import Publication

LINKS: Final = "application/link-format"
FOR_A_DAY: Final = ("Cache-Control", DAY)


def timemap(endpoint: str, layer: Layer, shown: Sequence[Publication]) -> str:
    """Return a TimeMap (RFC 7089, section 5) of publications, the oldest first."""
    href = layer_href(endpoint, layer.key)
    first, last = http_date(shown[0].since), http_date(shown[-1].since)
    lines = [
        f'<{href}>;rel="original"',
        f'<{href}/at>;rel="timegate"',
        f'<{href}?f=timemap>;rel="self";type="{LINKS}";from="{first}";until="{last}"',
    ]
    for number, published in enumerate(shown):
        words = ["first"] * (number == 0) + ["last"] * (number == len(shown) - 1)
        relation = " ".join([*words, "memento"])
        address = version_href(endpoint, layer.key, published.token)
        when = http_date(published.since)
        lines.append(f'<{address}>;rel="{relation}";datetime="{when}"')
    return ",\n".join(lines)


def timemap_href(endpoint: str, layer: str) -> str:
    """Return the address of the TimeMap of a layer or value."""
    return f"{layer_href(endpoint, layer)}?f=timemap"


def memento_links(endpoint: str, layer: Layer) -> str:
    """Return the links between a layer, its TimeGate and its TimeMap (RFC 7089, section 2.2)."""
    href = layer_href(endpoint, layer.key)
    return (
        f'<{href}>;rel="original", <{href}/at>;rel="timegate", '
        f'<{timemap_href(endpoint, layer.key)}>;rel="timemap";type="{LINKS}"'
    )


def version_headers(
    endpoint: str, layer: Layer, first: Publication | None
) -> list[tuple[str, str]]:
    """Return the headers of a document of a version (RFC 7089, section 2.1)."""
    headers = [("Link", memento_links(endpoint, layer)), FOR_A_DAY]
    if first is not None:
        headers.append(("Memento-Datetime", http_date(first.since)))
    return headers


def wants_timemap(request: Request) -> bool:
    """Return whether a client asks for the TimeMap, by ``f`` or else ``Accept``."""
    form = request.query.get("f", "").lower()
    if form:
        return form in ("timemap", "link-format")
    accepted = request.header("Accept") or ""
    return LINKS in accepted and preferred_media_type(request, ("application/json", LINKS)) == LINKS
