"""The lock of a pyramid: taken over from dead builders only, and its loss is noticed."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from mastaba_build.errors import LockedError
from mastaba_build.output import lock as module
from mastaba_build.output.lock import locked
from mastaba_build.output.storage import OutputStore


def holder(store: OutputStore, **changes: Any) -> None:
    facts = {
        "host": "elsewhere",
        "process": os.getpid(),
        "started": "1",
        "token": "another",
        "time": time.time(),
        **changes,
    }
    store.write("a.lock", json.dumps(facts).encode())


def test_a_lock_names_its_process_and_is_removed(tmp_path: Path) -> None:
    store = OutputStore.of_directory(tmp_path)
    with locked(store, "a.lock") as lock:
        facts = json.loads(store.read("a.lock"))
        assert (facts["host"], facts["process"]) == (socket.gethostname(), os.getpid())
        lock.check()
        with (
            pytest.raises(LockedError, match=f"process {os.getpid()} builds"),
            locked(store, "a.lock"),
        ):
            pass
    assert store.stat("a.lock") is None


def test_what_killed_builders_left_is_removed_later_on(tmp_path: Path) -> None:
    old, young = (tmp_path / f".map.lock.{number * 8}.tmp" for number in "12")
    other = tmp_path / ".map.lock.map.lock.33333333.tmp"
    for path in (old, young, other):
        path.write_text("")
    for path in (old, other):
        os.utime(path, (1, 1))
    with locked(OutputStore.of_directory(tmp_path), "map.lock"):
        assert not old.exists()
        assert young.exists()
        assert other.exists()


def test_a_living_builder_on_another_host_keeps_its_lock(tmp_path: Path) -> None:
    store = OutputStore.of_directory(tmp_path)
    holder(store)
    with pytest.raises(LockedError, match="elsewhere"), locked(store, "a.lock"):
        pass
    assert json.loads(store.read("a.lock"))["token"] == "another"


@pytest.mark.parametrize(
    "changes",
    [
        {"time": 1.0},
        {"host": socket.gethostname(), "process": 2**22 + 1},
        {"host": socket.gethostname(), "started": "another boot 1"},
        {"time": "never"},
    ],
    ids=["silent", "dead", "another process", "damaged"],
)
def test_the_lock_of_a_dead_builder_is_taken_over(tmp_path: Path, changes: dict[str, Any]) -> None:
    store = OutputStore.of_directory(tmp_path)
    holder(store, **changes)
    with locked(store, "a.lock"):
        assert json.loads(store.read("a.lock"))["process"] == os.getpid()
    store.write("a.lock", b"no JSON")
    with locked(store, "a.lock"):
        pass
    # This builder was killed while it took over the lock of another one.
    holder(store, **changes)
    store.write("a.lock.claim", store.read("a.lock"))
    with locked(store, "a.lock"):
        assert json.loads(store.read("a.lock"))["process"] == os.getpid()
    assert not store.has("a.lock")


def test_a_lock_is_renewed_and_its_loss_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_BEAT", 0.02)
    store = OutputStore.of_directory(tmp_path)
    with locked(store, "a.lock") as lock:
        first = json.loads(store.read("a.lock"))["time"]
        while json.loads(store.read("a.lock"))["time"] == first:
            time.sleep(0.01)
        while not lock.is_lost:
            # A renewal that has just begun may replace it.
            holder(store)
            time.sleep(0.01)
        with pytest.raises(LockedError, match="taken over by elsewhere"):
            lock.check()
    # The lock belongs to the other builder now.
    assert json.loads(store.read("a.lock"))["token"] == "another"


@pytest.mark.thorough
def test_one_of_two_that_take_over_at_once_has_the_lock(tmp_path: Path) -> None:
    store = OutputStore.of_directory(tmp_path)
    holder(store, time=1.0)
    program = (
        "import sys, time; from pathlib import Path; from mastaba_build.output.lock import locked\n"
        "from mastaba_build.output.storage import OutputStore\n"
        "from mastaba_build.errors import LockedError\n"
        "try:\n"
        "    with locked(OutputStore.of_directory(Path(sys.argv[1])), 'a.lock'):\n"
        "        print('has it', flush=True); sys.stdin.read()\n"
        "except LockedError: print('refused', flush=True)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    answers = [process.stdout.readline().strip() for process in processes if process.stdout]
    for process in processes:
        process.communicate()
    assert sorted(answers) == ["has it", "refused", "refused"]
