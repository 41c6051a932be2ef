"""``mastaba check`` reports keys that an object has twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.tiny import tiny_installation

from mastaba.api.storages import Environment, ResourcePath, StoragePool
from mastaba.api.tools import Plugins
from mastaba.commands.main import main
from mastaba_doctor.duplicates import duplicate_keys

YAML = """\
title: One
abstract: Somewhere
pyramids:
  - &whole {bottom_level: "LEVEL", path: PATH, top_level: "LEVEL", path: PATH}
keywords: [a]
title: Other
"""


def found(file: Path, capsys: pytest.CaptureFixture[str]) -> list[tuple[str, str]]:
    """Return file name and JSON path of each problem; all are warnings about duplicate keys."""
    assert main(["check", "-f", str(file), "--format", "json"]) == 0
    faults: list[Any] = json.loads(capsys.readouterr().out)["faults"]
    for fault in faults:
        assert fault["severity"] == "warning"
        assert fault["reason"] == "duplicate key, the last value is used"
        assert fault["remedy"]
    return [(Path(fault["file"]).name, fault["path"]) for fault in faults]


def with_twice(path: Path, key: str) -> None:
    """Write the first value of a key once more, before it, in the first object that has it."""
    text = path.read_text("utf-8")
    start = text.index(f'"{key}"')
    value, _ = json.JSONDecoder().raw_decode(text, text.index(":", start) + 2)
    path.write_text(f'{text[:start]}"{key}": {json.dumps(value)}, {text[start:]}', "utf-8")


def test_keys_are_named_in_every_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tiny_installation(tmp_path, services=["health"])
    assert found(file, capsys) == []
    configurations = json.loads(file.read_text())["configurations"]
    services = Path(configurations["services"])
    layer = Path(Path(configurations["layers"]).read_text().split()[0])
    pyramid = Path(json.loads(layer.read_text())["pyramids"][0]["path"])
    tile_matrix_set = json.loads(pyramid.read_text())["tile_matrix_set"]
    places = {
        file: "configurations.services",
        services: "enabled",
        layer: "pyramids[0].top_level",
        pyramid: "levels[0].tile_limits.min_row",
        Path(configurations["tile_matrix_sets"]) / f"{tile_matrix_set}.json": "crs",
        Path(configurations["styles"]) / "normal.json": "identifier",
    }
    for path, at in places.items():
        with_twice(path, at.rpartition(".")[2])
    assert sorted(found(file, capsys)) == sorted(
        (path.name, f"$.{at}") for path, at in places.items()
    )


def test_keys_are_named_in_yaml(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tiny_installation(tmp_path, services=["health"])
    listed = Path(json.loads(file.read_text())["configurations"]["layers"])
    pyramid = json.loads(Path(listed.read_text().split()[0]).read_text())["pyramids"][0]
    layer = tmp_path / "ONE.yaml"
    text = YAML.replace("PATH", pyramid["path"]).replace("LEVEL", pyramid["top_level"])
    layer.write_text(text)
    listed.write_text(f"{layer}\n")
    assert found(file, capsys) == [
        ("ONE.yaml", "$.title"),
        ("ONE.yaml", "$.pyramids[0].path"),
    ]


def paths(name: str, text: str, folder: Path) -> list[str]:
    """Return the JSON paths of duplicate keys in a document."""
    path = folder / name
    path.write_text(text)
    pool = StoragePool(Plugins().storages, Environment())
    return [fault.path for fault in duplicate_keys([ResourcePath.parse(str(path))], pool)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": {"b": 1}, "c": {"b": 1}}', []),
        ('{"a": [{"b": 1, "b": 1, "b": 1}, {"b": 1}]}', ["$.a[0].b"]),
        ('{"a": {"b": 1, "b": null}, "a": {"b": 1, "b": 2}}', ["$.a", "$.a.b"]),
        (f'{{"a": {"1" * 5000}, "a": 1}}', ["$.a"]),
        ('{"a": 1, "a": }', []),
        ("[" * 100_000, []),
        ("layers.json\nothers.json", []),
    ],
)
def test_json(text: str, expected: list[str], tmp_path: Path) -> None:
    assert paths("a.json", text, tmp_path) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\nb: {a: 1}", []),
        ("a: 1\n'a': 2", ["$.a"]),
        ("1: a\n'1': b", ["$.1"]),
        ("- &x {a: 1, a: 2}\n- *x\n- {<<: *x, <<: *x, a: 3}", ["$[0].a"]),
        ("&x {a: *x, b: 1, b: 1}", []),
        ("? [1, 2]\n: 3\n? [1, 2]\n: 4", []),
        ("a: [", []),
        ("", []),
    ],
)
def test_yaml(text: str, expected: list[str], tmp_path: Path) -> None:
    assert paths("a.yml", text, tmp_path) == expected


def test_other_problems_of_server_json_do_not_hide_duplicate_keys(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "server.json"
    file.write_text('{"port": ":9000", "port": ":9001"}')
    assert main(["check", "-f", str(file), "--format", "json"]) == 1
    faults = json.loads(capsys.readouterr().out)["faults"]
    assert ["$.port", "warning"] in [[fault["path"], fault["severity"]] for fault in faults]
