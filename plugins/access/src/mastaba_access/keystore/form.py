"""How an API key is written: ``mk_``, a public id, and a secret with check characters."""

from __future__ import annotations

import hashlib
import re
import secrets
import zlib
from typing import Final

ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's base 32 in lower case: no letter looks like a digit or another letter."""
PREFIX: Final = "mk_"
KEY_SIZE: Final = 40
"""Characters of a key."""
ID_SIZE: Final = 8
"""Characters of the id, which is public."""

_SECRET: Final = 26
_CHARACTERS: Final = f"[{ALPHABET}]"
_KEY: Final = re.compile(f"{PREFIX}({_CHARACTERS}{{{ID_SIZE}}})_{_CHARACTERS}{{{_SECRET + 2}}}")
_ID: Final = re.compile(f"{_CHARACTERS}{{{ID_SIZE}}}")


def new_id() -> str:
    """Return a random id of a key."""
    return _random(ID_SIZE)


def new_key(key_id: str) -> str:
    """Return a new key with an id: 130 random bits, with a check."""
    text = f"{PREFIX}{key_id}_{_random(_SECRET)}"
    return text + check_of(text)


def check_of(text: str) -> str:
    """Return the check characters of a key: the low 10 bits of its CRC-32, high bits first.

    Args:
        text: the key without them, in ASCII.
    """
    crc = zlib.crc32(text.encode("ascii"))
    return ALPHABET[crc >> 5 & 31] + ALPHABET[crc & 31]


def id_of(key: str) -> str | None:
    """Return the id of a key; None for anything that is not written like one."""
    if len(key) != KEY_SIZE or (found := _KEY.fullmatch(key)) is None:
        return None
    return found[1] if check_of(key[:-2]) == key[-2:] else None


def is_id(text: str) -> bool:
    """Return whether a text is written like the id of a key."""
    return _ID.fullmatch(text) is not None


def digest_of_key(key: str) -> bytes:
    """Return what is stored of a key: SHA-256.

    A slow hash protects passwords that can be guessed. A key cannot be guessed, and a slow hash
    would only help those who want to keep the server busy.
    """
    return hashlib.sha256(key.encode("ascii")).digest()


def _random(size: int) -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(size))
