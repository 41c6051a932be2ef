"""The file of users and hashes of their passwords."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
import threading
import time
from dataclasses import dataclass
from typing import Any, Final

from mastaba.api.documents import read_local_text
from mastaba.errors import MastabaError, reason_of
from mastaba_access.keystore.files import state_of

_CHECK: Final = 1.0
"""Seconds between two checks of the file."""
_HASH: Final = re.compile(
    r"scrypt\$([0-9]{1,2})\$([0-9]{1,2})\$([0-9]{1,2})\$([A-Za-z0-9_-]{11,86})\$([A-Za-z0-9_-]{43})"
)
_SIZE: Final = 32
_MOST_MEMORY: Final = 256 * 1024**2
_USUAL: Final = (15, 8, 1)


class UsersError(MastabaError):
    """The file cannot be used; the message names its line, and nothing of a hash."""


@dataclass(frozen=True, slots=True, repr=False)
class PasswordHash:
    """A hash with its parameters.

    Attributes:
        cost: log2 of N of scrypt.
        block: r of scrypt.
        parallel: p of scrypt.
        salt: at least 8 bytes.
        hash: 32 bytes.
    """

    cost: int
    block: int
    parallel: int
    salt: bytes
    hash: bytes

    @classmethod
    def parse(cls, text: str) -> PasswordHash:
        """Parse ``scrypt$15$8$1$salt$hash``.

        Raises:
            ValueError: it is not one, or takes more memory than 256 MiB.
        """
        found = _HASH.fullmatch(text)
        if found is None:
            raise ValueError("is not scrypt$LOG2N$R$P$SALT$HASH")
        cost, block, parallel = (int(found[n]) for n in (1, 2, 3))
        if not (1 <= cost <= 20 and 1 <= block <= 32 and 1 <= parallel <= 16):
            raise ValueError("has parameters of scrypt that are not possible")
        if 128 * block * 2**cost > _MOST_MEMORY:
            raise ValueError("needs more than 256 MiB for one verification")
        try:
            salt, value = (_decoded(found[n]) for n in (4, 5))
        except (ValueError, binascii.Error) as error:
            raise ValueError("has a salt or hash that is not base64url") from error
        return cls(cost, block, parallel, salt, value)

    @classmethod
    def of(cls, password: str) -> PasswordHash:
        """Return the hash of a password, with a new salt."""
        empty = cls(*_USUAL, secrets.token_bytes(16), b"")
        return cls(*_USUAL, empty.salt, empty.computed(password))

    def __str__(self) -> str:
        salt, value = (base64.urlsafe_b64encode(x).rstrip(b"=") for x in (self.salt, self.hash))
        head = f"scrypt${self.cost}${self.block}${self.parallel}"
        return f"{head}${salt.decode()}${value.decode()}"

    def computed(self, password: str) -> bytes:
        """Return the hash of a password with these parameters. Slow on purpose."""
        return hashlib.scrypt(
            password.encode("utf-8", "surrogatepass"),
            salt=self.salt,
            n=2**self.cost,
            r=self.block,
            p=self.parallel,
            maxmem=_MOST_MEMORY + 128 * self.block * (self.parallel + 2) + 2**20,
            dklen=_SIZE,
        )

    def matches(self, password: str) -> bool:
        """Return whether it is the hash of a password."""
        return hmac.compare_digest(self.computed(password), self.hash)


class Users:
    """Hashes by user name, from a file that is read again when it changes.

    Args:
        path: of a file with lines ``name:hash``. Empty lines and comments (#) are skipped.

    Raises:
        UsersError: it cannot be read, or a line is wrong.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._checked = time.monotonic()
        self._signature = state_of(self._path)
        self._polled = self._signature
        self._hashes = self._read()
        self._dummy = self._make_dummy()

    def hash_of(self, name: str) -> PasswordHash | None:
        """Return the hash of a user; None if there is no such user."""
        self._refresh()
        return self._hashes.get(name)

    @property
    def dummy(self) -> PasswordHash:
        """A hash of nothing, as slow as the others, for users that do not exist."""
        return self._dummy

    @property
    def signature(self) -> Any:
        """A value that differs after each change of the file."""
        return self._signature

    def has_changed(self) -> bool:
        """Return whether the file has changed since the last call."""
        found = state_of(self._path)
        before, self._polled = self._polled, found
        return before != found

    def _refresh(self) -> None:
        if time.monotonic() - self._checked < _CHECK:
            return
        with self._lock:
            self._checked = time.monotonic()
            found = state_of(self._path)
            if found == self._signature:
                return
            try:
                self._hashes = self._read()
            except UsersError:
                # What was read before stays, as for layers. Tried again in a second.
                return
            self._dummy = self._make_dummy()
            self._signature = found

    def _make_dummy(self) -> PasswordHash:
        known = list(self._hashes.values())
        usual = known[0] if known else PasswordHash(*_USUAL, b"", b"")
        salt = secrets.token_bytes(16)
        return PasswordHash(usual.cost, usual.block, usual.parallel, salt, bytes(_SIZE))

    def _read(self) -> dict[str, PasswordHash]:
        try:
            text = read_local_text(self._path)
        except OSError as error:
            raise UsersError(f"{self._path} cannot be read: {reason_of(error)}") from error
        except ValueError as error:
            raise UsersError(f"{self._path} {error}") from error
        found: dict[str, PasswordHash] = {}
        for number, raw in enumerate(text.splitlines(), 1):
            line = raw.strip()
            if not line or line.startswith("#"):
                continue
            place = f"{self._path}, line {number}"
            name, _, value = line.partition(":")
            if not name or not name.isprintable() or name in found:
                raise UsersError(f"{place}: a line begins with the name of another user")
            try:
                found[name] = PasswordHash.parse(value)
            except ValueError as error:
                raise UsersError(f"{place}: the hash {error}") from error
        return found


def _decoded(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
