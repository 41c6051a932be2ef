"""The units, as systemd itself reads them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.live.processes import program

pytestmark = pytest.mark.live


@pytest.fixture
def units(deploy: Path, tmp_path: Path) -> list[Path]:
    """Copies of the units, with a program that exists."""
    for name in ("mastaba.service", "mastaba.socket"):
        shutil.copy(deploy / "systemd" / name, tmp_path / name)
    service = tmp_path / "mastaba.service"
    text = service.read_text("utf-8")
    program_path, interpreter = "/opt/mastaba/bin/mastaba", str(Path(sys.executable).resolve())
    assert f"ExecStart={program_path} " in text
    text = text.replace(program_path, interpreter)
    service.write_text(text, encoding="utf-8")
    others = []
    for name in ("mastaba-purge-agent.service", "mastaba-export-worker@.service"):
        sample = (deploy / "systemd" / name).read_text("utf-8")
        # systemd examines a template as one of its instances.
        others.append(tmp_path / name.replace("@", "@1"))
        others[-1].write_text(sample.replace(program_path, interpreter), "utf-8")
    return [service, tmp_path / "mastaba.socket", *others]


def test_systemd_reports_no_problem(units: list[Path]) -> None:
    analyze = program("systemd-analyze", "systemd")
    done = subprocess.run(
        [analyze, "verify", "--recursive-errors=no", *units], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_a_word_that_systemd_does_not_know_is_found(units: list[Path]) -> None:
    analyze = program("systemd-analyze", "systemd")
    text = units[0].read_text("utf-8").replace("ProtectHome=", "ProtectHouse=")
    units[0].write_text(text, encoding="utf-8")
    done = subprocess.run(
        [analyze, "verify", "--recursive-errors=no", *units], capture_output=True, text=True
    )
    assert "ProtectHouse" in done.stderr


def test_little_is_left_to_an_intruder(units: list[Path]) -> None:
    analyze = program("systemd-analyze", "systemd")
    command = [analyze, "security", "--offline=true", "--threshold=20", "--no-pager"]
    done = subprocess.run([*command, units[0]], capture_output=True, text=True)
    if "unrecognized option" in done.stderr:
        pytest.skip("this systemd-analyze is older than 250")
    # The threshold is in tenths: 2.0 of 10.0, which systemd calls "OK".
    assert done.returncode == 0, done.stdout[-2000:]
