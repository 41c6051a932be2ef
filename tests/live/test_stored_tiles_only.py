"""A server of stored tiles is installed without a renderer, and without compiled parts of ours."""

from __future__ import annotations

import json
import sysconfig
from pathlib import Path

import pytest
from tests import test_stored_tiles_only as quick
from tests.live.environments import create

pytestmark = pytest.mark.live


def test_installation_of_stored_tiles(tmp_path: Path) -> None:
    environment = create(tmp_path / "env")
    names = ("mastaba", "mastaba-server", "mastaba-wmts", "mastaba-tms")
    environment.install(*map(environment.wheel, names))
    server_json = quick.write(tmp_path / "tiny")

    printed = json.loads(environment.run("python", quick.SCRIPT, server_json))
    quick.check(printed["answers"])
    assert "mastaba_render" not in printed["loaded"]

    version = sysconfig.get_python_version()
    packages = environment.folder / f"lib/python{version}/site-packages"
    assert not {"PIL", "isal", "simplejpeg"} & {path.name for path in packages.iterdir()}
    assert [path for path in packages.rglob("*.so") if "mastaba" in str(path.parent.name)] == []
    assert environment.wheel("mastaba").name.endswith("-py3-none-any.whl")
