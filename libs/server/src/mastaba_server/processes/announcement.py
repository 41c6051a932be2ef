"""Reports changes of what is served to plugins, in a process or thread of its own."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Final

logger = logging.getLogger("mastaba")

_DELAYS: Final = (1.0, 4.0, 15.0, 60.0, 240.0)
"""Seconds between attempts: a cache that restarts is purged later."""


def announce(
    calls: Mapping[str, Callable[[], object]], pause: Callable[[float], object] = time.sleep
) -> None:
    """Call the hook of each plugin; call those that fail again later, and report failures.

    Args:
        calls: by plugin.
        pause: waits some seconds.
    """
    for delay in (*_DELAYS, None):
        calls = {name: call for name, call in calls.items() if not _succeeds(name, call, delay)}
        if not calls or delay is None:
            return
        pause(delay)


def _succeeds(name: str, call: Callable[[], object], delay: float | None) -> bool:
    try:
        call()
    except Exception as error:  # noqa: BLE001 - a plugin may raise anything
        reason = f"the plugin {name!r} fails in generation_changed: {type(error).__name__}: {error}"
        if delay is None:
            logger.error("%s; caches may have outdated responses", reason)
        else:
            logger.warning("%s; tried again in %g s", reason, delay)
        return False
    return True
