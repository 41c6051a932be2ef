"""The service ``usage``: principals read their own usage, administrators that of all."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import TYPE_CHECKING, ClassVar, Final
from urllib.parse import quote

from mastaba.api.access import GRANT, Grant
from mastaba.api.documents import Fault, Severity
from mastaba.api.services import Service, ServiceSettings, Site
from mastaba.api.web import (
    Request,
    Response,
    message,
    spooled,
    status_of,
)
from mastaba.errors import (
    ConfigurationError,
    InvalidParameterError,
    UnknownPathError,
    public_message,
)
from mastaba_server.processes.scoreboard import Obstacle
from mastaba_server.web.large import while_wanted
from mastaba_server.web.pages import HTML, wants_page
from mastaba_server.web.pieces import csv_pieces, json_pieces
from mastaba_usage.database import NUMBERS, SLOT
from mastaba_usage.errors import UsageError
from mastaba_usage.heat import collection, of_one_level
from mastaba_usage.heat_tiles import tile, tile_of
from mastaba_usage.page import HEADERS, error_page, heat_page, usage_page
from mastaba_usage.process import counters
from mastaba_usage.reading import DEFAULT, columns, conditions, days, instant, time_span
from mastaba_usage.roll_up import run
from mastaba_usage.settings import UsageSettings

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer

logger = logging.getLogger("mastaba.usage")

_FLUSHED: Final = 20.0
"""Seconds after which counters are written to the disk."""
_COST: Final = 20
"""Of the rates of a client, for a query of the database."""

_HEAT: Final = "/heat/"
_SLOTS: Final = "/slots"
_JSON: Final = "application/json"
_PRIVATE = ("Cache-Control", "private, no-store")


class UsageService(Service):
    """Adds up the counters of all workers, and answers questions about them.

    Raises:
        ConfigurationError: ``plugins.usage.directory`` is missing or cannot be written.
    """

    name = "usage"
    title = "Usage"
    abilities: ClassVar[tuple[str, ...]] = ("usage",)
    parameters: ClassVar[frozenset[str]] = frozenset(("by", "f", "from", "level", "to", "where"))
    is_viewed: ClassVar[bool] = False
    always_on: ClassVar[bool] = True

    def __init__(self, settings: ServiceSettings, site: Site) -> None:
        super().__init__(settings, site)
        own = UsageSettings.of(site.plugin_settings.get("usage", {}))
        if own is None:
            raise _fault("is missing", "name a directory on a local disk")
        try:
            own.directory.mkdir(mode=0o750, parents=True, exist_ok=True)
        except OSError as error:
            raise _fault(f"cannot be created: {error.strerror}", "make it writable") from error
        self._own = own
        self._stop = threading.Event()

    def after_fork(self) -> None:
        self._stop = threading.Event()
        threading.Thread(target=self._flush, args=(self._stop,), daemon=True).start()

    def close(self) -> None:
        self._stop.set()

    def _flush(self, stop: threading.Event) -> None:
        """Write the counters of this process to the disk, and report if they have run out."""
        found = counters(self._own.directory)
        has_reported = False
        while not stop.wait(_FLUSHED):
            found.flush()
            if found.is_full != has_reported:
                has_reported = found.is_full
                self.site.scoreboard.report(Obstacle.CELLS, has_reported)

    def gauges(self) -> Mapping[str, Mapping[str, float]]:
        """Return hits and refusals of today by service, and the most used layers of yesterday."""
        today = datetime.now(UTC).date()
        yesterday = (today - timedelta(days=1)).isoformat()
        database, day = self._own.database, today.isoformat()
        try:
            hits = list(database.sums(day, day, ["service"]))
            limited = list(database.sums(day, day, ["service"], {"status": "limited"}))
            layers = list(database.sums(yesterday, yesterday, ["layer"])) if self._own.top else []
        except UsageError as error:
            logger.error("%s", error)
            return {}
        layers = sorted((row for row in layers if row["layer"]), key=itemgetter("hits"))
        return {
            "hits": {row["service"]: row["hits"] for row in hits},
            "limited": {row["service"]: row["hits"] for row in limited},
            "top": {row["layer"]: row["hits"] for row in layers[: -self._own.top - 1 : -1]},
        }

    def companions(self) -> Sequence[Callable[[], None]]:
        return [self._add_up]

    def _add_up(self) -> None:
        """Add up the counters of all workers, in a process of its own."""
        run(self._own.directory, self._own.database, self._own.retention)

    def takes_credential_at(self, path: str) -> bool:
        return True

    def cost(self, request: Request) -> int:
        return _COST

    def respond(self, request: Request) -> Response:
        """Return the usage of a period: in all, by 5 minutes or by area.

        Raises:
            UnknownPathError: there is nothing at the path, or the client is unknown.
            InvalidParameterError: a parameter is invalid.
            UsageError: the database cannot be read.
        """
        grant = request.environ.get(GRANT)
        if request.path.startswith(_HEAT):
            return self._heat_map(request, grant, request.path.removeprefix(_HEAT))
        if request.path not in ("", _SLOTS):
            raise UnknownPathError
        query = request.query
        try:
            first, last = days(query.get("from"), query.get("to"))
            by = columns(query.get("by", DEFAULT))
            where = conditions(filter(None, query.get("where", "").split(",")))
        except ValueError as error:
            raise InvalidParameterError(str(error), "query") from None
        who = ""
        if not _reads_all(grant):
            # Without a key there is nothing of one's own. Signed addresses are for others.
            if not isinstance(grant, Grant) or grant.principal.kind in ("anonymous", "signed"):
                raise UnknownPathError
            where["key"] = grant.principal.account
            who = grant.principal.label or grant.principal.id
        form = _form(request)
        if request.path:
            # Days without slots any more have none.
            given = query.get("from"), query.get("to")
            return self._slots(time_span(*given), where.get("key", ""))
        if form == "html":
            address = self._address(grant)
            layers = self.site.catalogue.layers if self._own.heat and not who else ()
            page = usage_page(self._own.database, address, (first, last), where, who, layers)
            headers = [("Content-Type", f"{HTML}; charset=utf-8"), _PRIVATE, *HEADERS]
            return Response(200, headers, page.encode())
        rows = self._own.database.sums(first, last, by, where)
        if form == "csv":
            return _answer(csv_pieces(rows, [*by, *NUMBERS]), "text/csv; charset=utf-8")
        return _answer(json_pieces({"from": first, "to": last}, "usage", rows))

    def _slots(self, span: tuple[float, float], key: str) -> Response:
        slots = (
            {"time": instant(start), "hits": hits, "bytes": size}
            for start, hits, size in self._own.database.slots(*span, key)
        )
        return _answer(json_pieces({"seconds": SLOT}, "slots", slots))

    def heat_map(self, layer: Layer) -> str:
        """Return the path of the heat map of a layer, for the viewer; empty without heat maps."""
        return f"{_HEAT}{quote(layer.id, safe='')}" if self._own.heat else ""

    def _heat_map(self, request: Request, grant: object, name: str) -> Response:
        place = None
        if (found := tile_of(name)) is not None:
            name, place = found
        layer = self.site.catalogue.layers.get(name)
        if not _reads_all(grant) or not self._own.heat or layer is None:
            raise UnknownPathError
        query = request.query
        try:
            period = days(query.get("from"), query.get("to"))
        except ValueError as error:
            raise InvalidParameterError(str(error), "query") from None
        blocks = self._own.database.blocks(*period, name, query.get("level", ""))
        if place is not None:
            picture = tile(layer, of_one_level(layer, blocks)[1], place)
            return Response(200, [("Content-Type", "image/png"), _PRIVATE], picture)
        if _form(request) == "html":
            address = f"{self._address(grant)}{_HEAT}{quote(name, safe='')}"
            viewer = self._address(grant, "viewer")
            shown = f"{viewer}/{quote(name, safe='')}" if viewer else ""
            page = heat_page(layer, blocks, address, period, shown)
            headers = [("Content-Type", f"{HTML}; charset=utf-8"), _PRIVATE, *HEADERS]
            return Response(200, headers, page.encode())
        return _answer(collection(layer, blocks, period), "application/geo+json")

    def _address(self, grant: object, name: str = "usage") -> str:
        """Return the address of a service, with the mark for the credential of a client.

        Empty if the client does not see the service.
        """
        site = self.site.view(grant.tag) if isinstance(grant, Grant) else self.site
        service = site.catalogue.services.get(name)
        return "" if service is None else service.endpoint_uri

    def error_response(self, error: Exception, request: Request) -> Response:
        status, text = status_of(error), public_message(error)
        if _form(request) == "html":
            headers = [("Content-Type", f"{HTML}; charset=utf-8"), *HEADERS]
            return Response(status, headers, error_page(text).encode())
        return message(status, f"{text}\n", "text/plain")


def _answer(pieces: Iterable[bytes], media_type: str = _JSON) -> Response:
    body = spooled(while_wanted(pieces))
    return Response(200, [("Content-Type", media_type), _PRIVATE], body)


def _reads_all(grant: object) -> bool:
    return isinstance(grant, Grant) and "usage" in grant.abilities


def _form(request: Request) -> str:
    """Return the form that a client prefers: ``html`` only for browsers."""
    if "f" in request.query:
        return request.query["f"].lower()
    return "html" if wants_page(request) else "json"


def _fault(reason: str, remedy: str) -> ConfigurationError:
    path = "$.plugins.usage.directory"
    return ConfigurationError([Fault(Severity.ERROR, "server.json", path, reason, remedy)])
