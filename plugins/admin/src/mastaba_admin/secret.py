"""The shared secret that every administration request must contain."""

from __future__ import annotations

import hmac
from typing import Final

from mastaba.web.request import Request

HEADERS: Final = ("X-Mastaba-Secret", "X-Rok4-Secret")
"""Either header may contain the secret."""


class Secret:
    """Compares in constant time, to reveal nothing about the secret.

    Args:
        text: the secret; empty if requests need none.
    """

    def __init__(self, text: str) -> None:
        self._expected = text.encode()

    def is_shown_by(self, request: Request) -> bool:
        """Return whether a request is authorised."""
        if not self._expected:
            return True
        # Always compare both headers.
        matches = [
            hmac.compare_digest(
                self._expected, (request.header(name) or "").encode("latin-1", "replace")
            )
            for name in HEADERS
        ]
        return any(matches)
