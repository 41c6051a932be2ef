"""An application that answers every request with one document, without a WSGI call."""

from __future__ import annotations

from typing import Any

from mastaba.web.response import Response


class QuickDocument:
    """An application whose document is sent without a WSGI call."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    def stored_tile(self, path: str, query: str, headers: Any) -> Response:
        return Response(200, [("Content-Length", str(len(self.body)))], self.body)
