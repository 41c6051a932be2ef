"""The file that stores a token between runs and shares it with other tools."""

from __future__ import annotations

import logging

from mastaba.api.documents import read_local_text
from mastaba.api.storages import replaced_file
from mastaba.errors import reason_of

logger = logging.getLogger(__name__)

_HEADER = "X-Auth-Token:"


def read_token(path: str) -> str | None:
    """Return the token from a file, which contains the bare token or a complete header line.

    Returns None if the file is absent, empty or unreadable. An unreadable file is logged.
    """
    try:
        line = read_local_text(path).partition("\n")[0].strip()
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        logger.warning("MASTABA_SWIFT_TOKEN_FILE: cannot read %s: %s", path, reason_of(error))
        return None
    token = line[len(_HEADER) :].strip() if line.lower().startswith(_HEADER.lower()) else line
    # The token becomes a request header, which must not contain anything else.
    is_token = token.isascii() and token.isprintable() and " " not in token
    return token if token and is_token else None


def write_token(path: str, token: str) -> None:
    """Replace the file atomically, readable only by its owner. A failure is logged."""
    try:
        with replaced_file(path) as file:
            file.write(f"{_HEADER} {token}\n".encode("ascii"))
    except OSError as error:
        logger.warning("MASTABA_SWIFT_TOKEN_FILE: cannot write %s: %s", path, reason_of(error))
