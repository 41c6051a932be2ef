"""Forms of answers: rows, STAC, CSV and lines of attribution (time.md section 5.5)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from mastaba.api.catalogue import BoundingBox
from mastaba_ows.boxes import polygon
from mastaba_provenance.dates import label, span_of_row
from mastaba_provenance.tables import Row, box_of
from mastaba_server.web.pieces import csv_pieces

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer

STAC: Final = "1.0.0"
_LONGEST: Final = 200
_ZOOMS: Final = 32
_COLUMNS: Final = (
    *("number", "id", "title", "date", "start", "end", "gsd", "accuracy", "licence"),
    *("attribution", "attribution_url", "href", "stac", "group"),
    *("west", "south", "east", "north", "pixels"),
)


def shown(row: Row, part: BoundingBox | None = None) -> dict[str, Any]:
    """Return a row without its footprint, as answers contain it.

    Args:
        part: the box of the layer, if its client sees an area only: nothing is told of the rest.
    """
    found = {key: value for key, value in row.items() if key != "footprint"}
    if part is not None:
        found.pop("pixels", None)
        found.pop("box", None)
        boxes = [box for one in box_of(row) if (box := one.intersection(part)) is not None]
        if len(boxes) == 1:
            found["box"] = list(_corners(boxes[0]))
    return found


def feature(row: Row, layer: str, href: str, part: BoundingBox | None = None) -> dict[str, Any]:
    """Return a source as a STAC item with its footprint."""
    found = shown(row, part)
    box = found.pop("box", None)
    geometry = row.get("footprint") if part is None else None
    if geometry is None and box is not None:
        geometry = polygon(box)
    properties: dict[str, Any] = {"datetime": None, **found, **_dates(row)}
    item: dict[str, Any] = {
        "type": "Feature",
        "stac_version": STAC,
        "id": str(row["number"]),
        "geometry": geometry,
        "properties": properties,
        "links": [{"rel": "collection", "href": href, "type": "application/json"}],
        "assets": {},
        "collection": layer,
    }
    if box is not None:
        item["bbox"] = box
    return item


def table(rows: Iterable[Row], part: BoundingBox | None = None) -> Iterator[bytes]:
    """Yield the parts of sources as CSV (RFC 4180) with a row of names."""
    return csv_pieces((_flat(shown(row, part)) for row in rows), _COLUMNS)


def _flat(found: dict[str, Any]) -> dict[str, Any]:
    """Return a row with columns of its attribution and box."""
    attribution = found.pop("attribution", None)
    if isinstance(attribution, Mapping):
        found["attribution"] = attribution.get("title", "")
        found["attribution_url"] = attribution.get("url", "")
    found |= zip(("west", "south", "east", "north"), found.get("box", ()), strict=False)
    return found


def line_of(rows: Sequence[Row]) -> str:
    """Return who is to be named, with years: ``© A 2021, B 2023``; at most 200 characters.

    Args:
        rows: by share, the largest first.
    """
    years: dict[str, set[str]] = {}
    for row in rows:
        name = _whom(row)
        if name:
            years.setdefault(name, set()).add(label(row))
    text = ""
    for name, found in years.items():
        dates = sorted(found - {""})
        span = dates[0] if dates else ""
        if len(dates) > 1:
            span = f"{dates[0][:4]}–{max(one[-4:] for one in dates)}"
        longer = f"{text}, " if text else "© "
        longer += f"{name} {span}".rstrip()
        if len(longer) > _LONGEST:
            # The first name may be too long itself.
            return f"{(text or longer)[: _LONGEST - 3]} …"
        text = longer
    return text


def attribution(
    rows: Sequence[Row], layer: Layer, zooms: tuple[int, int] | None, part: BoundingBox | None
) -> dict[str, Any]:
    """Return single-file STAC with one item and one collection for each group of sources.

    The sources with the latest dates have the highest priority.

    Args:
        rows: the sources of the layer.
        zooms: of the layer; None if its levels are no zooms.
        part: as in `shown`.
    """
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(str(row.get("group") or _whom(row) or row["id"]), []).append(row)
    first, last = zooms or (0, _ZOOMS)
    ends = {name: _span(members) for name, members in groups.items()}
    ordered = sorted(groups, key=lambda name: (ends[name] or ("", ""))[::-1])
    features, collections = [], []
    for priority, name in enumerate(ordered, 1000):
        members = groups[name]
        boxes = [box for row in members for box in box_of(row)]
        if part is not None:
            boxes = [cut for box in boxes if (cut := box.intersection(part)) is not None]
        span = ends[name]
        properties: dict[str, Any] = {"title": name, "datetime": None}
        if span is not None:
            properties["start_datetime"], properties["end_datetime"] = span
        if boxes:
            corners = [list(_corners(box)) for box in boxes]
            union = boxes[0]
            for box in boxes[1:]:
                union = union.union(box)
            features.append(
                {
                    "type": "Feature",
                    "stac_version": STAC,
                    "id": f"item-{priority}",
                    "collection": name,
                    "assets": {},
                    "links": [],
                    "bbox": list(_corners(union)),
                    "geometry": {
                        "type": "MultiPolygon",
                        "coordinates": [polygon(box)["coordinates"] for box in corners],
                    },
                    "properties": properties,
                }
            )
        licences = {str(row["licence"]) for row in members if row.get("licence")}
        collections.append(
            {
                "type": "Collection",
                "stac_version": STAC,
                "id": name,
                "title": name,
                "description": line_of(members) or name,
                "license": licences.pop()
                if len(licences) == 1
                else "various"
                if licences
                else "proprietary",
                "providers": _providers(members),
                "extent": {
                    "spatial": {
                        "bbox": [list(_corners(box)) for box in boxes] or [[-180, -90, 180, 90]]
                    },
                    "temporal": {"interval": [list(span or (None, None))]},
                },
                "links": [],
                "summaries": {
                    "linz:zoom": {"min": first, "max": last},
                    "linz:priority": [priority],
                },
            }
        )
    return {
        "type": "FeatureCollection",
        "stac_version": STAC,
        "stac_extensions": ["single-file-stac"],
        "id": layer.id,
        "title": layer.title,
        "description": "Sources of the layer",
        "features": features,
        "collections": collections,
        "links": [],
    }


def written(document: Any) -> str:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def _whom(row: Row) -> str:
    found = row.get("attribution")
    return str(found.get("title", "")) if isinstance(found, Mapping) else ""


def _providers(rows: Iterable[Row]) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        name = _whom(row)
        if name:
            url = row["attribution"].get("url")
            found.setdefault(name, {"name": name, **({"url": url} if url else {})})
    return list(found.values())


def _span(rows: Iterable[Row]) -> tuple[str, str] | None:
    spans = [span for row in rows if (span := span_of_row(row)) is not None]
    return (min(one[0] for one in spans), max(one[1] for one in spans)) if spans else None


def _dates(row: Row) -> dict[str, Any]:
    span = span_of_row(row)
    if span is None:
        return {}
    if span[0] == span[1]:
        return {"datetime": span[0]}
    return {"start_datetime": span[0], "end_datetime": span[1]}


def _corners(box: BoundingBox) -> tuple[float, float, float, float]:
    return box.xmin, box.ymin, box.xmax, box.ymax
