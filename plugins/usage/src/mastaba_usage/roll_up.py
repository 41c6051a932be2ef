"""The counters of all processes, added to the database of the node once a minute."""

from __future__ import annotations

import logging
import signal
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from mastaba_usage.cells import HEAT_SUFFIX, SUFFIX, is_closed, read_cells
from mastaba_usage.database import Database
from mastaba_usage.errors import UsageError

logger = logging.getLogger("mastaba.usage")

_PERIOD: Final = 60.0
"""Seconds."""
_SLOTS: Final = 35
"""Days for which slots are kept."""


def roll_up(directory: Path, database: Database, now: float | None = None) -> None:
    """Add what has been counted since the last call, and remove the files of ended processes.

    It may be interrupted, and repeated, at any time.

    Raises:
        UsageError: the database cannot be used.
        OSError: the directory cannot be read.
    """
    now = time.time() if now is None else now
    for path in _files(directory):
        try:
            # Before it is read: what is counted afterwards is for the next call.
            is_final = is_closed(path)
            day = path.name[:10]
            if path.suffix == HEAT_SUFFIX:
                database.count_blocks(path.name, day, read_cells(path))
            else:
                database.count(path.name, day, read_cells(path), now)
        except FileNotFoundError:
            # Another process has counted and removed it.
            continue
        except ValueError as error:
            logger.error("%s", error)
            continue
        if is_final:
            path.unlink(missing_ok=True)
    database.drop_positions(path.name for path in _files(directory))


def _files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.iterdir() if path.suffix in (SUFFIX, HEAT_SUFFIX))


def run(directory: Path, database: Database, retention: int) -> None:
    """Add counters once a minute until SIGTERM arrives, and then once more.

    Args:
        retention: days that are kept.
    """
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    is_stopped = False
    while not is_stopped:
        is_stopped = stopped.wait(_PERIOD)
        try:
            roll_up(directory, database)
            first = datetime.now(UTC) - timedelta(days=retention)
            database.retire(first.date().isoformat(), time.time() - _SLOTS * 86400)
        except (UsageError, OSError) as error:
            logger.error("usage cannot be added up: %s", error)
