import json
import socket
from io import StringIO
from pathlib import Path

import pytest
from tests.support.ports import free_port

import mastaba.commands.main
import mastaba.tooling.commands
import mastaba_demo.settings
from mastaba_demo.settings import Settings
from mastaba_writer.progress import ProgressBar


@pytest.fixture
def address() -> str:
    """Return an address that is free: the default one may be in use."""
    return f"127.0.0.1:{free_port()}"


@pytest.fixture
def tiny_world(monkeypatch: pytest.MonkeyPatch) -> None:
    small = Settings(levels=(0, 1), last_whole=1, span=2, drainage_size=64)
    monkeypatch.setattr(mastaba_demo.settings, "Settings", lambda: small)
    monkeypatch.setattr("mastaba_demo.generation._processors", lambda: 1)


def test_no_serve_writes_a_complete_installation(
    tiny_world: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "new" / "demo"
    arguments = ["demo", str(directory), "--no-serve", "--http", "127.0.0.1:9999"]
    assert mastaba.commands.main.main(arguments) == 0
    output = capsys.readouterr()
    assert output.out == f"{directory / 'server.json'}\n"
    assert output.err.splitlines()[-1].startswith("Generating the world: 100 % after ")
    services = json.loads((directory / "services.json").read_text())
    for name in (
        *("wmts", "tms", "health", "elevation", "terrain"),
        *("provenance", "export", "viewer"),
    ):
        assert services[name]["enabled"] is True
        assert services[name]["endpoint_uri"].startswith("http://127.0.0.1:9999/")
    # Downloads are written below the directory, by one worker.
    assert services["ogcapi"]["coverages"] is True
    assert services["export"]["directory"] == str(directory / "exports")
    assert services["export"]["workers"] == 1
    elevation = json.loads((directory / "layers" / "elevation.json").read_text())
    assert (elevation["coverages"], elevation["export"]) == (True, {"enabled": True})
    places = services["viewer"]["places"]
    assert all(place["name"] for place in places)
    layers = sorted(path.stem for path in (directory / "layers").iterdir())
    assert layers == [
        "campaigns",
        "elevation",
        "features",
        "flights",
        "imagery",
        "mosaic",
        "relief",
        "topographic",
    ]


@pytest.mark.thorough
def test_edited_files_are_kept(
    tiny_world: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def start(address: str) -> str:
        arguments = ["demo", str(tmp_path), "--no-serve", "--http", address]
        assert mastaba.commands.main.main(arguments) == 0
        return capsys.readouterr().err

    assert "Kept" not in start("127.0.0.1:9998")
    first = {path: path.read_bytes() for path in tmp_path.rglob("*.json")}
    assert str(tmp_path).encode() in first[tmp_path / "server.json"]
    services, layer = tmp_path / "services.json", tmp_path / "layers" / "relief.json"
    edited = json.loads(services.read_bytes())
    edited["wms"]["title"] = "My title"
    services.write_text(json.dumps(edited))
    layer.unlink()
    # Another address changes the attributions of unedited layers.
    assert f"Kept as edited: {services} " in start("127.0.0.1:9997")
    assert json.loads(services.read_bytes()) == edited
    assert b"127.0.0.1:9997" in layer.read_bytes()
    assert b"127.0.0.1:9997" in (tmp_path / "layers" / "imagery.json").read_bytes()
    # It stays edited, also at later starts.
    assert f"Kept as edited: {services} " in start("127.0.0.1:9998")
    services.unlink()
    assert "Kept" not in start("127.0.0.1:9998")
    record = tmp_path / ".written.json"
    found = {path: path.read_bytes() for path in tmp_path.rglob("*.json") if path != record}
    assert found == {path: content for path, content in first.items() if path != record}
    assert not list(tmp_path.glob(".new-*"))


@pytest.mark.thorough
def test_differing_files_without_a_record_are_kept(
    tiny_world: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in directories of older versions."""
    assert mastaba.commands.main.main(["demo", str(tmp_path), "--no-serve"]) == 0
    (tmp_path / ".written.json").unlink()
    style = tmp_path / "styles" / "shading.json"
    style.write_text("{}")
    capsys.readouterr()
    assert mastaba.commands.main.main(["demo", str(tmp_path), "--no-serve"]) == 0
    assert capsys.readouterr().err.count("Kept as edited") == 1
    assert style.read_text() == "{}"


@pytest.mark.thorough
def test_mastaba_check_reports_no_error_for_the_installation(
    tiny_world: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert mastaba.commands.main.main(["demo", str(tmp_path), "--no-serve"]) == 0
    capsys.readouterr()
    assert mastaba.commands.main.main(["check", "-f", str(tmp_path / "server.json")]) == 0
    assert "0 errors, " in capsys.readouterr().out


@pytest.mark.thorough
def test_serving_is_left_to_the_command_line(
    tiny_world: None, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[list[str]] = []

    def served(arguments: list[str]) -> int:
        calls.append(arguments)
        return 0

    main = mastaba.commands.main.main
    monkeypatch.setattr(mastaba.tooling.commands, "main", served)
    assert main(["--block", "metrics", "demo", str(tmp_path), "--http", address]) == 0
    server_json = str(tmp_path / "server.json")
    assert calls == [["-f", server_json, "--http", address, "--block", "metrics"]]


def test_a_directory_that_cannot_be_made_is_reported(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    directory = str(tmp_path / "file" / "demo")
    assert mastaba.commands.main.main(["demo", directory, "--http", address]) == 1
    assert f"mastaba demo: cannot write {tmp_path / 'file' / 'demo'}: " in capsys.readouterr().err


def test_an_address_in_use_is_reported_before_generating(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert mastaba.commands.main.main(["demo", str(tmp_path / "demo"), "--http", address]) == 1
    assert f"cannot listen on '{address}'" in capsys.readouterr().err
    assert not (tmp_path / "demo").exists()


def test_an_interrupt_stops_the_command(
    tiny_world: None,
    address: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def interrupt(self: object, done: int, total: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ProgressBar, "__call__", interrupt)
    assert mastaba.commands.main.main(["demo", str(tmp_path), "--http", address]) == 130
    assert "Interrupted" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_one_redrawn_line() -> None:
    stream = Terminal()
    bar = ProgressBar("Work", stream)
    bar(1, 4)
    bar(4, 4)
    first, second = stream.getvalue().split("\r")[1:]
    assert first.startswith("Work [########........................]  25 %")
    assert second.endswith("s\n")


def test_another_stream_gets_a_line_per_quarter() -> None:
    stream = StringIO()
    bar = ProgressBar("Work", stream)
    for done in range(1, 101):
        bar(done, 100)
    assert [line.split(" after")[0] for line in stream.getvalue().splitlines()] == [
        f"Work: {percent} %" for percent in (25, 50, 75, 100)
    ]
