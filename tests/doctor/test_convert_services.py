"""``mastaba convert-services``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mastaba.commands.main import main

OLD = {"provider": "Bürger-Service", "contact": {}, "wms": {"enabled": True}, "motto": "x"}


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "old.json"
    path.write_text(json.dumps(OLD), encoding="utf-8")
    return path


def test_the_result_is_printed_and_notes_are_separate(
    old: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["convert-services", str(old)]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["global"]["provider"] == "Bürger-Service"
    assert "$.motto: is dropped" in printed.err
    assert "$.wms.reprojection" in printed.err


def test_the_result_is_written(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new = old.with_name("new.json")
    assert main(["convert-services", str(old), str(new)]) == 0
    assert json.loads(new.read_text("utf-8"))["wms"] == {"enabled": True}
    assert capsys.readouterr().out == ""


def test_nothing_is_overwritten(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = old.read_bytes()
    assert main(["convert-services", str(old), str(old)]) == 1
    assert old.read_bytes() == before
    assert "already exists" in capsys.readouterr().err


def test_nulls_count_as_absent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "nulls.json"
    path.write_text('{"contact": {}, "wmts": {"title": null}, "tiles": null}', encoding="utf-8")
    assert main(["convert-services", str(path)]) == 0
    converted = json.loads(capsys.readouterr().out)
    assert converted["wmts"] == {}
    assert "ogcapi" not in converted


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"global": {}}', "already of version 7"),
        (b"[]", "is not an object"),
        (b"{", "not valid JSON"),
        (b"\xff\xfe", "not UTF-8"),
        (b"null", "is empty"),
    ],
)
def test_what_cannot_be_converted_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, reason: str
) -> None:
    path = tmp_path / "old.json"
    path.write_bytes(content)
    assert main(["convert-services", str(path), str(tmp_path / "new.json")]) == 1
    assert reason in capsys.readouterr().err
    assert not (tmp_path / "new.json").exists()


def test_an_absent_file_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert-services", str(tmp_path / "absent.json")]) == 1
    assert "does not exist" in capsys.readouterr().err


def test_a_folder_that_is_not_there_is_reported(
    old: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["convert-services", str(old), str(old.parent / "none" / "new.json")]) == 1
    assert "cannot write" in capsys.readouterr().err
