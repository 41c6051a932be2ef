"""A text that all worker processes of a node share, and who may replace it."""

from __future__ import annotations

import struct
import time
from typing import Final

from mastaba_server.threads.shared_memory import SharedMemory

_HEAD: Final = struct.Struct("<QQdd")
"""Version, size of the text, last attempt to replace it, last success (monotonic seconds)."""


class SharedText:
    """A text in memory that forked processes inherit.

    Args:
        largest: bytes of the text.
    """

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._shared = SharedMemory(_HEAD.size + largest)
        self._memory = self._shared.memory
        self._memory[: _HEAD.size] = _HEAD.pack(0, 0, -1e9, -1e9)

    @property
    def version(self) -> int:
        """A number that each replacement raises."""
        version: int = _HEAD.unpack_from(self._memory)[0]
        return version

    def read(self) -> tuple[int, bytes]:
        """Return version and text."""
        with self._shared.locked():
            version, size, _, _ = _HEAD.unpack_from(self._memory)
            return version, self._memory[_HEAD.size : _HEAD.size + size]

    def write(self, text: bytes) -> None:
        """Replace the text; an equal one keeps its version."""
        assert len(text) <= self._largest
        with self._shared.locked():
            version, size, tried, _ = _HEAD.unpack_from(self._memory)
            is_equal = version and self._memory[_HEAD.size : _HEAD.size + size] == text
            self._memory[_HEAD.size : _HEAD.size + len(text)] = text
            version += 0 if is_equal else 1
            self._memory[: _HEAD.size] = _HEAD.pack(version, len(text), tried, time.monotonic())

    def may_replace(self, pause: float, age: float = 0.0) -> bool:
        """Return whether the caller is to replace the text now; nobody else is told so then.

        Args:
            pause: seconds since the last attempt of any process.
            age: seconds since the last success.
        """
        with self._shared.locked():
            version, size, tried, succeeded = _HEAD.unpack_from(self._memory)
            now = time.monotonic()
            if now - tried < pause or now - succeeded < age:
                return False
            self._memory[: _HEAD.size] = _HEAD.pack(version, size, now, succeeded)
            return True
