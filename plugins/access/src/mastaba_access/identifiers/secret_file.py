"""The file with the secrets that sign addresses."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from typing import Final

from mastaba.api.documents import read_local_text
from mastaba.errors import MastabaError, reason_of

_ID: Final = re.compile(r"[A-Za-z0-9_.-]{1,32}")
_SHORTEST: Final = 32


class SecretFileError(MastabaError):
    """The file cannot be used; the message says why, without a secret."""


@dataclass(frozen=True, slots=True)
class Secrets:
    """Secrets by id.

    Attributes:
        by_id: keys of the HMAC.
        first: id of the secret that signs.
    """

    by_id: dict[str, bytes]
    first: str

    def __repr__(self) -> str:
        return f"Secrets({', '.join(self.by_id)})"


def read_secrets(path: str) -> Secrets:
    """Read a file of secrets: lines ``ID SECRET``. Empty lines and comments (#) are skipped.

    Raises:
        SecretFileError: it cannot be read, others may read it, or a line is wrong.
    """
    try:
        mode = os.stat(path).st_mode
        text = read_local_text(path)
    except OSError as error:
        raise SecretFileError(f"{path} cannot be read: {reason_of(error)}") from error
    except ValueError as error:
        raise SecretFileError(f"{path} {error}") from error
    if stat.S_IMODE(mode) & 0o077:
        raise SecretFileError(f"{path} can be read or written by others; set its mode to 0600")
    found: dict[str, bytes] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        place = f"{path}, line {number}"
        if len(words) != 2 or not _ID.fullmatch(words[0]):
            raise SecretFileError(f"{place}: a line contains an id and a secret")
        if len(words[1]) < _SHORTEST:
            raise SecretFileError(f"{place}: the secret is shorter than {_SHORTEST} characters")
        if words[0] in found:
            raise SecretFileError(f"{place}: the id {words[0]} is there twice")
        found[words[0]] = words[1].encode()
    if not found:
        raise SecretFileError(f"{path} contains no secret")
    return Secrets(found, next(iter(found)))
