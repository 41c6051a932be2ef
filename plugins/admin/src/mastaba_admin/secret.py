"""The shared secret that every administration request must contain."""

from __future__ import annotations

import hmac
from typing import Final

from mastaba.api.web import Request

HEADERS: Final = ("X-Mastaba-Secret", "X-Rok4-Secret")
"""Either header may contain the secret."""


def shows_secret(request: Request, secret: str) -> bool:
    """Return whether a request contains the secret; True if the secret is empty.

    Both headers are always compared, in constant time, to reveal nothing about the secret.
    """
    shown = [(request.header(name) or "").encode("latin-1", "replace") for name in HEADERS]
    matches = [hmac.compare_digest(secret.encode(), text) for text in shown]
    return not secret or any(matches)
