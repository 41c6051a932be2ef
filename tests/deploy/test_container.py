"""The parts of the image that can be built without a container engine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.live


def test_the_steps_of_the_image_install_a_server(
    deploy: Path, repository: Path, tmp_path: Path
) -> None:
    text = (deploy / "container" / "Containerfile").read_text("utf-8")
    (step,) = re.findall(r"^RUN (uv venv .*?[^\\])$", text, re.M | re.S)
    (packages,) = re.findall(r'^ARG PACKAGES="(.*)"$', text, re.M)
    copied = re.findall(r"^COPY (core|libs|plugins) /src/\1$", text, re.M)
    assert copied == ["core", "libs", "plugins"]
    for name in copied:
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(repository / name, tmp_path / "src" / name, ignore=ignored)
    step = step.replace("/src", str(tmp_path / "src")).replace("/opt/", f"{tmp_path}/opt/")
    step = step.replace("\\\n", " ")
    programs = Path(sys.executable).parent  # with python and uv
    path = f"{programs}:/usr/bin:/bin"
    done = subprocess.run(
        ["/bin/sh", "-c", step],
        # The others say how to reach the package index.
        env={**os.environ, "PATH": path, "PACKAGES": packages, "HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    program = tmp_path / "opt" / "mastaba" / "bin" / "mastaba"
    listed = subprocess.run([program, "plugins"], capture_output=True, text=True, check=True)
    rows = {row.split()[0] for row in listed.stdout.splitlines()}
    assert set(packages.split()) <= rows
    assert "BROKEN" not in listed.stdout
