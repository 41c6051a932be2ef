"""The process that follows the configuration, with real child processes."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from mastaba_server.processes import following
from mastaba_server.processes.following import Follower


class Children:
    """Child processes that exit with a status at once."""

    def __init__(self, status: int) -> None:
        self.status = status
        self.count = 0

    def fork(self, _name: str, _wait: Callable[[], None]) -> int:
        self.count += 1
        pid = os.fork()
        if pid == 0:
            os._exit(self.status)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        return pid


def test_a_process_that_failed_is_not_started_at_once_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(following, "_DELAY", 3600.0)
    children = Children(status=1)
    follower = Follower(children.fork)
    for _ in range(3):
        follower.start(lambda: None)
        assert not follower.has_seen_change()
    assert children.count == 1


def test_a_change_is_seen_once() -> None:
    children = Children(status=0)
    follower = Follower(children.fork)
    assert not follower.has_seen_change()
    follower.start(lambda: None)
    follower.start(lambda: None)
    assert follower.has_seen_change()
    assert not follower.has_seen_change()
    assert children.count == 1
    follower.start(lambda: None)
    assert children.count == 2
    follower.stop()
    follower.stop()
    assert not follower.has_seen_change()
