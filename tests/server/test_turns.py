"""Work that only one of several processes does."""

from __future__ import annotations

import time
from multiprocessing import get_context
from multiprocessing.connection import Connection

from mastaba_server.processes.turns import Turn


def _work(turn: Turn, out: Connection, name: str) -> None:
    while not turn.take():
        time.sleep(0.05)
    assert turn.take()
    out.send(name)
    time.sleep(600)


def test_another_process_takes_over_when_one_is_killed() -> None:
    fork, turn = get_context("fork"), Turn()
    mine, others = fork.Pipe(duplex=False)
    workers = {
        name: fork.Process(target=_work, args=(turn, others, name), daemon=True) for name in "abc"
    }
    for worker in workers.values():
        worker.start()
    try:
        for left in (2, 1, 0):
            assert mine.poll(30)
            name = mine.recv()
            assert not mine.poll(0.2)
            worker = workers.pop(name)
            worker.kill()
            worker.join()
            assert len(workers) == left
    finally:
        for worker in workers.values():
            worker.kill()
