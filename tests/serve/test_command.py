"""Files that are served without a configuration."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from tests.support.ports import free_port
from tests.tiny import tiny_installation

from mastaba.tooling.commands import main
from mastaba_serve.installation import identifier_of


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("a/ortho.json", "ortho"),
        ("ortho.2026.pmtiles", "ortho.2026"),
        ("s3://bucket/a/b.tif", "b"),
        ("https://host/a.tif?sig=x.y", "a"),
        ("plain", "plain"),
        (".hidden", ".hidden"),
    ],
)
def test_the_identifier_is_the_name_without_suffix(file: str, name: str) -> None:
    assert identifier_of(file) == name


@pytest.fixture
def pyramids(tmp_path: Path) -> Path:
    tiny_installation(tmp_path)
    return tmp_path / "pyramids"


def failure(capsys: pytest.CaptureFixture[str], *files: Path | str) -> str:
    """Return the message of a command that fails."""
    words = ["serve", *map(str, files), "--http", f"127.0.0.1:{free_port()}"]
    assert main(words) == 1
    printed = capsys.readouterr()
    assert "Traceback" not in printed.err
    return printed.err


def test_a_file_that_cannot_be_opened_is_named(
    pyramids: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = pyramids / "RGB_JPG.json"
    assert "absent.json: there is no such file" in failure(capsys, good, tmp_path / "absent.json")
    other = tmp_path / "RGB_JPG.json"
    other.write_bytes(good.read_bytes())
    assert "another file has the name 'RGB_JPG'" in failure(capsys, good, other)
    broken = tmp_path / "broken.json"
    for text in ("{", "[]", "{}", '{"tile_matrix_set": "LAMB93", "levels": []}'):
        broken.write_text(text)
        assert "broken.json: it is not a pyramid descriptor" in failure(capsys, broken)
    document = json.loads(good.read_text())
    document["format"] = "TIFF_NO_SUCH"
    broken.write_text(json.dumps(document))
    assert f"{broken}: " in failure(capsys, good, broken)
    plain = tmp_path / "plain.txt"
    plain.write_text("neither a pyramid nor an archive")
    assert f"{plain}: " in failure(capsys, plain)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "'': the path is empty"),
        ("s3://", "'s3://' is not of the form s3://container/name"),
        ("s3://bucket", "is not of the form s3://container/name"),
        ("a\nb.tif", r"'a\nb.tif': its path has several lines, or is not UTF-8; rename it"),
        ("a\rb.tif", r"'a\rb.tif': its path has several lines, or is not UTF-8; rename it"),
        ("\udcff.tif", r"'\udcff.tif': its path has several lines, or is not UTF-8; rename it"),
        ("a\x1b[31mb.tif", r"a\x1b[31mb.tif: there is no such file"),
        ("/dev/zero", "/dev/zero: it is not a regular file"),
    ],
)
def test_odd_names_are_refused_in_one_line(
    name: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    message = failure(capsys, name)
    assert reason in message
    assert message.strip().isprintable()


def test_pipes_are_refused_without_waiting(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for suffix in ("tif", "pmtiles", "mbtiles", "json"):
        os.mkfifo(tmp_path / f"a.{suffix}")
        message = failure(capsys, tmp_path / f"a.{suffix}")
        assert f"a.{suffix}: it is not a regular file" in message


@pytest.mark.parametrize("suffix", ["tif", "pmtiles", "mbtiles", "gpkg", "json"])
def test_empty_and_truncated_files_are_refused_in_one_line(
    suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    heads = {
        "tif": b"II*\0\x08\0\0\0\xff",
        "pmtiles": b"PMTiles\x03" + bytes(50),
        "json": b'{"format":',
    }
    for data in (b"", heads.get(suffix, b"SQLite format 3\0" + bytes(30))):
        path = tmp_path / f"a.{suffix}"
        path.write_bytes(data)
        message = failure(capsys, path)
        assert message.startswith(f"mastaba serve: {path}: ")
        assert message.strip().isprintable()


def test_files_are_served_until_they_are_stopped(pyramids: Path, tmp_path: Path) -> None:
    before = sorted(path for path in tmp_path.rglob("*"))
    address = f"127.0.0.1:{free_port()}"
    files = [pyramids / f"{name}.json" for name in ("RGB_JPG", "FLOAT32_ZIP", "VECTOR")]
    command = [sys.executable, "-m", "mastaba", "serve", *map(str, files), "--http", address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert address in process.stdout.readline()
        # The listener exists before the server does: the request waits for it.
        page = answer(f"http://{address}/viewer", process)
        assert "RGB_JPG" in page
        capabilities = answer(f"http://{address}/wms?SERVICE=WMS&REQUEST=GetCapabilities", process)
        for name in ("RGB_JPG", "FLOAT32_ZIP"):
            assert f"<Name>{name}</Name>" in capabilities
        assert answer(f"http://{address}/tms/1.0.0/VECTOR/metadata.json", process)
        process.send_signal(signal.SIGINT)
        process.stdout.read()
    assert process.returncode == 0
    assert sorted(path for path in tmp_path.rglob("*")) == before


def answer(url: str, process: subprocess.Popen[str]) -> str:
    """Return a document of the server, which may still be starting."""
    while process.poll() is None:
        try:
            with urllib.request.urlopen(url) as answer:
                return str(answer.read().decode())
        except urllib.error.URLError as error:
            if not isinstance(error.reason, ConnectionRefusedError):
                raise
            time.sleep(0.05)
    raise RuntimeError("the server has stopped")
