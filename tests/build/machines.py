"""Other machines: network namespaces that are linked to this one."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.live.network import changing_network

IS_POSSIBLE = os.geteuid() == 0 and all(map(shutil.which, ("ip", "unshare")))
"""Whether this process may make them."""


class Machine:
    """A network namespace with a link to this one.

    Attributes:
        here, there: addresses of the two ends of the link.
        command: start of commands that run in it.
    """

    def __init__(self, number: int) -> None:
        self.name = f"mastaba{os.getpid()}n{number}"
        self._link = f"m{os.getpid() % 100000}h{number}"
        other = f"m{os.getpid() % 100000}n{number}"
        network = f"10.{200 + number}.{os.getpid() % 250}"
        self.here, self.there = f"{network}.1", f"{network}.2"
        self.command = ("ip", "netns", "exec", self.name)
        _ip("netns", "add", self.name)
        _ip("link", "add", self._link, "type", "veth", "peer", "name", other, "netns", self.name)
        _ip("address", "add", f"{self.here}/30", "dev", self._link)
        _ip("link", "set", self._link, "up")
        for words in (
            ("address", "add", f"{self.there}/30", "dev", other),
            ("link", "set", other, "up"),
            ("link", "set", "lo", "up"),
        ):
            _ip("-n", self.name, *words)

    @property
    def disconnection(self) -> list[str]:
        """The command that cuts the link without notice."""
        return ["ip", "link", "set", self._link, "down"]

    def remove(self) -> None:
        _ip("netns", "delete", self.name)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@contextmanager
def linked(count: int) -> Iterator[list[Machine]]:
    """Make machines, and remove them in the end."""
    found: list[Machine] = []
    with changing_network():
        try:
            for number in range(count):
                found.append(Machine(number))
            yield found
        finally:
            for machine in found:
                machine.remove()
