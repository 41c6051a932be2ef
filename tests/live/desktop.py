"""Programs of GDAL and QGIS of the system, with environments of their own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.live.processes import program

QGIS = Path("/usr/lib/python3/dist-packages/qgis/core/__init__.py")


def gdal(folder: Path, *command: str | Path, variables: Mapping[str, str] | None = None) -> str:
    """Run a program of GDAL; return what it prints.

    Args:
        folder: of its cache.
        command: the program and its arguments.
        variables: environment variables to add.
    """
    binary = program(str(command[0]), "gdal-bin")
    return _output([binary, *command[1:]], variables_of_gdal(folder) | (variables or {}))


def variables_of_gdal(folder: Path) -> dict[str, str]:
    """Return environment variables: a cache in this folder, no proxy and no side files."""
    return {
        **os.environ,
        "GDAL_DEFAULT_WMS_CACHE_PATH": str(folder / "cache"),
        "GDAL_PAM_ENABLED": "NO",
        "NO_PROXY": "127.0.0.1",
    }


def qgis(folder: Path, script: Path, *arguments: str | Path) -> None:
    """Run a script with QGIS in a folder, which is also its home; skip the test without QGIS."""
    if not QGIS.exists():
        pytest.skip("python3-qgis is not installed")
    variables = {
        "HOME": str(folder),
        "PATH": "/usr/bin:/bin",
        "QT_QPA_PLATFORM": "offscreen",
        "XDG_RUNTIME_DIR": str(folder),
        "NO_PROXY": "127.0.0.1",
    }
    _output(["/usr/bin/python3", script, *arguments], variables, folder)


def _output(
    command: list[str | Path], variables: Mapping[str, str], folder: Path | None = None
) -> str:
    done = subprocess.run(
        list(map(str, command)), cwd=folder, capture_output=True, text=True, env=variables
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
