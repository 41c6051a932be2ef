"""The application of a site with views: each request is answered by the services of one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from mastaba.errors import AccessError, UnknownPathError, public_message
from mastaba.services.addresses import TilePaths, TileQueries
from mastaba.services.base import Service, Site
from mastaba.services.statuses import status_of
from mastaba.site.site_application import Routes, SiteApplication, StartResponse
from mastaba.site.tile_table import (
    AllHeaders,
    AroundDocument,
    AroundTiles,
    Form,
    Known,
    TileTable,
    Wrap,
    forms_of,
    known,
)
from mastaba_server.access.caching import secure
from mastaba_server.access.door import IN_PATH, VISIT, Visit
from mastaba_server.access.gate import Meter, Spending
from mastaba_server.access.principal import GRANT, Grant
from mastaba_server.access.refusals import let_wait, refusal_headers
from mastaba_server.web.cors import CrossOrigin
from mastaba_server.web.request import Request
from mastaba_server.web.response import ADDRESSES, DOCUMENT, Headers, Response, plain_error
from mastaba_server.web.text import utf8


class GuardedApplication:
    """The WSGI application of a site with a gate, virtual services or meters.

    Args:
        site: with everything that is published.
        meters: count what the table answers.
    """

    def __init__(self, site: Site, meters: Sequence[Meter] = ()) -> None:
        self._site = site
        self._meters = meters
        self._table: GuardedTileTable | None = None
        self._virtual = {
            root: name
            for name, one in site.catalogue.virtual.items()
            for root in (one.root_path, *(item.root_path for item in one.services.values()))
        }
        self.roots = site.roots
        self.depths = sorted({path.count("/") for path in self.roots}, reverse=True)

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
        visit: Visit | None = environ.get(VISIT)
        tag = "" if visit is None else visit.grant.tag
        name = self.virtual_of(path if path.isascii() else utf8(path))
        environ["mastaba.virtual"] = name  # for middleware and meters
        return self.of(tag, name)(environ, start_response)

    def of(self, tag: str, virtual: str) -> ViewApplication:
        """Return the application of a view."""
        view = self._site.view(tag, virtual)
        if view.application is None:
            view.application = ViewApplication(view, self._table, tag)
        found: ViewApplication = view.application
        return found

    def virtual_of(self, path: str) -> str:
        """Return the virtual service that answers a path; empty for the main services."""
        if self._virtual:
            segments = path.split("/")
            for depth in self.depths:
                root = "/".join(segments[: depth + 1])
                if root in self.roots:
                    return self._virtual.get(root, "")
        return ""

    def tile_table(
        self,
        around: Sequence[AroundTiles] = (),
        around_documents: Sequence[AroundDocument] | None = (),
    ) -> GuardedTileTable | None:
        """Return the table of the stored tiles; None while services are turned off."""
        if self._site.catalogue.settings.enabled:
            self._table = GuardedTileTable(self._site, self, self._meters, around, around_documents)
            self._site.views.closed = self._table.forget
        return self._table


class ViewApplication(SiteApplication):
    """The WSGI application of one view.

    Args:
        view: what is published.
        table: keeps its documents.
        tag: of the class of clients that sees it.
    """

    def __init__(self, view: Site, table: TileTable | None, tag: str) -> None:
        super().__init__(view)
        self._table, self._tag = table, tag
        self._before = None if view.gate is None else self._spend

    def _spend(self, request: Request, service: Service) -> None:
        """Take the cost of a request from the rates of its client, if it is limited."""
        gate = self.site.gate
        grant = request.environ.get(GRANT)
        if gate is None or gate.rates is None or not isinstance(grant, Grant):
            return
        cost = service.cost(request)
        if cost:
            spending = Spending(
                service.name,
                self.site.virtual,
                service.ability_of(request),
                request.path,
                service.query_of(request),
            )
            gate.rates.spend(grant, request.environ, spending, cost)

    def _cross_origins(self) -> dict[str, CrossOrigin | None]:
        return _CrossOrigins(self.site)

    def _routes_of(self, site: Site) -> Routes:
        return _ViewRoutes(site)

    def _answer(self, environ: dict[str, Any]) -> Response:
        grant, method = environ.get(GRANT), environ["REQUEST_METHOD"]
        error = grant if isinstance(grant, Exception) and method != "OPTIONS" else None
        if error is None and IN_PATH not in environ:
            return super()._answer(environ)
        path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
        service, below = self._routes.find(utf8(path).removesuffix("/"))
        if service is None or IN_PATH in environ or not service.sees_refusals:
            let_wait(error, environ)
        if service is None:
            if error is None:
                return super()._answer(environ)
            report = plain_error(status_of(error), "Refused", public_message(error))
            return self._with_status_of(error, report, environ)
        if IN_PATH in environ and not service.takes_credential_at(below):
            # For everybody, whatever the credential is. The segment keeps the path from being bare.
            error, below = UnknownPathError("there is nothing at this path"), f"/~{below}"
        elif error is None or service.sees_refusals:
            return super()._answer(environ)
        environ["mastaba.service"] = service.name, below
        query = environ.get("QUERY_STRING", "")
        request = Request("GET" if method == "HEAD" else method, below, query, environ)
        return self._report(error, request, service)

    def _report(self, error: Exception, request: Request, service: Service) -> Response:
        principal = getattr(request.environ.get(GRANT), "principal", None)
        is_known = principal is not None and not principal.is_anonymous
        if isinstance(error, AccessError) and error.status == 401 and is_known:
            # Before the report is written: it may contain the status.
            more = error.challenges, error.retry_after, error.headers
            error = AccessError(str(error), 403, *more)
        return super()._report(error, request, service)

    def _with_status_of(
        self, error: Exception, report: Response, environ: Mapping[str, Any]
    ) -> Response:
        if not isinstance(error, AccessError):
            return super()._with_status_of(error, report, environ)
        report.status = error.status
        report.headers += refusal_headers(error, report.status, self.site.gate, environ)
        return report

    def headers_of_tiles(self, service: Service) -> AllHeaders:
        """Return what completes the headers of stored tiles, which contain no addresses."""
        return partial(super()._all_headers, self._cors[service.name])

    def _all_headers(
        self, cors: CrossOrigin | None, response: Response, environ: Mapping[str, Any]
    ) -> Headers:
        visit: Visit | None = environ.get(VISIT)
        if visit is not None and self.site.gate is not None:
            visit.addresses.write(response)
            secure(response, visit, self.site.gate.vary, is_document=DOCUMENT in environ)
        return super()._all_headers(cors, response, environ)


class _ViewRoutes(Routes):
    """The routes to the services of a view, which are opened when they are found."""

    def __init__(self, view: Site) -> None:
        found = view.catalogue.services.items()
        super().__init__([_Closed.of(view.plugins.services[name], one) for name, one in found])
        self._view = view

    def find(self, path: str) -> tuple[Service | None, str]:
        service, below = super().find(path)
        return None if service is None else self._view.services[service.name], below


@dataclass(frozen=True, slots=True)
class _Closed:
    """What routes need to know about a service."""

    name: str
    rank: int
    is_fallback: bool
    fallback_paths: frozenset[str]
    settings: Any

    @classmethod
    def of(cls, kind: type[Service], settings: Any) -> Any:
        return cls(kind.name, kind.rank, kind.is_fallback, kind.fallback_paths, settings)


class _CrossOrigins(dict[str, "CrossOrigin | None"]):
    """The origins of services of a view, which are opened when they are asked for."""

    def __init__(self, view: Site) -> None:
        super().__init__()
        self._view = view

    def __missing__(self, name: str) -> CrossOrigin | None:
        found = self[name] = self._view.services[name].cross_origin or None
        return found

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self._view.services else default


@dataclass(eq=False, slots=True)
class _Guarded(Known):
    """Tiles with one base, as the service that publishes everything has them."""

    service: str = ""
    kind: type = object
    address: Any = None
    wraps: Sequence[Wrap] = ()
    virtual: str = ""


class GuardedTileTable(TileTable):
    """The stored tiles of a site and of its views.

    What an address means is known once, from the services that publish everything. What a class
    of clients gets there is decided once for each class.
    """

    def __init__(
        self,
        site: Site,
        application: GuardedApplication,
        meters: Sequence[Meter] = (),
        around: Sequence[AroundTiles] = (),
        around_documents: Sequence[AroundDocument] | None = (),
    ) -> None:
        self._site = site
        self._application = application
        self._meters = meters
        self._gate = site.gate
        self._vary = () if site.gate is None else site.gate.vary
        self._main = Routes(site.services.values())
        self._decided: dict[str, dict[Known, Known | None]] = {}
        # For each internal path of a virtual service, the one of the main service.
        self._virtual = {
            settings.root_path: (site.services[name].settings.root_path, virtual)
            for virtual, one in site.catalogue.virtual.items()
            for name, settings in one.services.items()
            if name in site.services
        }
        super().__init__(
            site,
            self._find_main,
            lambda _service: lambda response, _: response.headers,
            around,
            around_documents,
        )
        self._roots += self._virtual

    def visit(
        self, path: str, query: str, headers: Mapping[str, Any], visit: Visit | None
    ) -> Response | None:
        """Return the response to a GET request of a visit, None without a gate; see `answer`."""
        tag = "" if visit is None else visit.grant.tag
        if query:
            table = self._by_query.get(path)
            found = None if table is None else table.find(query)
        else:
            found = self._find_path(path)
        if found is None:
            return self._visited_document(path, query, headers, visit)
        guarded: Any  # a _Guarded: to assert that would cost a call for each tile
        guarded, row, column = found
        try:
            decided = self._decided[tag][guarded]
        except KeyError:
            decided = self._decide(tag, guarded)
        if decided is None:
            return None
        group = decided.group
        if group.last_row is not None:
            row = group.last_row - row
        if group.accepts is not None:
            accepted = headers.get("HTTP_ACCEPT")
            if accepted and not group.accepts(accepted):
                return None
        rates = None if self._gate is None else self._gate.rates
        service, virtual = guarded.service, guarded.virtual
        if rates is not None and visit is not None:
            is_left = rates.take(visit.grant, headers, group, service, virtual)
            if not is_left:
                return None  # it is refused again, and reported, on the general path
        response = None
        state = self._scoreboard.begin()
        try:
            response = group.tiles.find(headers, row, column)
        finally:
            self._scoreboard.end(state, answered=response is not None)
        if response is not None:
            if visit is not None and visit.is_private:
                secure(response, visit, self._vary, is_document=False)
            response.headers = decided.all_headers(response, headers)
            for meter in self._meters:
                grant = None if visit is None else visit.grant
                meter.tile(grant, group, response, service, virtual, (row, column))
        return response

    def forget(self) -> None:
        """Forget what classes of clients get: some views were closed."""
        self._documents.clear()
        self._decided = {}

    def _visited_document(
        self, path: str, query: str, headers: Mapping[str, Any], visit: Visit | None
    ) -> Response | None:
        sent, grant = headers, None if visit is None else visit.grant
        tag = "" if grant is None else grant.tag
        if (path, query, tag) not in self._documents:
            return None
        if visit is not None:
            sent = {**headers, VISIT: visit, DOCUMENT: None, ADDRESSES: visit.addresses}
        response = self._document(path, query, sent, tag)
        rates = None if self._gate is None else self._gate.rates
        if response is not None and (self._meters or rates is not None):
            service, _ = self._find_main(path)
            name, virtual = service.name if service else "", self._application.virtual_of(path)
            if rates is not None and grant is not None:
                is_left = rates.take(grant, headers, None, name, virtual)
                if not is_left:
                    return None
            for meter in self._meters:
                meter.tile(grant, None, response, name, virtual)
        return response

    def _find_main(self, path: str) -> tuple[Service | None, str]:
        segments = path.split("/")  # as many as a client chooses
        for depth in self._application.depths:
            root = "/".join(segments[: depth + 1])
            if root in self._virtual:
                main, _ = self._virtual[root]
                service, _ = self._main.find(main)
                return service, path[len(root) :]
            if root in self._application.roots:
                break
        return self._main.find(path)

    def _finder(
        self, service: Service, form: Form, wraps: Sequence[Wrap], all_headers: AllHeaders
    ) -> Callable[[Any], Known | None]:
        def find(address: Any, virtual: str = "") -> Known | None:
            found = known(form.group, wraps, all_headers, address)
            if found is None:
                return None
            return _Guarded(
                found.group, all_headers, service.name, type(form), address, wraps, virtual
            )

        return find

    def _add_queries(self, root: str, form: TileQueries, find: Callable[..., Known | None]) -> None:
        super()._add_queries(root, form, find)
        for path, (main, virtual) in self._virtual.items():
            if main == root:
                super()._add_queries(path, form, partial(find, virtual=virtual))

    def _open_path(self, base: str, path: str) -> Known | None:
        found = super()._open_path(base, path)
        virtual = self._application.virtual_of(path)
        if virtual and isinstance(found, _Guarded):
            found = self._by_path[base] = replace(found, virtual=virtual)
        return found

    def _decide(self, tag: str, found: Known) -> Known | None:
        """Return what a class of clients gets at an address, and remember it."""
        assert isinstance(found, _Guarded)
        application = self._application.of(tag, found.virtual)
        view, main, decided = application.site, self._site, None
        settings = view.catalogue.services.get(found.service)
        if settings is not None:
            service, name = view.services[found.service], found.group.layer
            before = main.catalogue.services[found.service]
            same = replace(settings, endpoint_uri=before.endpoint_uri, root_path=before.root_path)
            layer = view.catalogue.layers.get(name)
            if (
                layer is not None
                and layer is main.catalogue.layers.get(name)
                and view.catalogue.readers[name] is main.catalogue.readers[name]
                and view.catalogue.settings == main.catalogue.settings
                and same == before
            ):
                decided = Known(found.group, application.headers_of_tiles(service))
            else:
                decided = self._own(found, service, application.headers_of_tiles(service))
        self._decided.setdefault(tag, {})[found] = decided
        return decided

    def _own(self, found: _Guarded, service: Service, all_headers: AllHeaders) -> Known | None:
        """Return what the service of a view has at an address."""
        for form in forms_of(service):
            if isinstance(form, TilePaths | TileQueries) and type(form) is found.kind:
                own = known(form.group, found.wraps, all_headers, found.address)
                before = found.group
                if own is None or (own.group.column_first, own.group.endings) != (
                    before.column_first,
                    before.endings,
                ):
                    return None
                return own
        return None
