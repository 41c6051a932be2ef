"""``mastaba tile``, and the same in the headers of a server with ``debug``."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from mastaba.commands.main import main
from mastaba_conformance.tiny_installation import tiny_installation


@pytest.fixture
def installation(tmp_path: Path) -> Path:
    return tiny_installation(tmp_path / "i", services=["health"])


def _slab(installation: Path) -> Path:
    return installation.parent / "pyramids" / "RGB_JPG" / "DATA" / "4" / "00" / "00" / "43.tif"


def _ask(installation: Path, *words: str) -> int:
    return main(["tile", "-f", str(installation), *words])


def test_a_stored_tile(installation: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _ask(installation, "RGB_JPG", "PM", "4", "6", "9") == 0
    printed = capsys.readouterr().out
    slab = _slab(installation)
    offset = int.from_bytes(slab.read_bytes()[2048 + 4 : 2048 + 8], "little")
    size = int.from_bytes(slab.read_bytes()[2048 + 20 : 2048 + 24], "little")
    assert f"slab       {slab}\n           tile 1 of 2 × 2\n" in printed
    assert f"state      stored, {size} bytes at {offset}\n" in printed


def test_outside_the_limits(installation: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _ask(installation, "RGB_JPG", "PM", "4", "9", "5") == 1
    printed = capsys.readouterr().out
    assert "outside the limits of the level" in printed
    assert "RGB_JPG.json: $.levels[2].tile_limits" in printed
    path = installation.parent / "layers" / "RGB_JPG.json"
    document = json.loads(path.read_text("utf-8"))
    document["bbox"] = {"west": 31.0, "south": 41.5, "east": 32.0, "north": 42.0}
    path.write_text(json.dumps(document), "utf-8")
    _ask(installation, "RGB_JPG", "PM", "4", "6", "10")
    assert f"set by {path}: $.bbox" in capsys.readouterr().out


def test_missing_slabs(installation: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slab = _slab(installation)
    data = bytearray(slab.read_bytes())
    data[2048 + 20 : 2048 + 24] = bytes(4)
    states = {
        "the index of the slab says that it is not stored": lambda: slab.write_bytes(data),
        "the slab is empty": lambda: slab.write_bytes(b""),
        "the slab does not exist": slab.unlink,
    }
    for words, change in states.items():
        change()
        assert _ask(installation, "RGB_JPG", "PM", "4", "6", "9") == 1
        assert f"absent: {words}\n           according to {slab}" in capsys.readouterr().out


def test_a_slab_of_another_size(installation: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = installation.parent / "pyramids" / "RGB_JPG.json"
    document = json.loads(path.read_text("utf-8"))
    for level in document["levels"]:
        level.update(tiles_per_width=1, tiles_per_height=4)
    path.write_text(json.dumps(document), "utf-8")
    slab = installation.parent / "pyramids" / "RGB_JPG" / "DATA" / "4" / "00" / "00" / "91.tif"
    shutil.copy(_slab(installation), slab)
    assert _ask(installation, "RGB_JPG", "PM", "4", "6", "9") == 1
    words = "the slab has 2 × 2 tiles, the descriptor says 1 × 4"
    assert f"PROBLEM    {words}" in capsys.readouterr().out
    assert main(["check", "-f", str(installation), "--deep"]) == 1
    printed = capsys.readouterr().out
    assert f"layer RGB_JPG, level 4: {words}" in printed


@pytest.mark.sampled(one_in=2)
@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("RGB_JGP", "PM", "4", "6", "9"), "there is no layer 'RGB_JGP'; did you mean 'RGB_JPG'?"),
        (("RGB_JPG", "4326", "4", "6", "9"), "is stored in the tile matrix set 'PM' only"),
        (("RGB_JPG", "PM", "12", "6", "9"), "has no level '12' (levels: "),
        (("RGB_JPG", "PM", "x", "6", "9"), "there is no matrix in PM with the id 'x'"),
        (("BROKEN", "PM", "4", "6", "9"), "the layer 'BROKEN' is not published because of errors"),
    ],
)
def test_the_reason_why_a_tile_is_missing_is_printed(
    installation: Path, words: tuple[str, ...], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with (installation.parent / "layers.txt").open("a", encoding="utf-8") as stream:
        stream.write("BROKEN.json\n")
    assert _ask(installation, *words) == 1
    printed = capsys.readouterr().err
    assert reason in printed
    if words[0] == "BROKEN":
        assert "BROKEN.json: $: does not exist; it is named by line 10 of" in printed
        assert f"the working directory is {Path.cwd()}" in printed


@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize("row", ["-1", "x", "1.5", "9" * 5000])
def test_wrong_usage(installation: Path, row: str) -> None:
    with pytest.raises(SystemExit) as caught:
        _ask(installation, "RGB_JPG", "PM", "4", row, "9")
    assert caught.value.code == 2
