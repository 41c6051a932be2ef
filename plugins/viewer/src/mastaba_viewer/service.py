"""The service: what lies at which path."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from mastaba.errors import RequestError, UnknownPathError
from mastaba.http.app import public_message
from mastaba.http.response import message
from mastaba.service import Service
from mastaba_viewer.assets import assets
from mastaba_viewer.description import layers_document
from mastaba_viewer.endpoints import origins
from mastaba_viewer.page import page

if TYPE_CHECKING:
    from mastaba.http.request import Request
    from mastaba.http.response import Document, Response


class Viewer(Service):
    """A page with a map of the published layers."""

    name: ClassVar[str] = "viewer"
    title: ClassVar[str] = "Map viewer"

    def respond(self, request: Request) -> Response:
        """Return the page, its data or one of its files.

        Raises:
            UnknownPathError: there is no such file.
        """
        if request.path == "":
            document = self._page
        elif request.path == "/layers.json":
            document = self._layers
        else:
            found = assets().get(request.path)
            if found is None:
                raise UnknownPathError("Nothing is at this address")
            document = found
        return self._secured(document.respond(request))

    def error_response(self, error: Exception, request: Request) -> Response:
        status = 404 if isinstance(error, RequestError) else 500
        return self._secured(message(status, public_message(error), "text/plain; charset=utf-8"))

    @cached_property
    def _page(self) -> Document:
        return page(self.settings, self.published_layers())

    @cached_property
    def _layers(self) -> Document:
        return layers_document(self.published_layers(), self.site.services)

    @cached_property
    def _policy(self) -> str:
        """The Content-Security-Policy: own files, and tiles from where the services say."""
        sources = " ".join(("'self'", *origins(self.site.services)))
        return (
            "default-src 'none'; script-src 'self'; style-src 'self'; "
            f"img-src {sources}; connect-src {sources}; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
        )

    def _secured(self, response: Response) -> Response:
        response.headers += [
            ("Content-Security-Policy", self._policy),
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "same-origin"),
            # Files have no version in their name: the ETag tells whether they are still good.
            ("Cache-Control", "no-cache"),
        ]
        return response
