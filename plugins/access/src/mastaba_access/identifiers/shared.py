"""Counters in memory that all workers of a node share."""

from __future__ import annotations

import hashlib
import math
import secrets
import struct
import time
from typing import ClassVar, Final

from mastaba.errors import AccessError
from mastaba_server.access.clients import shared_network
from mastaba_server.threads.shared_memory import SharedMemory

_SLOT: Final = struct.Struct("<QddII")
"""Fingerprint of the subject, start of its window, end of its block, failures, unused."""
_WAYS: Final = 4
"""Slots in which a subject may be."""
_FINGERPRINTS: Final = struct.Struct("<" + "Q24x" * _WAYS)
"""Those of the slots of a set."""
_SETS: Final = 4096
_LEVEL: Final = struct.Struct("<dd")


class Failures:
    """Failed attempts by subject, such as the address of a client; too many block it for a while.

    The memory is fixed. If more subjects fail than fit, the oldest are forgotten.

    Args:
        limit: failures within a minute that are allowed.
        block: seconds for which a subject is then refused.
    """

    def __init__(self, limit: int = 30, block: float = 60.0) -> None:
        self._limit = limit
        self._block = block
        self._shared = SharedMemory(_SETS * _WAYS * _SLOT.size)
        self._key = secrets.token_bytes(16)

    def check(self, address: str, who: str = "") -> None:
        """Refuse a subject that is blocked.

        Args:
            address: of the client; networks of /64 count as one in IPv6.
            who: name of a user or a credential, if failures are counted by that and address.

        Raises:
            AccessError: 429; the subject has failed too often.
        """
        fingerprint, at = self._place(address, who)
        # Not locked: what is read while another process writes is a slot before or after.
        memory = self._shared.memory
        if fingerprint not in _FINGERPRINTS.unpack_from(memory, at):
            return
        now = time.monotonic()
        for offset in range(at, at + _WAYS * _SLOT.size, _SLOT.size):
            found, _, blocked, _, _ = _SLOT.unpack_from(memory, offset)
            if found == fingerprint and blocked > now:
                raise too_many(blocked - now)

    def count(self, address: str, who: str = "") -> int:
        """Count a failed attempt; return how many the subject has had within the minute."""
        fingerprint, at = self._place(address, who)
        now = time.monotonic()
        with self._shared.locked() as memory:
            slots = [
                (offset, _SLOT.unpack_from(memory, offset))
                for offset in range(at, at + _WAYS * _SLOT.size, _SLOT.size)
            ]
            own = [slot for slot in slots if slot[1][0] == fingerprint]
            # Blocked subjects are kept as long as possible.
            offset, (found, began, blocked, count, _) = (
                own[0] if own else min(slots, key=lambda slot: max(slot[1][1], slot[1][2]))
            )
            if found != fingerprint or now - began >= 60.0:
                began, count = now, 0
                blocked = blocked if found == fingerprint else 0.0
            count = min(count + 1, 2**31)
            if count > self._limit:
                blocked = now + self._block
            _SLOT.pack_into(memory, offset, fingerprint, began, blocked, count, 0)
        return int(count)

    def _place(self, address: str, who: str) -> tuple[int, int]:
        # Keyed, so that no one can choose addresses that displace others.
        text = f"{shared_network(address)}\0{who}".encode("utf-8", "surrogatepass")
        digest = hashlib.blake2s(text, key=self._key, digest_size=12).digest()
        fingerprint = int.from_bytes(digest[:8], "little") | 1
        number = int.from_bytes(digest[8:12], "little") % _SETS
        return fingerprint, number * _WAYS * _SLOT.size


class SharedRate:
    """A rate that all workers of a node keep together.

    Args:
        rate: how many per second.
        burst: how many at once.
    """

    def __init__(self, rate: float, burst: float) -> None:
        self._rate = rate
        self._burst = burst
        self._shared = SharedMemory(_LEVEL.size)
        _LEVEL.pack_into(self._shared.memory, 0, burst, time.monotonic())

    def take(self) -> None:
        """Take one.

        Raises:
            AccessError: 429; the rate is used up.
        """
        now = time.monotonic()
        with self._shared.locked() as memory:
            level, at = _LEVEL.unpack_from(memory, 0)
            level = min(self._burst, level + (now - at) * self._rate)
            if level >= 1:
                _LEVEL.pack_into(memory, 0, level - 1, now)
                return
        raise too_many((1 - level) / self._rate)


class SharedClaims:
    """What one of several processes does for all of them, such as a line of a log."""

    _SIZE: ClassVar[int] = 8
    _COUNT: ClassVar[int] = 256

    def __init__(self) -> None:
        self._shared = SharedMemory(self._SIZE * (self._COUNT + 1))

    def take(self, text: str) -> bool:
        """Return whether this process is the first one to ask for a text.

        The last 256 texts are known.
        """
        digest = hashlib.blake2b(text.encode(), digest_size=self._SIZE).digest()
        with self._shared.locked() as memory:
            taken = memory[self._SIZE :]
            if any(taken[n : n + self._SIZE] == digest for n in range(0, len(taken), self._SIZE)):
                return False
            number = int.from_bytes(memory[: self._SIZE], "little")
            at = self._SIZE * (number % self._COUNT + 1)
            memory[at : at + self._SIZE] = digest
            memory[: self._SIZE] = (number + 1).to_bytes(self._SIZE, "little")
        return True


def too_many(seconds: float) -> AccessError:
    """Return the error for too many attempts; another one makes sense after some seconds."""
    wait = max(1, math.ceil(seconds))
    return AccessError("too many attempts with credentials; try again later", 429, (), wait)
