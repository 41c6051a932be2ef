"""A plain-text progress bar."""

from __future__ import annotations

import time
from typing import TextIO

__all__ = [
    "ProgressBar",
]

_WIDTH = 32


class ProgressBar:
    """Shows progress on a stream: one redrawn line on a terminal, otherwise a line per quarter.

    Call it with the numbers of steps that are complete, and of all steps.

    Args:
        title: text in front of the bar.
        stream: text stream to write to.
    """

    def __init__(self, title: str, stream: TextIO) -> None:
        self._title = title
        self._stream = stream
        self._redraws = stream.isatty()
        self._start = time.monotonic()
        self._quarter = 0

    def __call__(self, done: int, total: int) -> None:
        """Show that `done` of `total` steps are complete."""
        seconds = time.monotonic() - self._start
        if self._redraws:
            filled = _WIDTH * done // total
            bar = "#" * filled + "." * (_WIDTH - filled)
            end = "\n" if done == total else ""
            self._write(f"\r{self._title} [{bar}] {100 * done // total:3d} %  {seconds:.0f} s{end}")
        elif 4 * done // total > self._quarter:
            self._quarter = 4 * done // total
            self._write(f"{self._title}: {25 * self._quarter} % after {seconds:.0f} s\n")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
