"""Memory that processes share, and its lock."""

from __future__ import annotations

import threading
import time
from multiprocessing import get_context
from multiprocessing.connection import Connection

from mastaba_server.threads.shared_memory import SharedMemory


def _other_process(first: SharedMemory, second: SharedMemory, parent: Connection) -> None:
    def hold() -> None:
        with second.locked():
            parent.send("holds the second")
            parent.recv()
            # Until the other thread waits for the first.
            time.sleep(0.5)

    holder = threading.Thread(target=hold)
    holder.start()
    with first.locked():
        parent.send("has the first")
    holder.join()


def test_locks_of_different_threads_are_no_deadlock() -> None:
    fork = get_context("fork")
    first, second = SharedMemory(8), SharedMemory(8)
    mine, others = fork.Pipe()
    with first.locked():
        process = fork.Process(target=_other_process, args=(first, second, others), daemon=True)
        process.start()
        assert mine.recv() == "holds the second"

        def wait() -> None:
            with second.locked():
                pass

        waiting = threading.Thread(target=wait)
        waiting.start()
        time.sleep(0.2)
        mine.send("go on")
        time.sleep(0.2)
    assert mine.recv() == "has the first"
    waiting.join()
    process.join()
    assert process.exitcode == 0
