"""Reloads leave nothing behind in the parent process."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from tests.tiny import tiny_installation

PROGRAM = """
import sys
from mastaba.commands.main import main
sys.exit(main(["-f", *sys.argv[1:]]))
"""


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


@pytest.mark.thorough
@pytest.mark.parametrize("fails", [False, True])
def test_the_descriptors_of_the_parent_do_not_grow(spawn: Any, tmp_path: Path, fails: bool) -> None:
    log, path = tmp_path / "log", tmp_path / "socket"
    server_json = tiny_installation(
        tmp_path,
        services=["health", "wms", "metrics"],
        server_overrides={
            "workers": 1,
            "logger": {"level": "info", "output": "static_file", "file_prefix": str(log)},
        },
    )
    process = spawn(PROGRAM, str(server_json), "--http", str(path))
    # Until then, a signal that the process has inherited as ignored stays ignored.
    while not (log.exists() and " serves " in log.read_text()):
        time.sleep(0.01)
    if fails:
        server_json.write_text("{}")
    message = "reload failed" if fails else "reload complete"
    counts = []
    for number in range(24):
        process.send(signal.SIGHUP)
        while log.read_text().count(message) <= number:
            time.sleep(0.01)
        counts.append(descriptors(process.pid))
    # The configurations before may stay for a while. One descriptor of each would be 20 more.
    assert max(counts[-4:]) <= max(counts[:4]) + 8
    process.send(signal.SIGTERM)
    assert process.wait() == 0
