"""HTTP Basic."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest
from tests.access.identification.conftest import Credentials

from mastaba.api.access import Form, Principal, Shown
from mastaba.errors import AccessError, ConfigurationError, UnknownCredentialError
from mastaba_access.identifiers import basic, passwords
from mastaba_access.identifiers.basic import BasicIdentifier
from mastaba_access.identifiers.passwords import PasswordHash
from mastaba_access.identifiers.shared import SharedRate


def pair(text: str, encoding: str = "utf-8") -> Shown:
    return Shown(Form.BASIC, base64.b64encode(text.encode(encoding)).decode())


def ask(identifier: BasicIdentifier, text: str, address: str = "192.0.2.1") -> Principal:
    return identifier.verify(pair(text), address)


@pytest.fixture
def users(credentials: Credentials) -> BasicIdentifier:
    credentials.user("anna", "pass:word")
    credentials.user("jürgen", "grün")
    return BasicIdentifier({}, credentials.section())


def test_users_are_known_by_name_and_password(users: BasicIdentifier) -> None:
    assert users.recognises(pair("anna:x"))
    found = ask(users, "anna:pass:word")
    assert (found.id, found.kind, found.is_strong) == ("anna", "user", False)
    assert ask(users, "jürgen:grün").id == "jürgen"
    # What browsers send that do not know UTF-8.
    assert users.verify(pair("jürgen:grün", "latin-1"), "").id == "jürgen"
    assert users.challenge() == 'Basic realm="Mastaba", charset="UTF-8"'


@pytest.mark.parametrize("text", ["", "!", "YW5uYQ", "OnBhc3M=", "YW4KbmE6eA==", "Y" * 5000, "é"])
def test_damaged_pairs_are_refused_without_any_work(
    users: BasicIdentifier, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hashlib, "scrypt", None)
    with pytest.raises(UnknownCredentialError):
        users.verify(Shown(Form.BASIC, text), "")


def test_unknown_users_cost_as_much_as_wrong_passwords(
    users: BasicIdentifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    real = hashlib.scrypt

    def counted(*arguments: Any, **options: Any) -> bytes:
        seen.append({name: options[name] for name in ("n", "r", "p", "dklen")})
        return real(*arguments, **options)

    monkeypatch.setattr(hashlib, "scrypt", counted)
    messages = set()
    for text in ("anna:wrong", "nobody:wrong"):
        with pytest.raises(UnknownCredentialError) as caught:
            ask(users, text)
        messages.add(str(caught.value))
    assert seen[0] == seen[1]
    assert len(seen) == 2
    assert len(messages) == 1


def test_a_verified_pair_is_kept_and_a_changed_password_is_not(
    users: BasicIdentifier, credentials: Credentials, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = ask(users, "anna:pass:word")
    with monkeypatch.context() as patch:
        patch.setattr(hashlib, "scrypt", None)
        assert ask(users, "anna:pass:word").ends == first.ends
    monkeypatch.setattr(passwords, "_CHECK", 0)
    credentials.users.write_text("")
    credentials.user("anna", "other")
    assert users.poll()
    assert not users.poll()
    with pytest.raises(UnknownCredentialError):
        ask(users, "anna:pass:word")
    assert ask(users, "anna:other").id == "anna"
    # A file that is being written keeps what was read before.
    credentials.users.write_text("anna")
    assert ask(users, "anna:other").id == "anna"


def test_five_failures_block_a_user_from_an_address(
    users: BasicIdentifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(users, "_rate", SharedRate(1, 1000))
    for _ in range(6):
        with pytest.raises(UnknownCredentialError):
            ask(users, "anna:wrong")
    with pytest.raises(AccessError) as caught:
        ask(users, "anna:pass:word")
    assert caught.value.status == 429
    assert 0 < (caught.value.retry_after or 0) <= 60
    # Neither from elsewhere nor for others.
    assert ask(users, "anna:pass:word", "198.51.100.1").id == "anna"
    assert ask(users, "jürgen:grün").id == "jürgen"


def test_a_node_verifies_a_few_passwords_per_second(
    users: BasicIdentifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(users, "_rate", SharedRate(0.001, basic._PER_SECOND))
    statuses = []
    for number in range(12):
        with pytest.raises(AccessError) as caught:
            ask(users, f"user{number}:x", f"10.0.{number}.1")
        statuses.append(caught.value.status)
    assert statuses == [401] * 5 + [429] * 7


@pytest.mark.parametrize(
    "line",
    [
        "anna",
        ":scrypt$2$8$1$AAAAAAAAAAA$" + "A" * 43,
        "anna:$2y$05$bcrypt",
        "anna:scrypt$2$8$1$AAAAAAAAAAA$AAAA",
        "anna:scrypt$20$32$1$AAAAAAAAAAA$" + "A" * 43,
        "anna:scrypt$0$8$1$AAAAAAAAAAA$" + "A" * 43,
    ],
)
def test_wrong_lines_stop_the_start(credentials: Credentials, line: str) -> None:
    credentials.users.write_text(f"# users\n{line}\n")
    with pytest.raises(ConfigurationError, match="line 2"):
        BasicIdentifier({}, credentials.section())


def test_the_hash_is_scrypt_as_others_compute_it() -> None:
    salt = base64.urlsafe_b64encode(b"0123456789abcdef").rstrip(b"=").decode()
    value = hashlib.scrypt(b"x", salt=b"0123456789abcdef", n=32, r=4, p=2, dklen=32)
    text = base64.urlsafe_b64encode(value).rstrip(b"=").decode()
    line = f"scrypt$5$4$2${salt}${text}"
    assert PasswordHash.parse(line).matches("x")
    assert not PasswordHash.parse(line).matches("y")
    assert str(PasswordHash.parse(line)) == line
