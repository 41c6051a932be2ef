"""HTTP Basic (RFC 7617), for clients that know nothing else."""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
import threading
import time
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from mastaba.api.access import Form, Identifier, Principal, Shown
from mastaba.api.storages import PerProcess
from mastaba_access.identifiers.faults import refuse
from mastaba_access.identifiers.passwords import Users, UsersError
from mastaba_access.identifiers.refusals import unknown
from mastaba_access.identifiers.shared import Failures, SharedRate, too_many
from mastaba_server.threads.lasting import lasting

_KEPT: Final = 300.0
"""Seconds for which a verified pair is known."""
_MOST_KEPT: Final = 1024
_PER_SECOND: Final = 5.0
"""Verifications per second of all workers of a node."""
_FAILURES: Final = 5
"""Failures per minute, user and address."""
_WAIT: Final = 5.0
"""Seconds to wait for the verification of another request."""
_LONGEST: Final = 1024


class BasicIdentifier(Identifier):
    """Verifies user names and passwords, one at a time in each process.

    Raises:
        ConfigurationError: the file of users cannot be used.
    """

    name: ClassVar[str] = "basic"
    forms: ClassVar[frozenset[Form]] = frozenset((Form.BASIC,))
    in_addresses: ClassVar[bool] = False
    settings_schema: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, settings: Mapping[str, Any], access: Mapping[str, Any]) -> None:
        super().__init__(settings, access)
        self._users: Users | None = None
        path = access.get("users")
        self.is_enabled = bool(path)
        if not path:
            return
        try:
            self._users = Users(path)
        except UsersError as error:
            refuse("users", str(error), "correct the file")
        # Before the fork: all workers share them, also those of the next reload.
        self._failures = lasting(_failures, path)
        self._rate = lasting(_rate, path)
        self._verifying = PerProcess(threading.Lock)
        self._verified = PerProcess(_Verified)

    def recognises(self, shown: Shown) -> bool:
        return self.is_enabled and shown.form is Form.BASIC

    def verify(self, shown: Shown, address: str) -> Principal:
        """Return the user of a name and a password.

        Args:
            shown: with the text behind "Basic", which is base64.
            address: of the client.

        Raises:
            UnknownCredentialError: there is no such user, or the password is another one.
            AccessError: 429; too many attempts of this user from this address, or of all.
        """
        users = self._users
        name, password = _pair(shown.text)
        if users is None:
            raise unknown()
        stored = users.hash_of(name)
        known = self._verified.get()
        fingerprint = known.fingerprint(name, password, users.signature)
        ends = known.ends(fingerprint)
        if ends is None:
            self._failures.check(address, name)
            self._rate.take()
            lock = self._verifying.get()
            if not lock.acquire(timeout=_WAIT):
                raise too_many(1)
            try:
                # An unknown user takes as long as a known one.
                matches = (stored or users.dummy).matches(password)
            finally:
                lock.release()
            if stored is None or not matches:
                self._failures.count(address, name)
                raise unknown()
            ends = known.keep(fingerprint)
        return user(name, ends)

    def challenge(self) -> str | None:
        return None if self._users is None else 'Basic realm="Mastaba", charset="UTF-8"'

    def poll(self) -> bool:
        return self._users is not None and self._users.has_changed()


def user(name: str, ends: float) -> Principal:
    """Return a user of the file."""
    return Principal(id=name, kind="user", label=name, ends=ends)


class _Verified:
    """Verified pairs of this process, under a keyed hash: no password stays in memory."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._ends: dict[bytes, float] = {}
        self._lock = threading.Lock()

    def fingerprint(self, name: str, password: str, signature: Any) -> bytes:
        # With the state of the file: a changed password is verified again.
        text = f"{name}\0{password}\0{signature}".encode("utf-8", "surrogatepass")
        return hmac.digest(self._key, text, "sha256")

    def ends(self, fingerprint: bytes) -> float | None:
        found = self._ends.get(fingerprint)
        return found if found is not None and time.time() < found else None

    def keep(self, fingerprint: bytes) -> float:
        now = time.time()
        with self._lock:
            if len(self._ends) >= _MOST_KEPT:
                self._ends = {key: end for key, end in self._ends.items() if end > now}
                while len(self._ends) >= _MOST_KEPT:
                    del self._ends[next(iter(self._ends))]
            self._ends[fingerprint] = now + _KEPT
        return now + _KEPT


def _failures() -> Failures:
    return Failures(_FAILURES)


def _rate() -> SharedRate:
    return SharedRate(_PER_SECOND, _PER_SECOND)


def _pair(text: str) -> tuple[str, str]:
    """Return user name and password.

    Raises:
        UnknownCredentialError: it is not a pair in base64.
    """
    if len(text) <= _LONGEST:
        try:
            decoded = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            decoded = b""
        # One spelling of each pair.
        if base64.b64encode(decoded).decode() != text:
            raise unknown()
        try:
            name, colon, password = decoded.decode("utf-8").partition(":")
        except UnicodeDecodeError:
            # What browsers send that do not know the parameter charset.
            name, colon, password = decoded.decode("latin-1").partition(":")
        if colon and name and name.isprintable():
            return name, password
    raise unknown()
