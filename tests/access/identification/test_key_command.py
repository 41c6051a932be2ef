"""``mastaba key`` and ``mastaba sign``, as operators use them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mastaba.api.access import Form, Shown
from mastaba.commands.main import main
from mastaba.errors import UnknownCredentialError
from mastaba_access.identifiers.keys import KeyIdentifier
from mastaba_access.identifiers.signed import SignedIdentifier


@pytest.fixture
def server_json(tmp_path: Path) -> Path:
    section = {"keys": str(tmp_path / "keys.sqlite"), "secret_file": str(tmp_path / "secrets")}
    secrets = tmp_path / "secrets"
    secrets.write_text("a 0123456789abcdef0123456789abcdef\n")
    secrets.chmod(0o600)
    path = tmp_path / "server.json"
    path.write_text(json.dumps({"plugins": {"access": section}}))
    return path


@pytest.fixture
def run(server_json: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    def run_command(*arguments: str, status: int = 0) -> Any:
        found = main(["-f", str(server_json), *arguments])
        printed = capsys.readouterr()
        assert found == status, printed.err
        assert "Traceback" not in printed.err
        return printed if status else printed.out

    return run_command


def holder(server_json: Path, key: str) -> Any:
    section = json.loads(server_json.read_text())["plugins"]["access"]
    return KeyIdentifier({}, section).verify(Shown(Form.PATH, key), "")


def test_a_key_is_printed_once_and_works_until_it_is_revoked(run: Any, server_json: Path) -> None:
    key = run("key", "create", "--label", "Town", "--group", "g", "--group", "h").strip()
    assert holder(server_json, key).groups == {"g", "h"}
    key_id = key[3:11]
    for words in (("list",), ("list", "--json"), ("show", key_id), ("show", key_id, "--json")):
        printed = run("key", *words)
        assert key_id in printed
        assert key[12:] not in printed
    other = run("key", "rotate", key_id, "--overlap", "1d").strip()
    assert holder(server_json, key).id == holder(server_json, other).id == key_id
    assert run("key", "revoke", key_id) == ""
    with pytest.raises(UnknownCredentialError, match="revoked"):
        holder(server_json, other)
    assert json.loads(run("key", "list", "--json"))[0]["state"] == "revoked"
    assert "is revoked" in run("key", "rotate", key_id, status=1).err


def test_keys_move_to_another_store(run: Any, server_json: Path, tmp_path: Path) -> None:
    made = json.loads(run("key", "create", "--store", f"{tmp_path}/d/", "--label", "A", "--json"))
    file = tmp_path / "d" / f"{made['id']}.json"
    keys = tmp_path / "all.json"
    keys.write_text(json.dumps({"keys": [json.loads(file.read_text())]}))
    run("key", "import", str(keys))
    assert holder(server_json, made["key"]).label == "A"
    assert "exist already" in run("key", "import", str(keys), status=1).err
    run("key", "import", str(keys), "--replace")


@pytest.mark.parametrize(
    ("words", "reason", "status"),
    [
        (["create", "--label", "a", "--address", "here"], "not an address", 2),
        (["create", "--label", "a", "--until", "soon"], "RFC 3339", 2),
        (["create", "--label", "a", "--rate", "-1"], "rate", 2),
        (["create", "--label", "a\x1bb"], "control characters", 2),
        (["rotate", "00000000", "--overlap", "long"], "duration", 2),
        (["show", "00000000"], "there is no key", 1),
        (["import", "absent.json"], "cannot be read", 1),
        (["list", "--store", "x.txt"], "does not exist", 1),
    ],
)
def test_mistakes_are_explained(run: Any, words: list[str], reason: str, status: int) -> None:
    run("key", "create", "--label", "first")
    assert reason in run("key", *words, status=status).err


def test_a_signed_address_verifies(run: Any, server_json: Path) -> None:
    run("key", "create", "--label", "A")
    words = ["sign", "layer=B", "layer=A", "bbox=1,2,3,4", "--for", "1h"]
    (line,) = run(*words, "--token").splitlines()
    section = json.loads(server_json.read_text())["plugins"]["access"]
    signed = SignedIdentifier({}, section).verify(Shown(Form.PATH, line[1:]), "")
    assert (signed.id, signed.kind) == ("a", "signed")
    assert signed.scope == {"l": ("A", "B"), "b": (1, 2, 3, 4)}
    # The same scope gives the same address, in whatever order it is written.
    words[1:3] = words[2:0:-1]
    assert run(*words, "--token").splitlines() == [line]


@pytest.mark.parametrize(
    "scope", ["colour=red", "layer=", "bbox=1", "bbox=a,b,c,d", "bbox=3,2,1", "resolution=2,1"]
)
def test_a_scope_that_means_nothing_is_refused(run: Any, scope: str) -> None:
    assert run("sign", scope, "--for", "1h", status=2).err.startswith("mastaba: ")


def test_a_scope_that_opens_nothing_is_refused(run: Any) -> None:
    words = ["sign", "--for", "1h", "--token", "service=history"]
    assert "opens nothing: history shows" in run(*words, status=2).err
    assert run(*words, "service=tms").startswith("~s1.")
    assert run("sign", "--for", "1h", "--token", "service=metrics").startswith("~s1.")


def test_a_scope_has_to_fit_into_an_address(run: Any) -> None:
    words = [f"layer=A_VERY_LONG_NAME_{number}" for number in range(40)]
    assert "fit into an address" in run("sign", *words, "--for", "1h", status=2).err
