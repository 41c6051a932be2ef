"""Buckets that all workers of a node share.

The level of each bucket is in shared memory. Workers lease a part of it under a lock, spend it
without one, and give back what is left a second later. Level and leases together never exceed the
burst, so what is spent in any time never exceeds the burst and the rate times that time.
"""

from __future__ import annotations

import hashlib
import math
import secrets
import struct
import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from mastaba_server.threads.per_process import PerProcess
from mastaba_server.threads.shared_memory import SharedMemory

LEASE: Final = 1 / 16
"""Part of the burst that a worker leases."""
LONGEST_LEASE: Final = 1.0
"""Seconds."""

_SLOT: Final = struct.Struct("<QddddQ")
_WAYS: Final = 4
"""Slots in which a bucket may be."""
_SETS: Final = 16_384
WINDOW: Final = 4.0
"""Seconds; leases of an older window belong to a worker that has ended."""
_MOST_LEASES: Final = 16_384


class _Slot(NamedTuple):
    """A bucket in shared memory.

    Attributes:
        fingerprint: of rate and subject; 0 if the slot is free.
        level: what may be leased.
        at: when that was so, monotonic seconds.
        now_leased, before_leased: what is leased since the begin of the window, and of the one
            before it.
        window: number of the window.
    """

    fingerprint: int
    level: float
    at: float
    now_leased: float
    before_leased: float
    window: int


class Held(NamedTuple):
    """A lease as it was taken.

    Attributes:
        amount: cost.
        window: number of the window in which it was taken.
    """

    amount: float
    window: int


_NOTHING: Final = Held(0.0, 0)


class Lease:
    """What this process may spend of a bucket. Its methods may be called in several threads.

    Args:
        buckets: the shared memory.
        name: of rate and subject.
        rate: cost per second.
        burst: cost at once.
    """

    def __init__(self, buckets: Buckets, name: str, rate: float, burst: float) -> None:
        self._buckets = buckets
        self._clock = buckets.clock
        self._name = name
        self._rate = rate
        self._burst = burst
        self._left = 0.0
        self._held = _NOTHING
        self._ends = -math.inf
        self._lock = threading.Lock()

    def take(self, cost: float) -> float:
        """Take a cost; return 0, or the seconds after which there may be enough.

        A cost above the burst counts as the burst.
        """
        with self._lock:
            now = self._clock()
            if cost <= self._left and now < self._ends:
                self._left -= cost
                return 0.0
            self._ends = now + LONGEST_LEASE
            return self._exchange(min(cost, self._burst))

    def give(self, cost: float) -> None:
        """Give back a cost that was taken just now."""
        with self._lock:
            self._left += min(cost, self._burst)
            if self._left > self._held.amount:
                self._exchange(0.0)

    def give_back(self) -> None:
        """Give back what is left, if the lease is over."""
        with self._lock:
            if self._held.amount > 0 and self._buckets.clock() >= self._ends:
                self._exchange(0.0)

    def _exchange(self, cost: float) -> float:
        """Give back what is left and take a cost; lease more, if there is any."""
        lease = self._burst * LEASE if cost else 0.0
        limits = self._rate, self._burst
        wait, self._held = self._buckets.exchange(
            self._name, limits, (self._left, self._held), (cost, lease)
        )
        self._left = self._held.amount
        return wait


class Buckets:
    """The buckets of a node: made before the fork, with fixed memory.

    If there are more than 65,536, those that were not used for the longest time begin anew.

    Args:
        clock: monotonic seconds, the same in all processes.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._shared = SharedMemory(_SETS * _WAYS * _SLOT.size)
        # Keyed, so that no one can choose names that displace others.
        self._key = secrets.token_bytes(16)
        self._leases: PerProcess[dict[str, Lease]] = PerProcess(dict)

    def lease(self, name: str, rate: float, burst: float) -> Lease:
        """Return what this process may spend of a bucket.

        Args:
            name: of rate and subject.
            rate: cost per second.
            burst: cost at once.
        """
        leases = self._leases.get()
        # Another rate under the same name is another bucket.
        key = f"{name}\0{rate!r}\0{burst!r}"
        found = leases.get(key)
        if found is None:
            if len(leases) >= _MOST_LEASES:
                leases.clear()
            found = leases.setdefault(key, Lease(self, key, rate, burst))
        return found

    def give_back(self) -> None:
        """Give back the leases of this process that are over. Called about once a second."""
        for lease in tuple(self._leases.get().values()):
            lease.give_back()

    def exchange(
        self,
        name: str,
        limits: tuple[float, float],
        returned: tuple[float, Held],
        asked: tuple[float, float],
    ) -> tuple[float, Held]:
        """End a lease, spend a cost, and take another lease.

        Args:
            name: of rate and subject.
            limits: rate and burst.
            returned: what is left of a lease, and the lease.
            asked: cost, and the size of the new lease; the lease may be smaller.

        Returns:
            0, or seconds after which there may be enough for the cost; the new lease.
        """
        rate, burst = limits
        left, held = returned
        cost, lease = asked
        digest = hashlib.blake2s(name.encode("utf-8", "surrogatepass"), key=self._key).digest()
        fingerprint = int.from_bytes(digest[:8], "little") | 1
        first = int.from_bytes(digest[8:12], "little") % _SETS * _WAYS * _SLOT.size
        with self._shared.locked() as memory:
            now = self.clock()
            window = int(now // WINDOW) + 2
            slots = [
                (offset, _Slot(*_SLOT.unpack_from(memory, offset)))
                for offset in range(first, first + _WAYS * _SLOT.size, _SLOT.size)
            ]
            own = [one for one in slots if one[1].fingerprint == fingerprint]
            offset, slot = own[0] if own else min(slots, key=lambda one: one[1].at)
            if not own:
                slot = _Slot(fingerprint, burst, now, 0.0, 0.0, window)
                left, held = 0.0, _NOTHING
            leased, before = _leased(slot, window)
            if held.window == window:
                leased = max(0.0, leased - held.amount)
            elif held.window == window - 1:
                before = max(0.0, before - held.amount)
            else:
                left = 0.0
            level = slot.level + left + max(0.0, now - slot.at) * rate
            level = max(0.0, min(level, burst - leased - before))
            wait = max(0.0, (cost - level) / rate)
            if wait:
                cost = lease = 0.0
            lease = min(lease, level - cost)
            slot = _Slot(fingerprint, level - cost - lease, now, leased + lease, before, window)
            _SLOT.pack_into(memory, offset, *slot)
        return wait, Held(lease, window)


def _leased(slot: _Slot, window: int) -> tuple[float, float]:
    """Return what is leased since the begin of a window, and of the one before it."""
    if slot.window == window:
        return slot.now_leased, slot.before_leased
    return 0.0, slot.now_leased if slot.window == window - 1 else 0.0
