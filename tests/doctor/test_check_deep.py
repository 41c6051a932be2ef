"""``mastaba check --deep`` and ``--format json``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mastaba.commands.main import main
from mastaba_conformance.tiny_installation import tiny_installation

Output = pytest.CaptureFixture[str]

# No program listens there, and only the superuser could.
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Return the server.json of an installation that is not running."""
    return tiny_installation(
        tmp_path / "own",
        services=("tms", "health"),
        public_url=NOWHERE,
        server_overrides={"port": str(tmp_path / "mastaba.sock")},
    )


def as_json(capsys: Output, *arguments: str) -> tuple[int, dict[str, Any]]:
    status = main(["check", *arguments, "--format", "json"])
    return status, json.loads(capsys.readouterr().out)


def damage(own: Path) -> Path:
    path = next((own.parent / "pyramids" / "RGB_PNG" / "DATA" / "2").rglob("*.tif"))
    data = path.read_bytes()
    path.write_bytes(data[:2100] + bytes(len(data) - 2100))
    return path


def test_without_deep_slabs_are_not_read(own: Path, capsys: Output) -> None:
    damage(own)
    assert main(["check", "-f", str(own)]) == 0
    assert capsys.readouterr().out.endswith("\n0 errors, 0 warnings, 9 layers usable\n")


def test_deep_check_names_what_it_examined(own: Path, capsys: Output) -> None:
    assert main(["check", "-f", str(own), "--deep", "--samples", "1"]) == 0
    *_, looked, counted = capsys.readouterr().out.splitlines()
    assert looked == (
        "examined 1 storages, 27 slabs of 27 levels, 2 public addresses; the port is free"
    )
    assert counted == "0 errors, 2 warnings, 9 layers usable"


def test_deep_finds_a_damaged_slab(own: Path, capsys: Output) -> None:
    path = damage(own)
    assert main(["check", "-f", str(own), "--deep"]) == 1
    printed = capsys.readouterr().out
    assert f"error: {path}: tile " in printed
    assert f"to do: compare with the pyramid descriptor; mastaba slab {path}" in printed


def test_json_of_a_quick_check(own: Path, capsys: Output) -> None:
    status, document = as_json(capsys, "-f", str(own))
    assert status == 0
    assert document == {
        "file": str(own),
        "errors": 0,
        "warnings": 0,
        "layers": 9,
        "missing_layers": [],
        "grey_in_pictures": ["FLOAT32_RAW", "FLOAT32_ZIP"],
        "served": [],
        "faults": [],
    }


def test_layers_that_are_grey_by_default_are_named(own: Path, capsys: Output) -> None:
    assert main(["check", "-f", str(own)]) == 0
    line = "drawn in grey in picture formats, by default: FLOAT32_RAW, FLOAT32_ZIP\n"
    assert line in capsys.readouterr().out


def test_json_of_a_deep_check(own: Path, capsys: Output) -> None:
    path = damage(own)
    status, document = as_json(capsys, "-f", str(own), "--deep")
    assert status == 1
    assert (document["errors"], document["warnings"]) == (1, 2)
    error = document["faults"][0]
    assert set(error) == {"severity", "file", "path", "reason", "remedy"}
    assert (error["severity"], error["file"]) == ("error", str(path))
    assert document["examined"]["port"] == "free"
    assert document["examined"]["endpoints"] == 2


def test_a_file_that_cannot_be_read(tmp_path: Path, capsys: Output) -> None:
    status, document = as_json(capsys, "-f", str(tmp_path / "none.json"), "--deep")
    assert status == 1
    assert document["faults"][0]["path"] == "$"
    assert "examined" not in document


def test_errors_in_descriptors_do_not_stop_the_other_checks(own: Path, capsys: Output) -> None:
    (own.parent / "layers" / "RGB_JPG.json").write_text("{}", encoding="utf-8")
    status, document = as_json(capsys, "-f", str(own), "--deep")
    assert status == 1
    assert document["layers"] == 8
    assert document["examined"]["levels"] == 24


@pytest.mark.parametrize("options", [["--samples", "3"], ["--deep", "--samples", "0"]])
def test_samples_need_deep_and_a_number(own: Path, capsys: Output, options: list[str]) -> None:
    assert main(["check", "-f", str(own), *options]) == 2
    printed = capsys.readouterr()
    assert "--samples" in printed.err
    assert printed.out == ""
