"""Zarr groups of coverages under rules: hidden and locked layers, areas and levels."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.access.identification.conftest import Credentials
from tests.access.test_views import rules
from tests.coverage.ground import LEVELS, ORIGIN, TILE, Ground
from werkzeug.test import Client

from mastaba.api.tools import create_application

GROUP = "/ogcapi/collections/ground/zarr"
ANYBODY = ["anonymous", "known"]


class Guarded:
    """The ground, with rules for everybody."""

    def __init__(self, directory: Path, *listed: dict[str, Any], **document: Any) -> None:
        self.ground = Ground(
            directory, services={"ogcapi": {"coverages": True}, "wmts": {}}, coverages=True
        )
        credentials = Credentials(directory)
        content = rules(*listed, default="allow") | document
        (directory / "rules.json").write_text(json.dumps(content))
        settings = json.loads(self.ground.server_json.read_text())
        settings.setdefault("plugins", {})["access"] = credentials.section(
            rules=str(directory / "rules.json")
        )
        self.ground.server_json.write_text(json.dumps(settings))
        self.client = Client(create_application(str(self.ground.server_json)), use_cookies=False)


@pytest.mark.parametrize("key", ["", "/.zgroup", "/.zmetadata", "/3/.zarray", "/3/0.0"])
@pytest.mark.parametrize("what", [{}, {"abilities": ["coverages"]}], ids=["layer", "ability"])
def test_a_hidden_layer_has_no_group(what: dict[str, Any], key: str, tmp_path: Path) -> None:
    rule = {"who": ANYBODY, "what": {"layers": ["ground"], **what}, "deny": {"as": "hide"}}
    client = Guarded(tmp_path, rule).client
    answer = client.get(f"{GROUP}{key}")
    absent = client.get(f"{GROUP.replace('ground', 'nothing')}{key}")
    assert answer.status_code == absent.status_code == 404


def test_a_locked_layer_has_documents_and_no_chunks(tmp_path: Path) -> None:
    rule = {"who": ["anonymous"], "what": {"layers": ["ground"]}, "deny": {"as": "lock"}}
    client = Guarded(tmp_path, rule).client
    assert client.get(f"{GROUP}/3/.zarray").status_code == 200
    assert client.get(f"{GROUP}/3/0.0").status_code == 401
    # Not even whether a chunk exists.
    assert client.get(f"{GROUP}/3/7.5").status_code == 401


def test_levels_beyond_a_limit_are_no_arrays(tmp_path: Path) -> None:
    rule = {"who": ANYBODY, "what": {"layers": ["ground"]}, "limit": {"resolution": [2.0, 1000.0]}}
    client = Guarded(tmp_path, rule).client
    keys = client.get(f"{GROUP}/.zmetadata").json["metadata"]
    assert [key for key in keys if key.endswith(".zarray")] == [
        "2/.zarray",
        "1/.zarray",
        "0/.zarray",
    ]
    for key in ("3/.zarray", "3/0.0"):
        assert client.get(f"{GROUP}/{key}").status_code == 404
    assert client.get(f"{GROUP}/2/0.0").status_code == 200


def test_chunks_show_nothing_outside_of_an_area(tmp_path: Path) -> None:
    """Arrays begin at the first tile of the area, and pixels outside are nodata in each chunk."""
    cell = 1.0
    plan = LEVELS[0]
    assert plan.id == "3"
    # A triangle that cuts tiles, in cells of the finest level.
    corners = [(8 * TILE + 10, 9 * TILE + 20), (15 * TILE, 12 * TILE), (10 * TILE, 20 * TILE - 7)]
    ring = [(ORIGIN[0] + x * cell, ORIGIN[1] - y * cell) for x, y in corners]
    text = ", ".join(f"{x} {y}" for x, y in [*ring, ring[0]])
    areas = {"part": {"wkt": f"POLYGON(({text}))", "crs": "EPSG:2154"}}
    rule = {"who": ANYBODY, "what": {"layers": ["ground"]}, "limit": {"area": "part"}}
    guarded = Guarded(tmp_path, rule, areas=areas)
    ground, client = guarded.ground, guarded.client
    described = client.get(f"{GROUP}/3/.zarray").json
    top, left = 9, 8
    assert described["shape"] == [11 * TILE, 7 * TILE]
    transform = client.get(f"{GROUP}/3/.zattrs").json["spatial:transform"]
    assert transform[2] == ORIGIN[0] + left * TILE
    assert transform[5] == ORIGIN[1] - top * TILE
    y, x = np.mgrid[0 : 11 * TILE, 0 : 7 * TILE]
    x, y = x + left * TILE + 0.5, y + top * TILE + 0.5
    inside = np.ones(x.shape, bool)
    margins = np.full(x.shape, np.inf)
    for (x1, y1), (x2, y2) in zip(corners, corners[1:] + corners[:1], strict=True):
        distance = ((x - x1) * (y2 - y1) - (y - y1) * (x2 - x1)) / np.hypot(x2 - x1, y2 - y1)
        inside &= distance < 0
        margins = np.minimum(margins, abs(distance))
    # Edges may deviate by a quarter of a pixel.
    certain = margins > 0.3
    shown = 0
    for row in range(11):
        for col in range(7):
            answer = client.get(f"{GROUP}/3/{row}.{col}")
            place = np.s_[row * TILE : (row + 1) * TILE, col * TILE : (col + 1) * TILE]
            if answer.status_code == 404:
                is_empty = not (inside & certain)[place].any()
                assert is_empty or ground.made("3", top + row, left + col) is None
                continue
            values = np.frombuffer(zlib.decompress(answer.data), "<f4").reshape(TILE, TILE)
            stored = ground.values(
                "3",
                *((top + row) * TILE, (top + row + 1) * TILE),
                *((left + col) * TILE, (left + col + 1) * TILE),
            )[:, :, 0]
            wanted, sure = inside[place], certain[place]
            outside = values[~wanted & sure]
            assert (outside == -99999).all()
            kept = wanted & sure
            assert values[kept].tobytes() == stored[kept].tobytes()
            shown += int(kept.sum())
    assert shown > 10_000
