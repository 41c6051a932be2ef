"""The file that stores a token between runs and shares it with other tools."""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile

logger = logging.getLogger(__name__)

_HEADER = "X-Auth-Token:"


def read_token(path: str) -> str | None:
    """Return the token from a file, which contains the bare token or a complete header line.

    Returns None if the file is absent, empty or unreadable. An unreadable file is logged.
    """
    try:
        with open(path, encoding="ascii") as file:
            line = file.readline().strip()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        logger.warning("MASTABA_SWIFT_TOKEN_FILE: cannot read %s: %s", path, _reason(error))
        return None
    token = line[len(_HEADER) :].strip() if line.lower().startswith(_HEADER.lower()) else line
    # The token becomes a request header: reject anything that could inject other content.
    return token if token and token.isprintable() and " " not in token else None


def write_token(path: str, token: str) -> None:
    """Replace the file atomically, readable only by its owner. A failure is logged."""
    fresh = None
    try:
        descriptor, fresh = tempfile.mkstemp(prefix=".token-", dir=os.path.dirname(path) or ".")
        with open(descriptor, "w", encoding="ascii") as file:
            file.write(f"{_HEADER} {token}\n")
        os.replace(fresh, path)
    except OSError as error:
        logger.warning("MASTABA_SWIFT_TOKEN_FILE: cannot write %s: %s", path, _reason(error))
        if fresh is not None:
            with contextlib.suppress(OSError):
                os.unlink(fresh)


def _reason(error: Exception) -> str:
    return str(error.strerror) if isinstance(error, OSError) else "it is not ASCII text"
