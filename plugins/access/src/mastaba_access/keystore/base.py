"""What every store of keys can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from mastaba_access.keystore.record import KeyRecord


class KeyEvent(NamedTuple):
    """A change of a key, for the audit log.

    Attributes:
        at: Unix seconds; None if it is not known.
        key: id of the key.
        what: ``created``, ``rotated``, ``revoked``, ``imported``.
        details: without secrets.
    """

    at: float | None
    key: str
    what: str
    details: Mapping[str, Any]


class KeyStore(ABC):
    """Keys by id. Used by all threads of a process; what it opens belongs to one process."""

    @abstractmethod
    def find(self, key_id: str) -> KeyRecord | None:
        """Return a key with its secrets, or None.

        Raises:
            KeyStoreError: the store cannot be read.
        """

    @abstractmethod
    def records(self) -> Iterator[KeyRecord]:
        """Yield all keys, sorted by id.

        Raises:
            KeyStoreError: the store cannot be read.
        """

    @abstractmethod
    def changing(self) -> AbstractContextManager[None]:
        """Return a context in which no other thread, process or command changes keys.

        `find` and `records` then return what is stored now. What is saved must be derived from it
        inside the context: a key that was revoked meanwhile would be accepted again.

        Raises:
            KeyStoreError: others change keys for too long, or the store cannot be read.
        """

    @abstractmethod
    def save(self, records: Sequence[KeyRecord], what: str) -> None:
        """Add or replace keys, all or none of them. Called in `changing` by what has read keys.

        Args:
            records: the keys.
            what: kind of the change, as in `KeyEvent`.

        Raises:
            KeyStoreError: they cannot be saved.
        """

    @abstractmethod
    def has_changed(self) -> bool:
        """Return whether a key has changed since the last call, or since the store was opened.

        Called in a process that forks: nothing stays open.
        """

    def new_events(self) -> Sequence[KeyEvent]:
        """Return the changes found by the last `has_changed`, if the store records them."""
        return ()

    def note_use(self, key_id: str, now: float) -> None:  # noqa: B027 - most stores note none
        """Note that a key was used at a time, in Unix seconds; written later, by day."""

    def last_uses(self) -> Mapping[str, str] | None:
        """Return the day of the last use by key; None if the store does not note it."""
        return None

    def close(self) -> None:  # noqa: B027
        """Release what this process has opened."""
