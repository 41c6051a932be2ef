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


class Seen:
    """Where payloads were written.

    Args:
        journal: keeps them for a resumed export.
        everything: also payloads of more than 16 KiB.
    """

    def __init__(self, journal: Journal, *, everything: bool) -> None:
        self._journal = journal
        self._longest = None if everything else _SMALL
        self._places: dict[tuple[bytes, int], int] = {}
        self._new: list[tuple[bytes, int, int]] = []

    def restore(self) -> None:
        """Remember what the journal has."""
        self._places = {(digest, length): place for digest, place, length in self._journal.seen()}

    def find(self, payload: bytes) -> tuple[bytes | None, int | None]:
        """Return the digest of a payload, if it has one, and its place if it was written."""
        if self._longest is not None and len(payload) > self._longest:
            return None, None
        digest = blake2b(payload, digest_size=16).digest()
        return digest, self._places.get((digest, len(payload)))

    def add(self, digest: bytes | None, length: int, place: int) -> None:
        """Note where a payload was written."""
        if digest is None or len(self._places) >= _MOST:
            return
        self._places[digest, length] = place
        self._new.append((digest, place, length))

    def sync(self) -> None:
        """Pass what is new to the journal."""
        self._journal.note_seen(self._new)
        self._new.clear()
