"""The path of each request: the entrance, and the application of a site with its services."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from mastaba.errors import (
    ClientGoneError,
    NotAcceptableError,
    OverloadedError,
    RequestError,
    SlabFormatError,
    StorageError,
    TileNotFoundError,
    public_message,
)
from mastaba.model.settings import CachingSettings
from mastaba.model.surrogate_keys import DOCUMENTS_KEY, SURROGATE_KEY
from mastaba.services.base import Service, Site
from mastaba.services.root import for_people
from mastaba.site.tile_table import AllHeaders, AroundDocument, AroundTiles, TileTable
from mastaba_server import cancellation
from mastaba_server.errors import MovedError
from mastaba_server.log.access_lines import FindTile, WSGICallable
from mastaba_server.messages import CLIENT, CLIENT_GONE, STATUS_LINES
from mastaba_server.web.cors import CrossOrigin
from mastaba_server.web.masking import masked, masked_path
from mastaba_server.web.request import Request
from mastaba_server.web.response import DOCUMENT, Headers, Response, moved, plain_error
from mastaba_server.web.text import utf8

logger = logging.getLogger("mastaba.request")

_NO_SERVICE = ("", "")
_RETRY_STORAGE = "10"
"""Seconds after which another attempt makes sense when a storage has failed."""

StartResponse = Callable[[str, Headers], Any]


class Entrance:
    """The object that WSGI servers call. What is behind it can be swapped at any time.

    The site with which a request began serves it to the end.
    """

    _entry: WSGICallable
    _find_tile: FindTile | None

    def stored_tile(self, path: str, query: str, headers: Mapping[str, Any]) -> Response | None:
        """Return the response to a GET request for a stored tile; None for anything else.

        For transports: without a WSGI call, and the same. See `TileTable.answer`.
        """
        find = self._find_tile
        return None if find is None else find(path, query, headers)

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        return self._entry(environ, start_response)


class Routes:
    """The services of a site by root path.

    Of services with the same root path, the one with the lowest `Service.rank` answers; a fallback
    service gives way to all others.
    """

    def __init__(self, services: Iterable[Service]) -> None:
        self._services: dict[str, Service] = {}
        for service in sorted(services, key=lambda item: (item.is_fallback, item.rank, item.name)):
            self._services.setdefault(service.settings.root_path, service)
        self._depths = sorted({path.count("/") for path in self._services}, reverse=True)

    def find(self, path: str) -> tuple[Service | None, str]:
        """Return the service that answers a path, or None, and the path below its root path.

        It is the service with the longest root path on whole segments.

        Args:
            path: decoded, without a final slash.
        """
        segments = path.split("/")
        for depth in self._depths:
            root_path = "/".join(segments[: depth + 1])
            service = self._services.get(root_path)
            if service is not None:
                below = path[len(root_path) :]
                if service.is_fallback and below not in service.fallback_paths:
                    break
                return service, below
        return None, path


class SiteApplication:
    """The WSGI application of one site."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self._scoreboard = site.scoreboard
        self._timeout = site.request_timeout
        settings = site.catalogue.settings
        self._cors = self._cross_origins()
        self._cors_elsewhere = CrossOrigin(settings.cors) or None
        self._headers: Headers = []
        if settings.generation_headers:
            self._headers.append(("Mastaba-Generation", site.catalogue.generation))
        self._routes = self._routes_of(site)
        self._table: TileTable | None = None
        self._tag = ""
        self._before: Callable[[Request, Service], None] | None = None
        self._document_headers = _document_headers(settings.caching)

    def _cross_origins(self) -> dict[str, CrossOrigin | None]:
        return {one.name: one.cross_origin or None for one in self.site.services.values()}

    def _routes_of(self, site: Site) -> Routes:
        return Routes(site.services.values())

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        scoreboard = self._scoreboard
        row = scoreboard.begin()
        cancellation.begin(environ.get(CLIENT), self._timeout, row, environ)
        try:
            response = self._answer(environ)
            service = environ.get("mastaba.service", _NO_SERVICE)[0]
            cors = self._cors.get(service, self._cors_elsewhere)
            headers, body = self._all_headers(cors, response, environ), response.body
            start_response(STATUS_LINES[response.status], headers)
            if isinstance(body, bytes):
                return [] if environ["REQUEST_METHOD"] == "HEAD" or not body else [body]
            if environ["REQUEST_METHOD"] != "HEAD":
                return body
            body.close()
            return []
        finally:
            cancellation.end()
            scoreboard.end(row)

    def tile_table(
        self,
        around: Sequence[AroundTiles] = (),
        around_documents: Sequence[AroundDocument] | None = (),
    ) -> TileTable | None:
        """Return the table of the stored tiles; None while services are turned off."""
        if not self.site.catalogue.settings.enabled:
            return None
        self._table = TileTable(
            self.site, self._routes.find, self.headers_of, around, around_documents
        )
        return self._table

    def headers_of(self, service: Service) -> AllHeaders:
        """Return what completes the headers of the responses of a service."""
        return partial(self._all_headers, self._cors[service.name])

    def _all_headers(
        self, cors: CrossOrigin | None, response: Response, environ: Mapping[str, Any]
    ) -> Headers:
        """Return the headers of a response with those that no service adds itself."""
        # A copy: a service may send the same response again.
        headers = response.headers + self._headers
        if cors is not None:
            headers += cors.headers(environ)
        if response.status not in (204, 304):
            headers.append(("Content-Length", str(len(response.body))))
        return headers

    def _answer(self, environ: dict[str, Any]) -> Response:
        path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
        if not path.isascii():
            path = utf8(path)
        if path.endswith("/"):
            path = path[:-1]
        method: str = environ["REQUEST_METHOD"]
        query: str = environ.get("QUERY_STRING", "")
        service, below = self._routes.find(path)
        if service is None:
            reason = "Unknown request path"
            request = Request("GET" if method == "HEAD" else method, path, query, environ)
            report = plain_error(404, "Not Found", reason)
            return for_people(report, reason, request, self.site, None)
        # For middleware: who answers, and the path below its root path.
        environ["mastaba.service"] = service.name, below
        request = Request("GET" if method == "HEAD" else method, below, query, environ)
        if not (service.always_on or self.site.catalogue.settings.enabled):
            return plain_error(503, "Service unavailable", "The services are turned off")
        if request.method not in service.allowed_methods:
            return self._other_method(request, service)
        try:
            if self._before is not None:
                self._before(request, service)
            response = service.respond(request)
            if DOCUMENT in environ and response.status in (200, 304):
                self._document(response, service)
                if self._table and service.is_viewed and (answer := environ[DOCUMENT]):
                    self._table.add_document(
                        environ,
                        lambda sent: self._document(answer(sent), service),
                        self.headers_of(service),
                        self._tag,
                    )
            if response.status not in STATUS_LINES:
                raise ValueError(f"{response.status} is not an HTTP status")
            return response
        except Exception as error:  # noqa: BLE001 - the last line of defence: nothing escapes
            return self._report(error, request, service)

    def _document(self, response: Response, service: Service) -> Response:
        """Add the headers for caches; a service may have added its own."""
        if not service.always_on:
            present = {name for name, _ in response.headers}
            response.headers += [item for item in self._document_headers if item[0] not in present]
        return response

    def _other_method(self, request: Request, service: Service) -> Response:
        allowed = ", ".join(dict.fromkeys(("HEAD", "OPTIONS", *service.allowed_methods)))
        if request.method != "OPTIONS":
            response = plain_error(405, "Method Not Allowed", "The method is not allowed here")
            response.headers.append(("Allow", allowed))
            return response
        fields: Headers = [("Allow", allowed)]
        fields += service.cross_origin.preflight(request.environ, allowed)
        return Response(204, fields)

    def _report(self, error: Exception, request: Request, service: Service) -> Response:
        if isinstance(error, ClientGoneError):
            return Response(CLIENT_GONE, [])
        if isinstance(error, MovedError):
            found = moved(request, service.settings.endpoint_uri, error.before, error.after)
            if found is not None:
                return found
        if isinstance(error, StorageError | SlabFormatError):
            logger.error("%s: %s", _described(request, service), error)
        elif not isinstance(error, RequestError | OverloadedError):
            logger.error("%s failed", _described(request, service), exc_info=error)
        try:
            report = service.error_response(error, request)
            report = self._with_status_of(error, report, request.environ)
            if isinstance(error, TileNotFoundError | NotAcceptableError):
                report.headers += error.headers
            return for_people(report, public_message(error), request, self.site, service)
        except Exception as second:
            logger.error(
                "%s: the error cannot be reported", _described(request, service), exc_info=second
            )
            return plain_error(500, "Internal issue", "Routing error")

    def _with_status_of(
        self, error: Exception, report: Response, environ: Mapping[str, Any]
    ) -> Response:
        """Return a report with the status that an error has in every protocol, if it has one.

        A report that is not an HTTP error, such as an image, is unchanged.
        """
        if report.status >= 400 and isinstance(error, OverloadedError):
            report.status = 503
            report.headers.append(("Retry-After", str(error.retry_after)))
        elif report.status == 503 and isinstance(error, StorageError):
            report.headers.append(("Retry-After", _RETRY_STORAGE))
        return report


def _document_headers(caching: CachingSettings) -> Headers:
    headers = []
    if caching.documents:
        headers.append(("Cache-Control", caching.documents))
    if caching.surrogate_keys:
        headers.append((SURROGATE_KEY, DOCUMENTS_KEY))
    return headers


def _described(request: Request, service: Service) -> str:
    query = f"?{masked(request.query_string)}" if request.query_string else ""
    path = masked_path(service.settings.root_path + request.path)
    return f"{request.method} {path}{query}"[:2000]
