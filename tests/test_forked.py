"""Forked processes are as good as new ones."""

from __future__ import annotations

import os
import socket

from tests.forked import give_up_descriptors


def _closes_only_its_own(inherited: int) -> bool:
    give_up_descriptors()
    ours, theirs = socket.socketpair()
    # As an object of the parent does when it is collected in the child.
    os.close(inherited)
    ours.send(b"x")
    return theirs.recv(1) == b"x" and inherited not in (ours.fileno(), theirs.fileno())


def test_late_close_of_an_inherited_descriptor_closes_no_new_one() -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if all(map(_closes_only_its_own, (reading, writing))) else 2
        finally:
            os._exit(status)
    os.close(reading)
    os.close(writing)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
