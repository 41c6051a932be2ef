"""Progress of commands that work on many slabs."""

from __future__ import annotations

import sys
from collections.abc import Callable


def progress(what: str) -> Callable[[int, int], None]:
    """Return a function that reports each tenth on standard error."""

    def report(done: int, of: int) -> None:
        if done * 10 // of != (done - 1) * 10 // of:
            sys.stderr.write(f"{what}: {100 * done // of} %\n")

    return report
