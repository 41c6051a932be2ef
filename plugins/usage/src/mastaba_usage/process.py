"""The file in which a process counts: a new one each day, and in each process."""

from __future__ import annotations

import logging
import os
import threading
import time
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Final

from mastaba_usage.cells import SUFFIX, CellFile

logger = logging.getLogger("mastaba.usage")

_DAY: Final = 86400
_AGAIN: Final = 10
"""Seconds after which a file that could not be made is tried again."""
_RENEWED: Final = 60
"""Seconds between attempts to follow a file of the same day. Full files are added up by then."""


class Counters:
    """Gives the file of this process and day. Its methods may be called in several threads.

    Args:
        directory: of the files.
        suffix: of their names.
    """

    def __init__(self, directory: Path, suffix: str = SUFFIX) -> None:
        self._directory = directory
        self._suffix = suffix
        self._forget()
        os.register_at_fork(after_in_child=self._forget)

    def file(self) -> CellFile | None:
        """Return the file to count in; None if there can be none.

        If none can be made for a new day, the one in use stays: nothing is lost.
        """
        if not self._since <= time.time() < self._until:
            self._open()
        return self._file

    def renew(self) -> None:
        """Begin another file for the same day: the one in use, or its disk, is full.

        At most once a minute, also if none can be made. On a full disk, the one in use stays.
        """
        if time.time() >= self._tried + _RENEWED:
            self._until = 0.0

    def flush(self) -> None:
        """Write what was counted to the disk."""
        for file in (self._before, self._file):
            if file is not None:
                file.flush()

    @property
    def is_full(self) -> bool:
        """Whether the cells of today have run out, so that layers are counted together."""
        return self._file is not None and self._file.is_full

    def _forget(self) -> None:
        # The files of a parent are its own.
        self._lock = threading.Lock()
        self._file: CellFile | None = None
        self._before: CellFile | None = None
        self._since = self._until = self._tried = 0.0

    def _open(self) -> None:
        with self._lock:
            now = time.time()
            if self._since <= now < self._until:
                return
            self._tried = now
            # Also the end of a file if the clock is set back: its day has not come yet.
            self._since = now // _DAY * _DAY
            day = datetime.fromtimestamp(now, UTC).date().isoformat()
            tomorrow = (now // _DAY + 1) * _DAY
            try:
                made = CellFile(self._directory, day, self._suffix)
            except OSError as error:
                if self._file is None or self._file.has_room:
                    what = "not counted" if self._file is None else f"counted for {self._file.day}"
                    logger.error("usage is %s: %s", what, error)
                is_in_use = self._file is not None and self._file.day == day
                self._until = min(now + (_RENEWED if is_in_use else _AGAIN), tomorrow)
                return
            if self._before is not None:
                # Not that of yesterday: other threads may still count in it.
                self._before.close()
            self._before, self._file = self._file, made
            self._until = tomorrow


@lru_cache(maxsize=16)
def counters(directory: Path, suffix: str = SUFFIX) -> Counters:
    """Return the counters of this process: all configurations that it serves share them."""
    return Counters(directory, suffix)
