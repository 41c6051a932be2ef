"""Requests that no client should send: none of them is answered by a server error."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from tests.export.service.conftest import Exports
from tests.sizes import sized

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1.5, 1e308, -1e308, 5e-324, 10**30, "", " ", "x" * 5000, "\x00"),
    *("RGB_PNG", "RGBA_PNG", "FLOAT32_ZIP", "VECTOR", "../../etc/passwd", "\ud800", "EPSG:3857"),
    *("EPSG:999999", "CRS:84", "http://127.0.0.1/", "<script>", "' OR 1=1", "normal", "pmtiles"),
    *([], {}, [[]], [{}], {"value": 1}, {"href": "http://127.0.0.1/"}, {"bbox": 1}, [0] * 1000),
    *([0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0], [-1e308, -1e308, 1e308, 1e308], ["3"], ["3", "4"]),
    *([0, 30], [30, 0], [3, 3], [0.5, 1], [True, False], ["a", "b", "c", "d"], [None] * 4),
    {"type": "Polygon", "coordinates": [[[0, 0], [30, 0], [30, 30], [0, 0]]]},
    {"type": "Polygon", "coordinates": [[[0, 0]]]},
    {"type": "Polygon", "coordinates": "x"},
    {"type": "Polygon", "coordinates": [[[1e308, 0], [0, 1e308], [-1e308, 0], [1e308, 0]]]},
    {"type": "GeometryCollection", "geometries": []},
    {"type": "FeatureCollection", "features": [{"geometry": None}]},
    {"type": "Polygon", "coordinates": [[[x, x] for x in range(10_001)]]},
)
NAMES = (
    *("layer", "bbox", "area", "crs", "levels", "zoom", "format", "compression", "predictor"),
    *("fit", "style", "tms", "tile_format", "clip", "scheme", "tile_compression", "dedup", "x"),
)
BODIES = (b"", b"{", b"[]", b"null", b'"x"', b"\xff\xfe", b"[" * 50_000, b'{"inputs":' * 5000)
TEXTS = ("..", "%2e%2e", "%00", "x" * 3000, "-1", "%ff", "'", "nan", "1e9", "%0d%0aX-Injected: 1")


def hostile(exports: Exports, number: int) -> Any:
    """Send one request, which the number determines."""
    choose = random.Random(number)
    known = ("export-tiles", "export-tiles", "export-coverage")
    process = choose.choice((*known, *known, "none", choose.choice(TEXTS)))
    action = choose.choice(("execution", "estimate"))
    path = f"/export/processes/{process}/{action}"
    kind = choose.randrange(10)
    if kind < 7:
        inputs = {"layer": choose.choice(("RGB_PNG", "FLOAT32_ZIP", "VECTOR", "GREY_PNG"))}
        for _ in range(choose.randrange(4)):
            inputs[choose.choice(NAMES)] = choose.choice(VALUES)
        body: dict[str, Any] = {"inputs": inputs}
        if choose.random() < 0.1:
            body[choose.choice(("outputs", "response", "mode", "y"))] = choose.choice(VALUES)
        return exports.client.post(path, data=json.dumps(body), content_type="application/json")
    if kind == 7:
        body_bytes = choose.choice(BODIES)
        return exports.client.post(path, data=body_bytes, content_type="application/json")
    words = ("jobs", "processes", "results", "files", "0" * 32, *TEXTS)
    path = "/export/" + "/".join(choose.choice(words) for _ in range(choose.randrange(1, 5)))
    query = f"?{choose.choice(('limit', 'offset', 'f'))}={choose.choice(TEXTS)}"
    return exports.client.open(
        path + query, method=choose.choice(("GET", "DELETE", "POST")), data=choose.choice(BODIES)
    )


@pytest.mark.parametrize(
    "count",
    [200, pytest.param(sized(4000, 10_000), marks=pytest.mark.thorough)],
    ids=["few", "many"],
)
def test_no_request_is_a_server_error(open_exports: Callable[..., Exports], count: int) -> None:
    exports = open_exports(
        per_owner={"waiting": 5}, limits={"estimates": 10**9, "max_bytes": 10**8}
    )
    statuses: Counter[int] = Counter()
    for number in range(count):
        response = hostile(exports, number)
        statuses[response.status_code] += 1
        assert response.status_code < 500, (number, response.text[:500])
        assert "X-Injected" not in response.headers
        assert exports.settings.directory not in response.text
        if response.status_code >= 400:
            assert response.content_type == "application/problem+json", number
            assert response.get_json()["status"] == response.status_code
        if response.status_code == 201:
            # Half of them run, and whatever they are, the worker lives on.
            if number % 2:
                exports.worker.run_one()
            exports.client.delete(response.headers["Location"].removeprefix("http://maps.example"))
    assert statuses[400] > count // 3
    assert statuses[200] + statuses[201] > count // 50, statuses
    assert exports.results_left() == []
