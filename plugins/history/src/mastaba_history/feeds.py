"""Feeds of publications: Atom (RFC 4287) with GeoRSS boxes, and JSON Feed 1.1."""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote
from uuid import NAMESPACE_URL, uuid5

from mastaba.api.web import escaped, legal
from mastaba_history.instants import rfc3339
from mastaba_history.layers import boxes

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer
    from mastaba_history.layers import LayerHistory
    from mastaba_history.records import Publication

ATOM: Final = "application/atom+xml"
JSON_FEED: Final = "application/feed+json"
MOST_ENTRIES: Final = 100

_ATOM_NAMESPACE: Final = "http://www.w3.org/2005/Atom"
_GEORSS: Final = "http://www.georss.org/georss"
_NEVER: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Entry:
    """A publication of a layer, for a client that sees the layer.

    Attributes:
        layer: as the client sees it; or one of its values.
        published: the publication.
        before: token of the one before it; empty for the first.
    """

    layer: Layer
    published: Publication
    before: str

    @property
    def id(self) -> str:
        """The same on all nodes, and in all views; differs if a version is published again."""
        one = self.published
        text = f"{self.layer.key}/{one.token}/{rfc3339(one.since)}"
        return f"urn:uuid:{uuid5(NAMESPACE_URL, text)}"

    @property
    def title(self) -> str:
        """For people."""
        numbers = ", ".join(map(str, self.published.numbers))
        return legal(f"{self.layer.title}: version {numbers}")

    @property
    def text(self) -> str:
        """The message of the publisher, or what has happened."""
        return legal(self.published.message) or f"published by {self.published.by or 'build'}"

    def facts(self, endpoint: str) -> dict[str, Any]:
        """Return the facts as JSON."""
        one = self.published
        links = {}
        if self.before:
            links["changes"] = changes_href(endpoint, self.layer.key, self.before, one.token)
        is_value = self.layer.key != self.layer.id
        return {
            "layer": self.layer.id,
            **({"value": dict(self.layer.at)} if is_value else {}),
            "generation": one.token,
            "since": rfc3339(one.since),
            "versions": list(one.numbers),
            "message": one.message,
            "by": one.by,
            **boxes(self.layer, one.bbox),
            **links,
        }


def newest(
    layers: Iterable[Layer],
    histories: Mapping[str, LayerHistory | None],
    since: datetime | None = None,
    most: int = MOST_ENTRIES,
) -> list[Entry]:
    """Return the newest publications of layers and their values, the newest first.

    Args:
        histories: by ``key``.
        since: only later ones.
    """

    def of_layer(layer: Layer, history: LayerHistory) -> Iterator[tuple[datetime, str, Entry]]:
        for published, before in history.changed():
            if since is not None and published.since <= since:
                return
            yield published.since, layer.key, Entry(layer, published, before)

    known = ((layer, histories.get(layer.key)) for layer in layers)
    lists = [of_layer(layer, history) for layer, history in known if history is not None]
    merged = heapq.merge(*lists, key=lambda item: item[:2], reverse=True)
    return [entry for _, _, entry in islice(merged, most)]


def atom_feed(endpoint: str, path: str, title: str, author: str, entries: Sequence[Entry]) -> str:
    """Return an Atom feed.

    Args:
        endpoint: public address of the service.
        path: of the feed below it.
        author: name; empty if it is unknown.
    """
    updated = rfc3339(entries[0].published.since if entries else _NEVER)
    home = f"{endpoint}{path.rpartition('/')[0]}"
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<feed xmlns="{_ATOM_NAMESPACE}" xmlns:georss="{_GEORSS}">',
        f"<id>urn:uuid:{uuid5(NAMESPACE_URL, path)}</id>",
        f"<title>{escaped(legal(title))}</title>",
        f"<updated>{updated}</updated>",
        f"<author><name>{escaped(legal(author)) or 'Mastaba'}</name></author>",
        f'<link rel="self" type="{ATOM}" href="{escaped(endpoint + path)}"/>',
        f'<link rel="alternate" type="application/json" href="{escaped(home)}"/>',
    ]
    for entry in entries:
        since = rfc3339(entry.published.since)
        href = version_href(endpoint, entry.layer.key, entry.published.token)
        facts = entry.facts(endpoint)
        lines += [
            "<entry>",
            f"<id>{entry.id}</id>",
            f"<title>{escaped(entry.title)}</title>",
            f"<updated>{since}</updated>",
            f"<published>{since}</published>",
            f'<link rel="alternate" type="application/json" href="{escaped(href)}"/>',
            f"<summary>{escaped(entry.text)}</summary>",
        ]
        if "changes" in facts:
            kind = 'rel="related" type="application/geo+json"'
            lines.append(f'<link {kind} href="{escaped(facts["changes"])}"/>')
        if "bbox" in facts:
            # Latitude before longitude.
            west, south, east, north = facts["bbox"]
            lines.append(f"<georss:box>{south} {west} {north} {east}</georss:box>")
        if "native_bbox" in facts:
            box = " ".join(map(str, facts["native_bbox"]))
            scheme = f"urn:mastaba:box:{facts['crs']}"
            lines.append(f'<category scheme="{escaped(scheme)}" term="{escaped(box)}"/>')
        lines.append("</entry>")
    return "\n".join([*lines, "</feed>", ""])


def json_feed(endpoint: str, path: str, title: str, author: str, entries: Sequence[Entry]) -> str:
    """Return a JSON Feed; arguments as for `atom_feed`."""
    document = {
        "version": "https://jsonfeed.org/version/1.1",
        "title": title,
        "home_page_url": f"{endpoint}{path.rpartition('/')[0]}",
        "feed_url": endpoint + path,
        **({"authors": [{"name": author}]} if author else {}),
        "items": [item(endpoint, entry) for entry in entries],
    }
    return json.dumps(document, ensure_ascii=False, indent=1)


def item(endpoint: str, entry: Entry) -> dict[str, Any]:
    """Return a publication as an item of a JSON Feed; also the body of webhooks."""
    return {
        "id": entry.id,
        "url": version_href(endpoint, entry.layer.key, entry.published.token),
        "title": entry.title,
        "content_text": entry.text,
        "date_published": rfc3339(entry.published.since),
        "_mastaba": entry.facts(endpoint),
    }


def layer_href(endpoint: str, layer: str) -> str:
    """Return the address of the history of a layer or value, by its key."""
    return f"{endpoint}/{quote(layer, safe=';=')}"


def version_href(endpoint: str, layer: str, token: str) -> str:
    """Return the address of a version."""
    return f"{layer_href(endpoint, layer)}/{token}"


def changes_href(endpoint: str, layer: str, before: str, after: str) -> str:
    """Return the address of the differences of two versions."""
    return f"{layer_href(endpoint, layer)}/changes/{before}..{after}"
