"""Payloads that are written once, however many tiles have them."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mastaba_export.journal import Journal

_SMALL: Final = 16 * 1024
"""Bytes; to hash larger payloads would cost more than it saves."""
_MOST: Final = 262_144
"""Payloads that are remembered, the first ones."""
_FREE: Final = bytes(8)
"""End of a free slot."""


class _Places:
    """Places by digest and length, in one block of memory: a dict would need five times as much.

    Args:
        most: number of free places; no more can be added.
    """

    _KEY: Final = 20
    _SIZE: Final = _KEY + 8

    def __init__(self, most: int) -> None:
        # Half of the slots stay free, so that a search ends soon.
        self._mask = (1 << most.bit_length()) - 1
        self._slots = bytearray((self._mask + 1) * self._SIZE)
        self._left = most

    @property
    def is_full(self) -> bool:
        """Whether no place can be added."""
        return self._left <= 0

    def find(self, digest: bytes, length: int) -> int | None:
        """Return a place, or None if it is unknown."""
        start, is_known = self._slot(digest, length)
        if not is_known:
            return None
        return int.from_bytes(self._slots[start + self._KEY : start + self._SIZE], "little") - 1

    def add(self, digest: bytes, length: int, place: int) -> None:
        """Add a place; there must be room."""
        start, is_known = self._slot(digest, length)
        self._left -= not is_known
        entry = digest + length.to_bytes(4, "little") + (place + 1).to_bytes(8, "little")
        self._slots[start : start + self._SIZE] = entry

    def _slot(self, digest: bytes, length: int) -> tuple[int, bool]:
        """Return where a place is, or belongs, and whether it is there."""
        key, slots = digest + length.to_bytes(4, "little"), self._slots
        number = int.from_bytes(digest[:8], "little")
        while True:
            start = (number & self._mask) * self._SIZE
            entry = slots[start : start + self._SIZE]
            if entry.endswith(_FREE):
                return start, False
            if entry.startswith(key):
                return start, True
            number += 1


class Seen:
    """Where payloads were written.

    Args:
        journal: keeps them for a resumed export.
        everything: also payloads of more than 16 KiB.
    """

    def __init__(self, journal: Journal, *, everything: bool) -> None:
        self._journal = journal
        self._longest = None if everything else _SMALL
        self._places = _Places(_MOST)
        self._new: list[tuple[bytes, int, int]] = []

    def restore(self) -> None:
        """Remember what the journal has; nothing has been added yet."""
        for digest, place, length in self._journal.seen():
            self._places.add(digest, length, place)

    def find(self, payload: bytes) -> tuple[bytes | None, int | None]:
        """Return the digest of a payload, if it has one, and its place if it was written."""
        if self._longest is not None and len(payload) > self._longest:
            return None, None
        digest = blake2b(payload, digest_size=16).digest()
        return digest, self._places.find(digest, len(payload))

    def add(self, digest: bytes | None, length: int, place: int) -> None:
        """Note where a payload was written."""
        if digest is not None and not self._places.is_full:
            self._places.add(digest, length, place)
            self._new.append((digest, place, length))

    def sync(self) -> None:
        """Pass what is new to the journal."""
        self._journal.note_seen(self._new)
        self._new.clear()
