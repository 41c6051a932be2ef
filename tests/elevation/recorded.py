"""Answers that were recorded once: a change of the code must not change a bit of them.

``MASTABA_RECORD=1 pytest tests/elevation/test_recorded_answers.py`` records them again.
"""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

FILE: Final = Path(__file__).with_name("recorded.json")

BOXES: Final = {
    "world": ("EPSG:4326", (-179.9, -89.0, 179.9, 89.0)),
    "alps": ("EPSG:2154", (899990.0, 6598690.0, 901310.0, 6600010.0)),
    "merc": ("EPSG:3857", (-1300000.0, 3700000.0, 5100000.0, 8200000.0)),
}
"""CRS in which a layer is stored, and a box around it."""

_PROFILES: Final[tuple[dict[str, Any], ...]] = (
    {"points": 20},
    {"points": 20, "mode": "even"},
    {"simplify": 5},
)


def places(name: str, count: int) -> list[list[float]]:
    """Return places all over a layer, without order."""
    left, bottom, right, top = BOXES[name][1]
    found = []
    for k in range(count):
        across, up = (k * 0.6180339887498949) % 1, (k * 0.7548776662466927) % 1
        found.append([left + across * (right - left), bottom + up * (top - bottom)])
    return found


def requests() -> dict[str, tuple[str, Any]]:
    """Return path and body of requests by name; without a body they are GET."""
    found: dict[str, tuple[str, Any]] = {}
    for name, (crs, (left, bottom, right, top)) in BOXES.items():
        query = f"crs={crs}&dataset={name}"
        for method in ("nearest", "bilinear", "cubic"):
            for strict in ("false", "true"):
                body: dict[str, Any] = {
                    "geometry": {"type": "MultiPoint", "coordinates": places(name, 60)},
                    "interpolation": method,
                    "strict": strict,
                }
                path = f"/elevation/points?{query}"
                found[f"{name} {method} strict={strict}"] = path, body
        line = {"type": "LineString", "coordinates": places(name, 4)}
        for more in _PROFILES:
            body = {"geometry": line, "path": "straight", **more}
            found[f"{name} profile {more}"] = f"/elevation/profile?{query}", body
        ring = places(name, 3)
        area = {"type": "Polygon", "coordinates": [[*ring, ring[0]]]}
        body = {"geometry": area, "percentiles": [5, 50, 95], "plane": 300}
        found[f"{name} statistics"] = f"/elevation/statistics?{query}", body
        across, up = (right - left) / 25, (top - bottom) / 25
        x, y = (left + right) / 2, (bottom + top) / 2
        box = f"{x - across},{y - up},{x + across},{y + up}"
        named = "CRS84" if name == "world" else crs
        edr = f"/elevation/edr/collections/{name}"
        text = f"POLYGON(({x} {y},{x + across} {y},{x} {y + up},{x} {y}))"
        for method in ("bilinear", "cubic"):
            options = urlencode({"crs": named, "interpolation": method, "f": "CSV"})
            found[f"{name} cube {method}"] = f"{edr}/cube?bbox={box}&{options}", None
            area_of = urlencode({"coords": text})
            found[f"{name} area {method}"] = f"{edr}/area?{area_of}&{options}", None
        line_of = urlencode({"coords": f"LINESTRING({x} {y},{x + across} {y + up})"})
        options = urlencode({"crs": named, "f": "CSV", "points": 12})
        found[f"{name} trajectory"] = f"{edr}/trajectory?{line_of}&{options}", None
    return found


def answers(client: Any) -> dict[str, Any]:
    """Return the heights, or the statistics, of each request."""
    found: dict[str, Any] = {}
    for name, (path, body) in requests().items():
        response = client.get(path) if body is None else client.post(path, json=body)
        assert response.status_code == 200, response.data[:200]
        if response.mimetype == "text/csv":
            rows = csv.DictReader(io.StringIO(response.text, newline=""))
            found[name] = [float(row["elevation"]) if row["elevation"] else None for row in rows]
            continue
        content = json.loads(response.data)
        found[name] = content.get("statistics") or [
            item["elevation"] for item in content["results"]
        ]
    return found
