"""Without mastaba-render, stored tiles are served, and what would be drawn says what is missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.tiny import tiny_installation

SCRIPT = Path(__file__).with_name("stored_tiles_only.py")
MISSING = "install mastaba-render"


def write(directory: Path) -> Path:
    """Write an installation with a layer in a set in which it is not stored."""
    shared = {"tile": {"reprojection": True}}
    server_json = tiny_installation(
        directory, services=["wmts", "tms"], services_overrides={"global": shared}
    )
    path = directory / "layers/RGB_PNG.json"
    layer = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps(layer | {"extra_tilematrixsets": ["4326"]}), encoding="utf-8")
    return server_json


def check(answers: dict[str, tuple[str, str]]) -> None:
    """Check the answers that the script prints."""
    status = {name: text for name, (text, _) in answers.items()}
    for name in ("stored", "tms stored"):
        assert status[name] == "200 OK"
        assert answers[name][1].startswith("\x89PNG")
    for name in ("other set", "other format"):
        assert status[name] == "501 Not Implemented"
        assert 'exceptionCode="OperationNotSupported"' in answers[name][1]
        assert MISSING in answers[name][1]
        assert status[f"tms {name}"] == "501 Not Implemented"
        assert "<TileMapServerError>" in answers[f"tms {name}"][1]
        assert MISSING in answers[f"tms {name}"][1]
    assert status["capabilities"] == status["tms list"] == "200 OK"
    assert "4326</" not in answers["capabilities"][1].replace("EPSG::4326", "")
    assert "<Format>image/jpeg</Format>" in answers["capabilities"][1]  # a stored one
    assert "RGB_PNG@" not in answers["tms list"][1]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Any:
    server_json = write(tmp_path_factory.mktemp("stored-only"))
    command = [sys.executable, SCRIPT, server_json]
    return json.loads(subprocess.run([*command, "hidden"], stdout=-1, check=True).stdout)


def test_stored_tiles_need_no_renderer(served: Any) -> None:
    check(served["answers"])


def test_nothing_that_draws_is_loaded(served: Any) -> None:
    assert {"PIL", "simplejpeg", "isal", "orjson"}.isdisjoint(served["loaded"])


def test_check_says_that_nothing_is_drawn(tmp_path: Path) -> None:
    program = "import sys; sys.modules['mastaba_render'] = None; from mastaba.commands.main import"
    program += " main; sys.exit(main(['check', '-f', sys.argv[1]]))"
    blocked = "render,build,conformance,demo,elevation,ogcapi,viewer,wms"
    done = subprocess.run(
        [sys.executable, "-c", program, write(tmp_path)],
        env=os.environ | {"MASTABA_BLOCKED_PLUGINS": blocked},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert "stored tiles only: mastaba-render, which draws, is not installed" in done.stdout
    assert "layer RGB_PNG: $.extra_tilematrixsets" in done.stdout
    assert done.returncode == 0, done.stdout
