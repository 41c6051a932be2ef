"""An application that answers every request with one document, without a WSGI call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mastaba_server.messages import Headers


@dataclass(frozen=True)
class Answer:
    """A `mastaba_server.messages.Answer`."""

    status: int
    headers: Headers
    body: bytes


class QuickDocument:
    """An application whose document is sent without a WSGI call."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    def stored_tile(self, path: str, query: str, headers: Any) -> Answer:
        return Answer(200, [("Content-Length", str(len(self.body)))], self.body)
