"""The audit log: one line of JSON for each administrative change; never a secret."""

from __future__ import annotations

import json
import logging
import time
from datetime import UTC, datetime
from typing import Any

logger = logging.getLogger("mastaba.audit")


def record(event: str, *, at: float | None = None, **details: Any) -> None:
    """Write a line.

    Args:
        event: what has happened, such as ``key created``.
        at: Unix seconds; now by default.
        details: further members; those without a value are left out.
    """
    moment = datetime.fromtimestamp(time.time() if at is None else at, UTC)
    text = moment.isoformat(timespec="seconds").replace("+00:00", "Z")
    line = {"time": text, "event": event}
    line |= {name: value for name, value in details.items() if value not in (None, "", [], {})}
    logger.info("%s", json.dumps(line, ensure_ascii=False))
