"""The health API: status and activity of the server (health.md)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, ClassVar, Final

import mastaba
from mastaba.errors import AccessError, UnknownPathError, public_message
from mastaba.services.base import Service
from mastaba.services.statuses import status_of
from mastaba_server.processes.scoreboard import Obstacle
from mastaba_server.web.request import Request
from mastaba_server.web.response import Response, message

_MOST_NAMES: Final = 10
_FLAWS: Final = frozenset(
    (Obstacle.KEPT, Obstacle.RULES, Obstacle.CELLS, Obstacle.TABLES, Obstacle.VARIANTS)
)
_DETAILS: Final = ("/info", "/threads", "/depends")


class HealthService(Service):
    """Reports on the server, also while the other services are turned off."""

    name: ClassVar[str] = "health"
    rank: ClassVar[int] = 10
    title: ClassVar[str] = "Health"
    default_root_path: ClassVar[str | None] = "/healthcheck"
    abilities: ClassVar[tuple[str, ...]] = ("status",)
    is_viewed: ClassVar[bool] = False
    always_on: ClassVar[bool] = True

    def respond(self, request: Request) -> Response:
        """Return one of the reports."""
        status, is_open = 200, self.shows_status(request)
        if request.path in _DETAILS and not is_open:
            raise AccessError("details of the server need a credential that may see them")
        match request.path:
            case "":
                report = self._status(is_open)
            case "/info":
                report = self._info()
            case "/threads":
                report = self._threads()
            case "/depends":
                report = self._depends()
            case "/live":
                # Any response shows that the process is alive.
                report = {"status": "OK"}
            case "/ready":
                reasons, flaws = self._obstacles(), self._flaws(is_open)
                status = 503 if reasons else 200
                able = "DEGRADED" if flaws else "OK"
                report = {"status": "UNAVAILABLE" if reasons else able, "reasons": reasons + flaws}
                report |= self._generation(is_open)
            case _:
                raise UnknownPathError("Unknown health request path")
        return message(status, json.dumps(report, ensure_ascii=False), "application/json")

    def error_response(self, error: Exception, request: Request) -> Response:
        status = status_of(error)
        text = json.dumps({"code": status, "message": public_message(error)})
        return message(status, text, "application/json")

    def _obstacles(self) -> list[str]:
        """Return why map requests cannot be answered."""
        catalogue = self.site.catalogue
        found = self.site.scoreboard.obstacles
        reasons: list[str] = [one for one in found if one not in _FLAWS]
        if not catalogue.settings.enabled:
            reasons.append("the services are turned off")
        if catalogue.missing_layers and not catalogue.layers:
            reasons.append("none of the layers could be loaded")
        suspended = {
            reader.storage.name
            for readers in catalogue.readers.values()
            for reader in readers.values()
            if reader.storage.is_suspended
        }
        # Only the kind of storage: container names must not be disclosed.
        reasons += [f"a storage does not answer: {name}" for name in sorted(suspended)]
        return reasons

    def _generation(self, is_open: bool) -> dict[str, Any]:
        return {"generation": self.site.catalogue.generation} if is_open else {}

    def _flaws(self, is_open: bool) -> list[str]:
        """Return what is not as configured, although map requests are answered."""
        catalogue = self.site.catalogue
        flaws: list[str] = [one for one in self.site.scoreboard.obstacles if one in _FLAWS]
        if broken := self.site.plugins.broken:
            flaws.append(f"plugins left out, because they are broken: {_listed(broken)}")
        if not is_open and (catalogue.outdated_layers or catalogue.missing_layers):
            return [*flaws, "errors in files of layers"]
        if catalogue.outdated_layers:
            names = _listed(catalogue.outdated_layers)
            flaws.append(f"layers kept as they were, because of errors in their files: {names}")
        if catalogue.missing_layers and catalogue.layers:
            names = _listed(catalogue.missing_layers)
            flaws.append(f"layers left out, because of errors in their files: {names}")
        return flaws

    def _status(self, is_open: bool) -> dict[str, Any]:
        enabled = self.site.catalogue.settings.enabled
        return {
            "version": mastaba.__version__,
            "pid": self.site.main_pid,
            "time": int(self.site.started),
            "status": "OK" if enabled else "DISABLED",
            **self._generation(is_open),
        }

    def _info(self) -> dict[str, Any]:
        catalogue = self.site.catalogue
        return {
            "layers": sorted(catalogue.layers),
            "tms": sorted(catalogue.tile_matrix_sets),
            "styles": sorted(catalogue.styles),
            "missing_layers": sorted(catalogue.missing_layers),
            "outdated_layers": sorted(catalogue.outdated_layers),
        }

    def _threads(self) -> dict[str, Any]:
        rows = self.site.scoreboard.rows()
        threads = [
            {
                "pid": row.identifier,
                "status": row.status,
                "count": row.count,
                "time": int(row.time),
                "duration": row.duration,
            }
            for row in rows
        ]
        return {"number": len(threads), "threads": threads}

    def _depends(self) -> dict[str, Any]:
        counts = self.site.catalogue.storages.counts()
        return {"storage": {name: counts[name] for name in self.site.plugins.storages}}


def _listed(found: Iterable[str]) -> str:
    names = sorted(found)
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more
