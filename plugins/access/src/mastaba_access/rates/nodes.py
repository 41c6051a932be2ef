"""Buckets and quotas that several nodes share.

The leases are those of one node, but levels and sums are in a store, and a script in the store
does what a lock does on one node. If the store does not answer, each node goes on with its own
part: rate, burst and quota divided by the number of nodes.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Final

from mastaba_access.rates.buckets import WINDOW, Buckets, Held
from mastaba_access.rates.quotas import Quotas
from mastaba_access.rates.store import Store, StoreError

_MOST_LOCAL: Final = 65_536

_BUCKET: Final = """
local rate, burst, left, held, held_in, cost, lease, length = unpack(ARGV)
rate, burst, left, held = tonumber(rate), tonumber(burst), tonumber(left), tonumber(held)
held_in, cost, lease = tonumber(held_in), tonumber(cost), tonumber(lease)
length = tonumber(length)
local clock = redis.call('TIME')
local now = tonumber(clock[1]) + tonumber(clock[2]) / 1e6
local window = math.floor(now / length) + 2
local found = redis.call('HMGET', KEYS[1], 'level', 'at', 'now', 'before', 'window')
local level, at, leased, before = burst, now, 0, 0
if found[1] then
  level, at = tonumber(found[1]), tonumber(found[2])
  local known = tonumber(found[5])
  if known == window then
    leased, before = tonumber(found[3]), tonumber(found[4])
  elseif known == window - 1 then
    before = tonumber(found[3])
  end
else
  left, held = 0, 0
end
if held_in == window then
  leased = math.max(0, leased - held)
elseif held_in == window - 1 then
  before = math.max(0, before - held)
else
  left = 0
end
level = level + left + math.max(0, now - at) * rate
level = math.max(0, math.min(level, burst - leased - before))
local wait = math.max(0, (cost - level) / rate)
if wait > 0 then cost, lease = 0, 0 end
lease = math.min(lease, level - cost)
local function text(number) return string.format('%.17g', number) end
redis.call('HSET', KEYS[1], 'level', text(level - cost - lease), 'at', text(now),
  'now', text(leased + lease), 'before', text(before), 'window', text(window))
redis.call('EXPIRE', KEYS[1], math.ceil(math.min(burst / rate, 1e9) + 2 * length))
return {text(wait), text(lease), window}
"""
"""The arithmetic of `Buckets.exchange`, by the clock of the store. A bucket that has expired was
full."""

_QUOTA: Final = """
local limit, returned, least, wanted, ends = unpack(ARGV)
limit, returned = tonumber(limit), tonumber(returned)
least, wanted = tonumber(least), tonumber(wanted)
local spent = math.max(0, tonumber(redis.call('GET', KEYS[1]) or '0') - returned)
local taken = 0
if limit - spent >= least then taken = math.min(limit - spent, wanted) end
redis.call('SET', KEYS[1], string.format('%.0f', spent + taken), 'EXAT', ends)
return string.format('%.0f', taken)
"""
"""The arithmetic of `Quotas.exchange`."""
_AFTER: Final = 86_400
"""Seconds for which a sum is kept after the end of its period, for nodes whose clocks differ."""


class SharedBuckets(Buckets):
    """The buckets of several nodes.

    Args:
        store: that they share.
    """

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._store = store

    def exchange(
        self,
        name: str,
        limits: tuple[float, float],
        returned: tuple[float, Held],
        asked: tuple[float, float],
    ) -> tuple[float, Held]:
        """See `Buckets.exchange`.

        A lease of the store means nothing here, and the other way round: their windows differ.
        """
        rate, burst = limits
        left, held = returned
        values = [rate, burst, left, held.amount, held.window, *asked, WINDOW]
        try:
            wait, lease, window = self._store.run(
                _BUCKET, "rate", name, [repr(one) for one in values]
            )
        except StoreError:
            part = 1 / self._store.nodes
            local = rate * part, max(1.0, burst * part)
            cost = min(asked[0], local[1])
            return super().exchange(name, local, returned, (cost, asked[1] * part))
        return float(wait), Held(float(lease), int(window))


class SharedQuotas(Quotas):
    """The quotas of several nodes.

    Args:
        store: that they share.
        path: of the database of this node, which counts while the store does not answer; None
            for no limits then.
        clock: Unix seconds.

    Raises:
        OSError: the database cannot be made or used.
    """

    def __init__(
        self, store: Store, path: str | None, clock: Callable[[], float] = time.time
    ) -> None:
        super().__init__(path or ":memory:", clock)
        self._has_database = path is not None
        self._store = store
        self._local: set[str] = set()
        self._local_lock = threading.Lock()

    def exchange(
        self,
        name: str,
        period: tuple[str, float],
        limit: int,
        returned: int,
        asked: tuple[int, int],
    ) -> int | None:
        """See `Quotas.exchange`. A lease goes back to where it came from, or counts as spent."""
        was_local = self._forget(name)
        ends = math.ceil(period[1]) + _AFTER
        values = [limit, 0 if was_local else returned, *asked, ends]
        try:
            return int(self._store.run(_QUOTA, "quota", f"{name}\0{period[0]}", values))
        except StoreError:
            if not self._has_database:
                return None
        with self._local_lock:
            if len(self._local) >= _MOST_LOCAL:
                self._local.clear()
            self._local.add(name)
        part = max(1, limit // self._store.nodes)
        back = returned if was_local else 0
        least = min(asked[0], part)
        taken = super().exchange(name, period, part, back, (least, min(asked[1], part)))
        # A cost above the part of this node counts as all of it.
        return asked[0] if taken and taken < asked[0] else taken

    def _forget(self, name: str) -> bool:
        """Return whether the last lease of a name came from the database of this node."""
        with self._local_lock:
            is_local = name in self._local
            self._local.discard(name)
        return is_local
