"""Files with credentials."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mastaba_access.identifiers.passwords import PasswordHash
from mastaba_access.keystore.form import new_id, new_key
from mastaba_access.keystore.opening import open_keys
from mastaba_access.keystore.record import record_from

SECRETS = "new 0123456789abcdef0123456789abcdef\nold ffffffffffffffffffffffffffffffff\n"


class Credentials:
    """A store of keys, a file of secrets and a file of users in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.keys = folder / "keys.sqlite"
        self.secrets = folder / "secrets"
        self.users = folder / "users"
        self.secrets.write_text(SECRETS)
        self.secrets.chmod(0o600)
        self.store = open_keys(str(self.keys), create=True)

    def key(self, **members: Any) -> str:
        key = new_key(new_id())
        self.store.save([record_from({"key": key, **members})], "created")
        return key

    def user(self, name: str, password: str) -> None:
        # Cheap parameters: the tests are not about the cost.
        salt = os.urandom(16)
        empty = PasswordHash(2, 8, 1, salt, b"")
        line = f"{name}:{PasswordHash(2, 8, 1, salt, empty.computed(password))}\n"
        with self.users.open("a") as stream:
            stream.write(line)

    def section(self, **members: Any) -> Mapping[str, Any]:
        """Return a section ``plugins.access`` with all files that exist."""
        files = {"keys": self.keys, "secret_file": self.secrets, "users": self.users}
        present = {name: str(path) for name, path in files.items() if path.exists()}
        return {**present, **members}


@pytest.fixture
def credentials(tmp_path: Path) -> Credentials:
    return Credentials(tmp_path)
