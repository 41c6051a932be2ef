"""An application that answers every request with one kept document."""

from __future__ import annotations

from typing import Any

from mastaba.web.body import KeptBody
from mastaba.web.response import Response


class KeptDocument:
    """An application whose document is sent without a WSGI call."""

    def __init__(self, body: bytes) -> None:
        self.body = KeptBody(body)

    def stored_tile(self, path: str, query: str, headers: Any) -> Response:
        headers = [("Content-Length", str(len(self.body.data)))]
        return Response(200, headers, self.body.data, self.body)
