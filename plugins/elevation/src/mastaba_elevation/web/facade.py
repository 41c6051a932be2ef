"""What the protocols of the service have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

from mastaba.api import web
from mastaba.errors import public_message
from mastaba_elevation.errors import TooMuchError
from mastaba_elevation.web.numbers import to_json
from mastaba_ows.errors import STATUSES
from mastaba_ows.links import JSON

if TYPE_CHECKING:
    from mastaba.api.services import ServiceSettings, Site
    from mastaba.api.web import Request, Response
    from mastaba_elevation.queries.datasets import Dataset, Datasets
    from mastaba_elevation.queries.queries import Queries
    from mastaba_elevation.settings import Settings

_STATUSES: Final = {**STATUSES, TooMuchError: 413}


def status_of(error: Exception) -> int:
    """Return the HTTP status of an error, for protocols that set no other one."""
    return web.status_of(error, _STATUSES)


def error_message(error: Exception) -> Response:
    """Return an error as JSON, for protocols without a form of their own."""
    status = status_of(error)
    content = {"error": {"status": status, "message": public_message(error)}}
    return web.message(status, to_json(content), JSON)


class Context:
    """What every protocol needs.

    Attributes:
        uri: public address of the service.
        service: settings of the service that all services have.
    """

    def __init__(
        self,
        site: Site,
        service: ServiceSettings,
        settings: Settings,
        datasets: Datasets,
        queries: Queries,
    ) -> None:
        self.site = site
        self.uri = service.endpoint_uri
        self.service = service
        self.settings = settings
        self.datasets = datasets
        self.queries = queries


class Facade(ABC):
    """One protocol.

    Args:
        context: what all have in common.
        own: its own settings.
    """

    name: ClassVar[str]
    """Key of its settings; also the operation that metrics count."""

    roots: ClassVar[frozenset[str]]
    """First segments of its paths below the service."""

    def __init__(self, context: Context, own: Mapping[str, Any]) -> None:
        self.context = context
        self.own = own

    @abstractmethod
    def respond(self, request: Request, path: list[str]) -> Response:
        """Answer a request.

        Args:
            path: segments below the service, not empty.

        Raises:
            MastabaError: answered by `error_response`.
        """

    @abstractmethod
    def error_response(self, error: Exception, request: Request) -> Response:
        """Return an error in the form of the protocol."""

    def implied(self, request: Request) -> str:
        """Return the dataset that a request means without its identifier; empty for none."""
        return ""

    def default_name(self, name: str | None) -> str:
        """Return the dataset of `default_dataset`; empty for none."""
        return next(iter(self.context.datasets), "") if name is None else name

    def default_dataset(self, name: str | None) -> Dataset | None:
        """Return the dataset that a setting names; by default the first one.

        It is at the default of its dimensions; see `Datasets.default` for errors.

        Returns:
            None if there is none.
        """
        datasets = self.context.datasets
        found = datasets.get(self.default_name(name))
        return None if found is None else datasets.default(found)
