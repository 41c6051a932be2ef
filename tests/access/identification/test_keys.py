"""API keys: form, stores, and who holds them."""

from __future__ import annotations

import fcntl
import json
import os
import re
import sqlite3
import stat
import threading
import time
import zlib
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.access.identification.conftest import Credentials

from mastaba.api.access import Form, Shown
from mastaba.errors import ConfigurationError, OverloadedError, UnknownCredentialError
from mastaba_access.identifiers.keys import KeyIdentifier
from mastaba_access.keystore.documents import _DocumentKeys
from mastaba_access.keystore.errors import (
    InvalidKeyRecordError,
    KeyStoreError,
    RevokedKeyError,
)
from mastaba_access.keystore.form import digest_of_key, id_of, new_id, new_key
from mastaba_access.keystore.management import create_key, revoke_key, rotate_key
from mastaba_access.keystore.opening import open_keys
from mastaba_access.keystore.record import (
    KeyRecord,
    KeySecret,
    duration_of,
    record_from,
    seconds_of,
)

FORMS = (Form.PATH, Form.QUERY, Form.HEADER, Form.BEARER)
# Independent of the code: the alphabet, and the check, as they are documented.
ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


def identifier(credentials: Credentials) -> KeyIdentifier:
    return KeyIdentifier({}, credentials.section())


def shown(text: str, form: Form = Form.PATH) -> Shown:
    return Shown(form, text)


# ---------------------------------------------------------------- the form


def test_a_key_has_forty_characters_that_no_client_changes() -> None:
    key_id = new_id()
    key = new_key(key_id)
    assert re.fullmatch(f"mk_{key_id}_[{ALPHABET}]{{28}}", key)
    assert len(key) == 40
    crc = zlib.crc32(key[:38].encode())
    assert key[38:] == ALPHABET[crc // 32 % 32] + ALPHABET[crc % 32]
    assert id_of(key) == key_id


def test_every_changed_character_is_noticed_before_any_lookup() -> None:
    key = new_key(new_id())
    unnoticed = 0
    for position in range(40):
        for character in "0z_Aé":
            changed = key[:position] + character + key[position + 1 :]
            unnoticed += changed != key and id_of(changed) is not None
    # The check has ten bits, and finds every change within ten bits.
    assert unnoticed == 0


@pytest.mark.parametrize("text", ["", "mk_", "mk_\n", "x" * 40, "mk_" + "0" * 37, "é" * 40])
def test_other_texts_are_not_keys(text: str) -> None:
    assert id_of(text) is None


# ---------------------------------------------------------------- who holds it


@pytest.mark.parametrize("form", FORMS)
def test_the_holder_of_a_key_is_found(credentials: Credentials, form: Form) -> None:
    key = credentials.key(
        label="Town", groups=["alsace"], addresses=["10.1.2.3/8"], layers=["ORTHO"], area="alsace"
    )
    keys = identifier(credentials)
    assert keys.recognises(shown(key, form))
    principal = keys.verify(shown(key, form), "192.0.2.1")
    assert (principal.id, principal.kind, principal.label) == (key[3:11], "key", "Town")
    assert principal.groups == {"alsace"}
    assert principal.addresses == ("10.0.0.0/8",)
    assert principal.own == {"layers": ["ORTHO"], "area": "alsace"}
    assert not principal.is_strong
    assert key not in repr(principal)


def test_keys_do_not_come_as_passwords_or_cookies(credentials: Credentials) -> None:
    keys = identifier(credentials)
    key = credentials.key()
    assert not keys.recognises(shown(key, Form.COOKIE))
    assert not keys.recognises(shown(key, Form.BASIC))


def test_without_a_store_there_are_no_keys(credentials: Credentials) -> None:
    keys = KeyIdentifier({}, {})
    assert not keys.is_enabled
    assert not keys.recognises(shown(credentials.key()))
    assert keys.challenge() is None


def test_a_key_with_another_secret_is_unknown(credentials: Credentials) -> None:
    key = credentials.key()
    with pytest.raises(UnknownCredentialError, match="unknown or damaged"):
        identifier(credentials).verify(shown(new_key(key[3:11])), "")
    with pytest.raises(UnknownCredentialError, match="unknown or damaged"):
        identifier(credentials).verify(shown(new_key(new_id())), "")


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"until": "2020-01-01"}, "expired"),
        ({"from": "2999-01-01"}, "not valid yet"),
        ({"revoked": True}, "revoked"),
    ],
)
def test_a_key_has_its_time(credentials: Credentials, members: Any, reason: str) -> None:
    key = credentials.key(**members)
    with pytest.raises(UnknownCredentialError, match=reason):
        identifier(credentials).verify(shown(key), "")


def test_a_rotated_key_has_two_secrets_for_a_while(credentials: Credentials) -> None:
    old = credentials.key(groups=["g"])
    new = new_key(old[3:11])
    record = credentials.store.find(old[3:11])
    assert record is not None
    now = time.time()
    rotated = record.rotated(KeySecret(digest_of_key(new), now), now, 3600)
    credentials.store.save([rotated], "rotated")
    keys = identifier(credentials)
    before, after = (keys.verify(shown(key), "") for key in (old, new))
    assert before.id == after.id
    assert before.ends == pytest.approx(now + 3600)
    assert after.ends > now + 1e6
    # Without an overlap, the old one is gone.
    credentials.store.save([record.rotated(KeySecret(digest_of_key(new)), now, 0)], "rotated")
    with pytest.raises(UnknownCredentialError):
        keys.verify(shown(old), "")


def test_a_store_that_cannot_be_read_is_not_a_wrong_key(credentials: Credentials) -> None:
    key = credentials.key()
    keys = identifier(credentials)
    credentials.store.close()
    for path in credentials.folder.glob("keys.sqlite*"):
        path.unlink()
    assert keys.poll()
    with pytest.raises(OverloadedError, match="cannot be checked") as caught:
        keys.verify(shown(key), "")
    assert str(credentials.folder) not in str(caught.value)


@pytest.mark.parametrize("name", ["absent.sqlite", "absent.json", "absent/", "text.txt"])
def test_a_store_that_does_not_exist_stops_the_start(tmp_path: Path, name: str) -> None:
    (tmp_path / "text.txt").touch()
    with pytest.raises(ConfigurationError, match=r"plugins\.access\.keys"):
        KeyIdentifier({}, {"keys": f"{tmp_path}/{name}"})


# ---------------------------------------------------------------- changes


def test_other_processes_notice_a_revocation(
    credentials: Credentials, caplog: pytest.LogCaptureFixture
) -> None:
    key = credentials.key(label="Town")
    workers = identifier(credentials)
    assert not workers.poll()
    workers.verify(shown(key), "")
    assert not workers.poll()
    command = open_keys(str(credentials.keys))
    record = command.find(key[3:11])
    assert record is not None
    command.save([replace(record, revoked=time.time())], "revoked")
    with caplog.at_level("INFO", "mastaba.audit"):
        assert workers.poll()
    assert not workers.poll()
    (line,) = [json.loads(text) for text in caplog.messages]
    assert (line["event"], line["id"], line["label"]) == ("key revoked", key[3:11], "Town")
    assert key[12:] not in caplog.text
    assert record.secrets[0].digest.hex() not in caplog.text
    with pytest.raises(UnknownCredentialError, match="revoked"):
        workers.verify(shown(key), "")


def test_uses_are_noted_by_day_and_are_no_change(credentials: Credentials) -> None:
    key = credentials.key()
    keys = identifier(credentials)
    keys.verify(shown(key), "")
    keys.close()
    today = time.strftime("%Y-%m-%d", time.gmtime())
    assert credentials.store.last_uses() == {key[3:11]: today}
    assert not keys.poll()


def test_a_connection_is_not_inherited(credentials: Credentials) -> None:
    """A child reads with a connection of its own."""
    key = credentials.key()
    keys = identifier(credentials)
    keys.verify(shown(key), "")
    child = os.fork()
    if not child:
        status = 1
        try:
            status = int(keys.verify(shown(key), "").id != key[3:11])
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert keys.verify(shown(key), "").id == key[3:11]


@pytest.mark.parametrize("name", ["keys.json", "keys/"])
def test_files_are_stores(tmp_path: Path, name: str) -> None:
    path = f"{tmp_path}/{name}"
    key = new_key(new_id())
    writer = open_keys(path, create=True)
    writer.save([record_from({"key": key, "label": "A", "groups": ["g"]}, 0)], "created")
    reader = open_keys(path)
    found = reader.find(key[3:11])
    assert found is not None
    assert (found.label, found.groups) == ("A", ("g",))
    assert key[12:] not in "".join(p.read_text() for p in tmp_path.rglob("*") if p.is_file())
    assert not reader.has_changed()
    writer.save([replace(found, revoked=1.0)], "revoked")
    assert reader.has_changed()
    (event,) = reader.new_events()
    assert (event.key, event.what) == (key[3:11], "revoked")


@pytest.mark.parametrize("name", ["keys.json", "keys/", "keys.sqlite"])
def test_stores_that_change_at_the_same_time_lose_no_key(tmp_path: Path, name: str) -> None:
    path = f"{tmp_path}/{name}"
    create_key(open_keys(path, create=True), {})
    stores = [open_keys(path) for _ in range(3)]
    made = [create_key(store, {})[1].id for store in stores * 2]
    revoke_key(stores[0], made[-1])
    rotate_key(stores[1], made[0], "0s")
    with pytest.raises(RevokedKeyError):
        rotate_key(stores[2], made[-1], "0s")
    found = {record.id: record for record in open_keys(path).records()}
    assert found.keys() > {*made}
    assert [key for key, record in found.items() if record.revoked is not None] == [made[-1]]


@pytest.mark.parametrize("name", ["keys.json", "keys/", "keys.sqlite"])
def test_what_changes_a_key_waits_for_others(tmp_path: Path, name: str) -> None:
    path = f"{tmp_path}/{name}"
    one, other = open_keys(path, create=True), open_keys(path, create=True)
    _, record = create_key(one, {})
    with one.changing():
        found = one.find(record.id)
        thread = threading.Thread(target=revoke_key, args=(other, record.id))
        thread.start()
        assert found is not None
        one.save([replace(found, label="A")], "changed")
    thread.join()
    after = open_keys(path).find(record.id)
    assert after is not None
    assert after.revoked is not None
    assert after.label == "A"


@pytest.mark.parametrize("name", ["keys.json", "keys/"])
def test_a_thread_that_reads_does_not_undo_what_another_one_changes(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker finds a key while the administration revokes another one."""
    path = f"{tmp_path}/{name}"
    _, one = create_key(open_keys(path, create=True), {})
    worker = open_keys(path)
    assert isinstance(worker, _DocumentKeys)
    _, other = create_key(open_keys(path), {})
    monkeypatch.setattr(worker, "_checked", 0.0)
    is_read, go_on, parsed = threading.Event(), threading.Event(), worker._read

    def paused() -> Mapping[str, KeyRecord]:
        found = parsed()
        if threading.current_thread() is reader:
            is_read.set()
            # Or until the change waits for it.
            go_on.wait(0.5)
        return found

    monkeypatch.setattr(worker, "_read", paused)
    reader = threading.Thread(target=worker.find, args=(one.id,))
    reader.start()
    is_read.wait()
    revoke_key(open_keys(path), one.id)
    with worker.changing():
        go_on.set()
        reader.join()
        found = worker.find(one.id)
        assert found is not None
        assert found.revoked is not None
        worker.save([replace(other, revoked=1.0)], "revoked")
    for store in (worker, open_keys(path)):
        assert all(record.revoked is not None for record in store.records())


@pytest.mark.parametrize("damage", ['{"keys": [', "", "absent"])
def test_a_damaged_file_is_not_replaced(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "keys.json"
    store = open_keys(str(path), create=True)
    key, record = create_key(store, {})
    former = path.read_text()
    path.unlink() if damage == "absent" else path.write_text(damage)
    for change in (lambda: create_key(store, {}), lambda: revoke_key(store, record.id)):
        with pytest.raises(KeyStoreError):
            change()
    # Its keys are still accepted.
    assert store.find(id_of(key) or "") is not None
    assert path.exists() == (damage != "absent")
    assert damage == "absent" or path.read_text() == damage
    path.write_text(former)
    revoke_key(store, record.id)
    assert '"revoked"' in path.read_text()


def test_an_absent_directory_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    store = open_keys(f"{path}/", create=True)
    _, record = create_key(store, {})
    path.rename(tmp_path / "moved")
    for change in (lambda: create_key(store, {}), lambda: revoke_key(store, record.id)):
        with pytest.raises(KeyStoreError):
            change()
    assert store.find(record.id) is not None
    assert not path.exists()
    (tmp_path / "moved").rename(path)
    create_key(store, {})
    assert len([*store.records()]) == 2


def test_locks_are_files_that_only_their_owner_opens(tmp_path: Path) -> None:
    create_key(open_keys(f"{tmp_path}/keys.json", create=True), {})
    create_key(open_keys(f"{tmp_path}/keys/", create=True), {})
    locks = [tmp_path / ".keys.json.lock", tmp_path / "keys" / ".lock"]
    assert [stat.S_IMODE(lock.stat().st_mode) for lock in locks] == [0o600] * 2
    # Who may only list the folder cannot hold it.
    folder = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    create_key(open_keys(f"{tmp_path}/keys.json"), {})
    os.close(folder)


def test_a_change_that_holds_nothing_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_keys(f"{tmp_path}/keys.json", create=True)
    (tmp_path / ".keys.json.lock").mkdir()
    create_key(store, {})
    assert "others can change keys at the same time" in caplog.text


@pytest.mark.parametrize("name", ["keys.json", "keys/"])
def test_a_change_of_a_store_is_not_read_again(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_keys(f"{tmp_path}/{name}", create=True)
    assert isinstance(store, _DocumentKeys)
    parsed = store._read
    reads: list[int] = []

    def counted() -> Mapping[str, KeyRecord]:
        reads.append(1)
        return parsed()

    monkeypatch.setattr(store, "_read", counted)
    made = [create_key(store, {})[1].id]
    reads.clear()
    made += [create_key(store, {})[1].id for _ in range(2)]
    revoke_key(store, made[0])
    assert not reads
    rotate_key(open_keys(f"{tmp_path}/{name}"), made[1], "0s")
    revoke_key(store, made[1])
    assert len(reads) == 1
    assert {record.id for record in store.records()} == {*made}


def test_a_database_is_held_while_keys_are_read_and_saved(tmp_path: Path) -> None:
    path = f"{tmp_path}/keys.sqlite"
    store = open_keys(path, create=True)
    _, record = create_key(store, {})
    with closing(sqlite3.connect(path, timeout=0)) as other, store.changing():
        assert store.find(record.id) is not None
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("DELETE FROM events")
        # Other threads find keys meanwhile.
        thread = threading.Thread(target=store.find, args=(record.id,))
        thread.start()
        thread.join()
        store.save([replace(record, revoked=1.0)], "revoked")
    after = store.find(record.id)
    assert after is not None
    assert after.revoked == 1.0


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser gives files away")
def test_the_superuser_gives_away_only_what_it_has_made(tmp_path: Path) -> None:
    (tmp_path / "passwords").write_text("x")
    (tmp_path / "keys").mkdir()
    os.chown(tmp_path / "keys", 65534, 65534)
    os.link(tmp_path / "passwords", tmp_path / "keys" / ".keys.json.lock")
    create_key(open_keys(f"{tmp_path}/keys/keys.json", create=True), {})
    assert (tmp_path / "passwords").stat().st_uid == 0
    assert (tmp_path / "keys" / "keys.json").stat().st_uid == 65534


def test_a_mounted_secret_is_a_store(tmp_path: Path) -> None:
    """A file with the key itself, in hidden versions behind links, as Kubernetes mounts it."""
    key = new_key(new_id())
    (tmp_path / "..1").mkdir()
    (tmp_path / "..1" / "town").write_text(f"{key}\n")
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "town").symlink_to("..data/town")
    found = open_keys(str(tmp_path)).find(key[3:11])
    assert found is not None
    assert found.label == "town"


def test_a_yaml_file_is_read_and_not_written(tmp_path: Path) -> None:
    key = new_key(new_id())
    path = tmp_path / "keys.yaml"
    path.write_text(f"keys:\n- {{key: {key}, until: '2999-12-31', owner: Town}} # comment\n")
    store = open_keys(str(path))
    (found,) = store.records()
    assert found.owner == "Town"
    assert found.ends == seconds_of("3000-01-01")
    with pytest.raises(KeyStoreError, match="YAML"):
        store.save([found], "created")
    assert "# comment" in path.read_text()


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ([], "contains"),
        ({"keys": {}}, "contains"),
        ({"keys": [1]}, "object"),
        ({"keys": [{"id": "x"}]}, "not the id"),
        ({"keys": [{"id": "00000000"}]}, "no secret"),
        ({"keys": [{"key": "mk_x"}]}, "damaged"),
        ({"keys": [{"id": "00000000", "secrets": [{"sha256": "0"}]}]}, "64"),
        ({"keys": [{"id": "00000000", "colour": "red"}]}, "unknown member 'colour'"),
    ],
)
def test_invalid_files_are_refused_with_their_place(
    tmp_path: Path, document: Any, reason: str
) -> None:
    path = tmp_path / "keys.json"
    path.write_text(json.dumps(document))
    with pytest.raises(KeyStoreError, match=reason) as caught:
        open_keys(str(path))
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("text", ["yesterday", "2027-13-01", "2027-01-01T00:00:00", "", True, -1])
def test_times_without_a_meaning_are_refused(text: Any) -> None:
    with pytest.raises(InvalidKeyRecordError, match="RFC 3339"):
        seconds_of(text)


def test_durations() -> None:
    assert duration_of("30d") == 30 * 86400
    assert duration_of("90m") == 5400
    for text in ("1", "d", "1w", "-1d", "1.5h"):
        with pytest.raises(InvalidKeyRecordError):
            duration_of(text)


@pytest.mark.parametrize(
    "damage",
    [
        "groups = '{oops'",
        "groups = '{}'",
        "addresses = '[\"office\"]'",
        "referers = '[1]'",
        "own = '[]x'",
        "own = '7'",
        "own = '[]'",
        "own = '{\"layers\": 7}'",
        "own = '{\"services\": [7]}'",
        "own = '{\"area\": []}'",
    ],
)
def test_a_damaged_row_of_the_database_is_named(credentials: Credentials, damage: str) -> None:
    key = credentials.key(label="anna", groups=["town"])
    with closing(sqlite3.connect(credentials.keys)) as opened, opened:
        opened.execute(f"UPDATE keys SET {damage}")
    of_keys = identifier(credentials)
    with pytest.raises(KeyStoreError, match=f"the key '{key[3:11]}' is damaged"):
        list(of_keys.records())
    with pytest.raises(OverloadedError):
        of_keys.verify(shown(key), "")
