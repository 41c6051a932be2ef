"""Errors of the stores of keys."""

from __future__ import annotations

from mastaba.errors import MastabaError


class KeyStoreError(MastabaError):
    """The store cannot be read or changed; the message is for operators."""


class UnknownKeyError(KeyStoreError):
    """The store contains no key with this id."""

    def __init__(self, key_id: str) -> None:
        super().__init__(f"there is no key {key_id!r}")


class RevokedKeyError(KeyStoreError):
    """The key is revoked, and stays so."""

    def __init__(self, key_id: str) -> None:
        super().__init__(f"the key {key_id} is revoked")


class InvalidKeyRecordError(KeyStoreError):
    """What is said about a key is invalid."""
