"""The memory that tables of sources take."""

from __future__ import annotations

import json
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.tiny import tiny_installation

from mastaba.api.catalogue import BoundingBox
from mastaba.api.storages import ResourcePath
from mastaba.commands.main import main
from mastaba_provenance import tables
from mastaba_provenance.tables import SourceTable, SourceTables, box_of


class Store:
    """Tables by their path, of a size; counts reads."""

    def __init__(self) -> None:
        self.read: list[str] = []

    def read_full(self, path: ResourcePath) -> bytes:
        self.read.append(path.key)
        text = '{"version": 1, "pyramid": "a_sources.json", "next": 2, "sources": [{"number": 1}]}'
        return text.encode().ljust(4000)


def _layer(name: str) -> Any:
    own = {"provenance": f"/pyramids/{name}.sources.json"}
    pyramid = SimpleNamespace(parts=(), generation=name)
    return SimpleNamespace(own=own, id=name, key=name, pyramid=pyramid)


def table_of(rows: list[dict[str, Any]]) -> SourceTable:
    text = json.dumps({"pyramid": "a_sources.json", "sources": rows}).encode()
    layer, store = _layer("a"), SimpleNamespace(read_full=lambda _path: text)
    catalogue: Any = SimpleNamespace(layers={"a": layer}, shown=None, storages=store)
    found = SourceTables().table_of(layer, catalogue)
    assert found is not None
    return found


def test_tables_are_kept_up_to_a_number_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_MOST_KEPT", 3 * 4000 + 100)
    known, store = SourceTables(), Store()
    layers = {name: _layer(name) for name in "abcd"}
    catalogue: Any = SimpleNamespace(layers=layers, shown=None, storages=store)
    for name in ("a", "b", "c", "a", "d", "a", "c", "b"):
        table = known.table_of(layers[name], catalogue)
        assert table is not None
        assert list(table.rows) == [1]
    read = [key.rpartition("/")[2][0] for key in store.read]
    assert read == ["a", "b", "c", "d", "b"]


def test_rows_near_boxes_are_those_whose_boxes_meet_them() -> None:
    chance = random.Random(8)
    rows: list[dict[str, Any]] = [{"number": 301}, {"number": 302, "box": None}]
    for number in range(1, 301):
        west, south = chance.randint(-180, 170), chance.randint(-90, 80)
        east = west + chance.randint(1, 30)
        box = [west, south, east - 360 if east > 180 else east, south + chance.randint(1, 10)]
        rows.append({"number": number, "box": box})
    table = table_of(rows)
    views = [(BoundingBox(170, -90, 180, 0), BoundingBox(-180, -90, -175, 0))]
    for _ in range(50):
        west, south = chance.uniform(-180, 170), chance.uniform(-90, 80)
        views.append((BoundingBox(west, south, west + 10, south + 10),))
    for boxes in views:
        expected = [
            number
            for number, row in table.rows.items()
            if any(one.intersection(box) is not None for one in box_of(row) for box in boxes)
        ]
        assert [row["number"] for row in table.near(boxes)] == expected
        assert expected == sorted(expected)
    assert list(table.near([BoundingBox(-180, -90, 180, 90)])) == list(table.rows.values())[:300]


def test_a_table_without_sources_has_none_near() -> None:
    assert list(table_of([]).near([BoundingBox(-180, -90, 180, 90)])) == []


@pytest.mark.parametrize(
    "text", ["", '{"sources": [', "[]", "1", '{"sources": [{}]}', "[" * 9999, None]
)
def test_a_damaged_table_is_found_by_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None
) -> None:
    server_json = tiny_installation(tmp_path)
    services = tmp_path / "services.json"
    section = {"enabled": True, "endpoint_uri": "http://localhost/p", "root_path": "/p"}
    services.write_text(json.dumps(json.loads(services.read_text()) | {"provenance": section}))
    table = tmp_path / "a.sources.json"
    # A directory stands for a storage that cannot be read.
    table.mkdir() if text is None else table.write_text(text)
    layer = next((tmp_path / "layers").glob("RGB_PNG.json"))
    layer.write_text(json.dumps(json.loads(layer.read_text()) | {"provenance": str(table)}))
    assert main(["check", "-f", str(server_json)]) == 1
    shown = capsys.readouterr().out
    assert "layer RGB_PNG: $.provenance" in shown
    assert "the table of sources cannot be used" in shown
    assert ("write it again" in shown) == (text is not None)
    assert ("make sure that its storage can be read" in shown) == (text is None)
