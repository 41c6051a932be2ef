"""Keys in a file, or in a directory with one file per key. Read again when they change."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

from mastaba.api.documents import Faults, parse_document, read_local_text
from mastaba.errors import reason_of
from mastaba_access.keystore.base import KeyEvent, KeyStore
from mastaba_access.keystore.errors import InvalidKeyRecordError, KeyStoreError
from mastaba_access.keystore.files import alone, state_of, write_private
from mastaba_access.keystore.form import PREFIX
from mastaba_access.keystore.record import KeyRecord, record_from

_EXTENSIONS: Final = (".json", ".yaml", ".yml")
_CHECK: Final = 1.0
"""Seconds between two checks of the files."""
_MOST_FILES: Final = 100_000


class _DocumentKeys(KeyStore):
    """Keys in memory, read from files.

    A file that becomes invalid keeps what was read before; one that is invalid at the start stops
    it.

    Args:
        path: of the file or directory.
        create: whether it may be absent, because a key will be written.
    """

    def __init__(self, path: str, *, create: bool = False) -> None:
        self._path = path
        self._may_be_absent = create
        self._lock = threading.Lock()
        self._checked = time.monotonic()
        self._signature = self._current_signature()
        self._polled = self._signature
        self._records = self._stored()
        self._reported = self._records
        self._events: Sequence[KeyEvent] = ()

    def find(self, key_id: str) -> KeyRecord | None:
        self._refresh()
        return self._records.get(key_id)

    def records(self) -> Iterator[KeyRecord]:
        self._refresh()
        yield from (record for _, record in sorted(self._records.items()))

    @contextmanager
    def changing(self) -> Iterator[None]:
        self._make_folder()
        # The inner lock also keeps `find` of other threads from replacing what is read here.
        with alone(self._lock_file()), self._lock:
            signature = self._current_signature()
            if signature is None or signature != self._signature:
                # What is damaged or absent must not be replaced by what was read before.
                self._records = self._stored()
                self._signature = signature
            yield

    def has_changed(self) -> bool:
        signature = self._current_signature()
        before, self._polled = self._polled, signature
        if before == signature:
            return False
        with suppress(KeyStoreError):
            found = self._read()
            self._events = _differences(self._reported, found)
            self._reported = found
        return True

    def new_events(self) -> Sequence[KeyEvent]:
        found, self._events = self._events, ()
        return found

    def _refresh(self) -> None:
        # At most one check per second, so that the cost of a lookup does not depend on files.
        if time.monotonic() - self._checked < _CHECK:
            return
        # While keys are read again or changed, also by this thread, those in memory are valid.
        if not self._lock.acquire(blocking=False):
            return
        try:
            self._checked = time.monotonic()
            signature = self._current_signature()
            if signature != self._signature:
                # Keys are not lost because a file is being written. Tried again in a second.
                with suppress(KeyStoreError):
                    self._records = self._read()
                    self._signature = signature
                    self._may_be_absent = False
        finally:
            self._lock.release()

    def _stored(self) -> Mapping[str, KeyRecord]:
        """Return the keys; none if the store is still to be made. Raises KeyStoreError."""
        if self._may_be_absent:
            try:
                os.stat(self._path)
            except FileNotFoundError:
                return {}
            except OSError as error:
                raise KeyStoreError(f"{self._path} cannot be read: {reason_of(error)}") from error
        found = self._read()
        self._may_be_absent = False
        return found

    def _make_folder(self) -> None:
        """Make what contains the lock, if the store is new."""

    def _lock_file(self) -> str:
        raise NotImplementedError

    def _current_signature(self) -> Any:
        raise NotImplementedError

    def _read(self) -> Mapping[str, KeyRecord]:
        raise NotImplementedError


class FileKeys(_DocumentKeys):
    """Keys in one JSON or YAML file: ``{"keys": [...]}``."""

    def save(self, records: Sequence[KeyRecord], what: str) -> None:
        if not self._path.lower().endswith(".json"):
            reason = "commands do not write YAML, which may contain comments; edit the file"
            raise KeyStoreError(f"{self._path}: {reason}")
        found = {**self._records, **{record.id: record for record in records}}
        documents = [found[key].document(secrets=True) for key in sorted(found)]
        text = json.dumps({"keys": documents}, indent=2, ensure_ascii=False)
        self._signature = write_private(self._path, text)
        self._records = found
        self._may_be_absent = False

    def _lock_file(self) -> str:
        folder, name = os.path.split(self._path)
        return os.path.join(folder, f".{name}.lock")

    def _current_signature(self) -> Any:
        return state_of(self._path)

    def _read(self) -> Mapping[str, KeyRecord]:
        return keys_in(self._path)


class DirectoryKeys(_DocumentKeys):
    """Keys in a directory: documents (JSON, YAML), or files that contain the key itself.

    The latter is the form of secrets that Kubernetes mounts; the name of the file is the label.
    """

    def save(self, records: Sequence[KeyRecord], what: str) -> None:
        self._make_folder()
        states = dict(self._signature or ())
        for record in records:
            text = json.dumps(record.document(secrets=True), indent=2, ensure_ascii=False)
            name = f"{record.id}.json"
            states[name] = write_private(os.path.join(self._path, name), text)
        self._signature = tuple(sorted(states.items()))
        self._records = {**self._records, **{record.id: record for record in records}}
        self._may_be_absent = False

    def _make_folder(self) -> None:
        if self._may_be_absent:
            try:
                os.makedirs(self._path, mode=0o700, exist_ok=True)
            except OSError as error:
                reason = reason_of(error)
                raise KeyStoreError(f"{self._path} cannot be written: {reason}") from error

    def _lock_file(self) -> str:
        return os.path.join(self._path, ".lock")

    def _current_signature(self) -> Any:
        try:
            return tuple((name, state_of(path)) for name, path in self._files())
        except KeyStoreError:
            return None

    def _files(self) -> list[tuple[str, str]]:
        try:
            # Kubernetes keeps versions in hidden directories.
            names = sorted(name for name in os.listdir(self._path) if not name.startswith("."))
        except OSError as error:
            raise KeyStoreError(f"{self._path} cannot be read: {reason_of(error)}") from error
        if len(names) > _MOST_FILES:
            raise KeyStoreError(f"{self._path}: more than {_MOST_FILES:,} files; use a database")
        return [(name, os.path.join(self._path, name)) for name in names]

    def _read(self) -> Mapping[str, KeyRecord]:
        return _by_id((path, self._document(name, path)) for name, path in self._files())

    def _document(self, name: str, path: str) -> Any:
        if name.lower().endswith(_EXTENSIONS):
            return _document(path)
        text = _text(path).strip()
        if not text.startswith(PREFIX):
            raise KeyStoreError(f"{path}: the file contains no key")
        return {"key": text, "label": name}


def keys_in(path: str) -> Mapping[str, KeyRecord]:
    """Return the keys in a file, by id.

    Raises:
        KeyStoreError: it cannot be read, or contains something else or an invalid key.
    """
    document = _document(path)
    keys = document.get("keys") if isinstance(document, Mapping) else None
    if not isinstance(keys, list) or len(document) != 1:
        raise KeyStoreError(f'{path}: a file of keys contains {{"keys": [...]}} and nothing else')
    return _by_id((f"{path}: $.keys[{number}]", item) for number, item in enumerate(keys))


def _text(path: str) -> str:
    try:
        return read_local_text(path)
    except OSError as error:
        raise KeyStoreError(f"{path} cannot be read: {reason_of(error)}") from error
    except ValueError as error:
        raise KeyStoreError(f"{path} {error}") from error


def _document(path: str) -> Any:
    faults = Faults()
    document = parse_document(_text(path), path, faults)
    if document is None:
        raise KeyStoreError("; ".join(map(str, faults.errors)) or f"{path} is empty")
    return document


def _by_id(items: Iterator[tuple[str, Any]]) -> Mapping[str, KeyRecord]:
    found: dict[str, KeyRecord] = {}
    for place, document in items:
        try:
            record = record_from(document, 0.0)
        except InvalidKeyRecordError as error:
            raise KeyStoreError(f"{place}: {error}") from error
        if record.id in found:
            raise KeyStoreError(f"{place}: the key {record.id} is there twice")
        found[record.id] = record
    return found


def _differences(before: Mapping[str, KeyRecord], after: Mapping[str, KeyRecord]) -> list[KeyEvent]:
    """Return the events that lead from one state of the files to another."""
    found = []
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key), after.get(key)
        if old == new:
            continue
        if new is None:
            found.append(KeyEvent(None, key, "removed", {"id": key}))
        elif old is None:
            found.append(KeyEvent(None, key, "created", new.document()))
        else:
            is_revoked = new.revoked is not None and old.revoked is None
            what = "revoked" if is_revoked else "changed"
            found.append(KeyEvent(None, key, what, new.document()))
    return found
