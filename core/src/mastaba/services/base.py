"""Base class of protocol services, and the site to which they belong."""

from __future__ import annotations

import logging
import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from secrets import token_hex
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from mastaba.errors import ChangeRefusedError, MastabaError, PluginError
from mastaba.services import drawing
from mastaba.services.change import Change
from mastaba.services.views import Views
from mastaba_server.access.principal import GRANT
from mastaba_server.web.cors import CrossOrigin

if TYPE_CHECKING:
    from mastaba.catalogue import Catalogue
    from mastaba.model.layer import Layer
    from mastaba.model.settings import ServiceSettings
    from mastaba.services.addresses import TilePaths, TileQueries
    from mastaba_render.encoder import Encoder
    from mastaba_render.engine import Renderer
    from mastaba_server.access.gate import Gate, Identifier, Meter
    from mastaba_server.processes.scoreboard import Scoreboard
    from mastaba_server.web.request import Request
    from mastaba_server.web.response import Response
    from mastaba_storage.base import Storage

logger = logging.getLogger("mastaba")


@dataclass(frozen=True, slots=True)
class RootEntry:
    """Entry of a service in the list of services at ``/`` (root.md section 1).

    Attributes:
        rank: entries are sorted by it: TMS 10, WMS 20, WMTS 30, OGC API 40.
        element: name of the XML element.
        version: of the protocol.
        href: link in the XML form.
        json_href: link in the JSON form; None for the same link.
        media_type: of the resource linked in the JSON form.
    """

    rank: int
    element: str
    version: str
    href: str
    json_href: str | None = None
    media_type: str = "application/xml"


@dataclass(frozen=True, slots=True)
class Download:
    """A file that a service makes of a box of a layer, in the CRS of the layer.

    Attributes:
        format: name of the format.
        name: suggested file name.
        template: address of the file, with ``{xmin}``, ``{ymin}``, ``{xmax}``, ``{ymax}``, and
            ``{level}`` if it takes one; empty if a job makes it.
        process: otherwise, address of an OGC API process with the inputs ``bbox`` and ``crs``.
        inputs: its other inputs.
        takes: what else it takes: ``area`` (polygons instead of ``bbox``), ``levels`` (any number
            of them) or ``level`` (one), ``mask`` (true, also as a parameter of the address).
    """

    format: str
    name: str
    template: str = ""
    process: str = ""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    takes: tuple[str, ...] = ()


class Service(ABC):
    """Base class of services, which answer the requests below one root path.

    The hook ``register_services`` provides subclasses. Instances belong to one configuration, and
    are used by many threads: after ``__init__``, change nothing.

    Args:
        settings: the service's section in services.json.
        site: the configuration.

    Attributes:
        name: key in services.json; also the default root path and the layer switch.
        title: default of the service's ``title``.
        default_root_path: default root path; None for ``/`` and the name.
        rank: of services with the same root path, the lowest answers (services-config.md section
            3).
        always_on: whether the service answers even if services are turned off (services-config.md
            section 1).
        is_fallback: whether it is enabled without a section in services.json. It then answers only
            at `fallback_paths`, and only if no other service does. Its default root path is ``/``.
        fallback_paths: paths below its root path that a fallback service answers.
        wants_measurements: whether it reports storage statistics, which slow down each read
            slightly.
        draws_maps: whether its ordinary requests need the rendering engine, which is then loaded
            at start.
        is_raster_only: whether it publishes no vector layers (layer.md section 9).
        settings_schema: JSON Schema ``properties`` of the settings that only this service has.
        layer_schema: JSON Schema ``properties`` that this service adds to layer descriptors; their
            values are in `Layer.own`. Services may share a key if its schemas are equal.
        parameters: names of its query parameters, in lower case, which no credential may have.
        operations: names that it gives to `Request.name_operation`, for metrics; lower-case words.
        allowed_methods: supported methods; the core handles HEAD and OPTIONS.
        allows_cors: whether pages of other origins may read its responses at all.
        default_cors: whether they may if no setting says so.
        abilities: what it offers for a layer, in words of access rules; see `Layer.withheld`.
        sees_refusals: whether it answers requests whose credential was refused itself; the error
            is then in the environment in place of the grant.
        is_viewed: whether each view of the catalogue has an instance of its own; if not, one
            instance serves all clients.
        exposed_headers: headers that scripts of these pages may read, by its own setting.
        settings: as given.
        site: as given.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    default_root_path: ClassVar[str | None] = None
    rank: ClassVar[int] = 100
    always_on: ClassVar[bool] = False
    is_fallback: ClassVar[bool] = False
    fallback_paths: ClassVar[frozenset[str]] = frozenset(("",))
    wants_measurements: ClassVar[bool] = False
    draws_maps: ClassVar[bool] = False
    is_raster_only: ClassVar[bool] = False
    settings_schema: ClassVar[Mapping[str, Any]] = {}
    layer_schema: ClassVar[Mapping[str, Any]] = {}
    parameters: ClassVar[frozenset[str]] = frozenset()
    operations: ClassVar[tuple[str, ...]] = ()
    allowed_methods: ClassVar[tuple[str, ...]] = ("GET",)
    allows_cors: ClassVar[bool] = True
    default_cors: ClassVar[bool] = False
    exposed_headers: ClassVar[str] = "*"
    abilities: ClassVar[tuple[str, ...]] = ()
    is_viewed: ClassVar[bool] = True
    sees_refusals: ClassVar[bool] = False

    def __init__(self, settings: ServiceSettings, site: Site) -> None:
        self.settings = settings
        self.site = site

    @abstractmethod
    def respond(self, request: Request) -> Response:
        """Answer one request.

        Raises:
            MastabaError: answered by `error_response`. Any other exception is logged with its
                traceback, and answered in the same form without it.
        """

    @abstractmethod
    def error_response(self, error: Exception, request: Request) -> Response:
        """Return an error response in the protocol's own form, without internal details.

        The status of a `RequestError` is below 500, or 501 for an operation that is not offered;
        that of any other error is 500 or above.

        Args:
            error: any error; one that is not a `RequestError` is described in general terms (see
                `mastaba.errors.public_message`). Messages may contain any text of the client.
        """

    @classmethod
    def kept_layers(cls, settings: ServiceSettings) -> Mapping[str, str]:
        """Return the layers that the service keeps: paths of descriptor files, by layer.

        They are published with the listed ones, and replace those of the same name.

        Raises:
            OSError: they cannot be read; its ``filename`` says where.
        """
        return {}

    @classmethod
    def kept_virtual(cls, settings: ServiceSettings) -> Mapping[str, str]:
        """Return the virtual services that the service keeps, by name; see `kept_layers`."""
        return {}

    @classmethod  # noqa: B027 - most services keep nothing
    def keep(cls, settings: ServiceSettings, change: Change) -> None:
        """Save a change made with `Site.submit`, for `kept_layers`. Called in one process.

        Raises:
            ChangeRefusedError: it cannot be saved, and is therefore not made.
        """

    def ability_of(self, request: Request) -> str:
        """Return which of its `abilities` a request uses, by default the only one; empty for none.

        Called before `respond`, for requests that may be invalid. Never raises.
        """
        return self.abilities[0] if len(self.abilities) == 1 else ""

    def query_of(self, request: Request) -> str | None:
        """Return the query with the names of all layers of a request; None if its body has them.

        Called before `respond`, for requests that may be invalid. Never raises.
        """
        return None if request.method == "POST" else request.query_string

    def takes_credential_at(self, path: str) -> bool:
        """Return whether a client may show its credential as a segment of a path.

        Where it may not, nothing exists behind such a segment. Front servers block the paths of
        operators, whose services are not viewed: the segment must not give these another spelling.

        Args:
            path: below the root path of the service, without the segment.
        """
        return self.is_viewed

    def cost(self, request: Request) -> int:
        """Return what a request costs of the rates of its client: 1 as a stored tile, 0 for free.

        Called before `respond`, for requests that may be invalid. Never raises, and reads nothing.
        """
        return int(self.is_viewed)

    def tile_addresses(self) -> Iterable[TilePaths | TileQueries]:
        """Return how the addresses of its stored tiles are written: one form of each kind at most.

        The server may answer GET requests for these addresses without calling `respond`. Called
        once, after all services are created.
        """
        return ()

    def downloads(self, layer: Layer) -> Sequence[Download]:
        """Return the files that clients can get of a published layer. Nothing is read."""
        return ()

    def after_fork(self) -> None:  # noqa: B027 - most services need no connections or threads
        """Open what a process needs for itself, such as connections and threads.

        Called in each process that answers requests, before its first request.
        """

    def close(self) -> None:  # noqa: B027
        """Release what `after_fork` has opened. Called after the last request of a process.

        After an administrative change, a new instance takes over. The old one is closed when its
        last request must be finished, `Site.request_timeout` seconds later.
        """

    def companions(self) -> Sequence[Callable[[], None]]:
        """Return functions that run beside the workers, each in a process, until SIGTERM arrives.

        Asked each second: functions that do not equal (``==``) those before take their place.
        """
        return ()

    def gauges(self) -> Mapping[str, Mapping[str, float]]:
        """Return values for monitoring: by name, then by the value of the label ``kind``."""
        return {}

    def root_entry(self) -> RootEntry | None:
        """Return the entry of this service in the list at ``/``; None if it is not listed."""
        return None

    @cached_property
    def cross_origin(self) -> CrossOrigin:
        """Origins whose pages may read its responses: those of all services, else its own.

        The application adds the headers to every response, and answers preflights.
        """
        if not self.allows_cors:
            return CrossOrigin(False)
        shared = CrossOrigin(self.site.catalogue.settings.cors)
        found = shared or CrossOrigin(self.settings.cors, self.exposed_headers)
        return found.with_credentials(getattr(self.site.gate, "origins", ()))

    def page_uri(self) -> str | None:
        """Return the address of its pages for browsers, or None.

        The list at ``/`` and the pages of other services link to it.
        """
        return None

    def summary(self) -> Sequence[str]:
        """Return lines for ``mastaba check`` that say what the service serves. Nothing is read."""
        return ()

    def home_page(self, request: Request) -> Response | None:
        """Return what browsers get at ``/`` instead of the list of services, or None."""
        return None

    def published_layers(self) -> list[Layer]:
        """Return the layers that this service publishes, sorted by identifier."""
        return [layer for layer in self.site.catalogue.layers.values() if self.publishes(layer)]

    def publishes(self, layer: Layer) -> bool:
        """Return whether it publishes a layer: not if all that it offers is withheld."""
        main = [word for word in self.abilities if word not in ("info", "legend")]
        is_offered = not main or any(self.offers(word, layer) for word in main)
        return is_offered and self.name not in layer.hidden_from

    def shows_status(self, request: Request) -> bool:
        """Return whether a client may see the state of the server: anyone without a gate."""
        grant = request.environ.get(GRANT)
        return self.site.gate is None or "status" in getattr(grant, "abilities", ())

    def offers(self, ability: str, layer: Layer) -> bool:
        """Return whether the service offers this, one of its `abilities`, for a layer."""
        return (self.name, ability) not in layer.withheld


class Installed(Protocol):
    """What the installed plugins provide (see `mastaba.plugins.manager.Plugins`)."""

    @property
    def broken(self) -> Mapping[str, str]:
        """Why plugins are left out, by name."""

    @property
    def services(self) -> Mapping[str, type[Service]]:
        """Services by name."""

    @property
    def encoders(self) -> Mapping[str, type[Encoder]]:
        """Encoders by media type."""

    def encoder_extensions(self) -> Mapping[str, tuple[str, ...]]:
        """Return the file name extensions of each encoder, by media type in lower case."""

    @property
    def storages(self) -> Mapping[str, type[Storage]]:
        """Storage drivers by name."""

    @property
    def identifiers(self) -> Mapping[str, type[Identifier]]:
        """Kinds of credentials by name."""

    def gate(self, site: Site) -> Gate | None:
        """Return what decides about access, or None."""

    def meters(self, site: Site) -> Sequence[Meter]:
        """Return what counts requests."""

    def middleware(self, site: Site) -> Sequence[Callable[[Any], Any]]:
        """Return the WSGI wrappers, the outermost first."""


class _Encoders(Mapping[str, "Encoder"]):
    """Encoders by media type in lower case, created on first use: few servers need all."""

    def __init__(
        self,
        classes: Mapping[str, type[Encoder]],
        settings: Mapping[str, Mapping[str, Any]],
    ) -> None:
        self._classes = classes
        self._settings = settings
        self._names = {name.lower(): name for name in classes}
        self._created: dict[str, Encoder] = {}

    def __getitem__(self, media_type: str) -> Encoder:
        encoder = self._created.get(media_type)
        if encoder is None:
            name = self._names[media_type]
            encoder = self._classes[name]()
            encoder.settings = self._settings.get(name, {})
            encoder = self._created.setdefault(media_type, encoder)
        return encoder

    def __contains__(self, media_type: object) -> bool:
        return media_type in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _unchangeable(_change: Change) -> None:
    raise ChangeRefusedError("unavailable", "this server cannot be changed")


@dataclass
class Site:
    """One configuration being served: built completely, then used read-only.

    Attributes:
        catalogue: what is published.
        plugins: what is installed.
        services: enabled services by name, filled when the site is built.
        encoders: by media type in lower case.
        plugin_settings: settings of plugins in server.json, by plugin.
        encoder_settings: those of the plugin of each encoder, by media type.
        is_serving: whether this process answers requests with it.
        scoreboard: state of every worker.
        started: Unix seconds of start or last reload.
        main_pid: process that supervises the workers.
        reload_count: 0 for the initial configuration, one more with each attempted reload.
        revision: number of changes since it was loaded.
        submit: applies a change in all processes that serve this configuration; returns when all
            of them have it, and raises `ChangeRefusedError` if none of them has.
        debug: whether responses show which process and configuration made them.
        access: format of the line for each request: ``off``, ``text`` or ``json``.
        addresses: what it says of clients: ``full``, ``network`` or ``none``.
        request_timeout: seconds after which an unfinished request is abandoned.
        gate: decides who a client is and what it sees; None if access is not limited.
        virtual: name of the virtual service that this view is; empty for the main services.
        main: the site whose view this is; None if it is no view.
        mark: what the addresses in documents of views contain in place of a credential.
        application: of this view; belongs to the server.
    """

    catalogue: Catalogue
    plugins: Installed
    scoreboard: Scoreboard
    started: float
    main_pid: int
    reload_count: int = 0
    revision: int = 0
    submit: Callable[[Change], None] = _unchangeable
    debug: bool = False
    access: str = "off"
    addresses: str = "full"
    request_timeout: float = 300.0
    services: dict[str, Service] = field(default_factory=dict)
    encoders: Mapping[str, Encoder] = field(default_factory=dict)
    plugin_settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    encoder_settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    is_serving: bool = False
    gate: Gate | None = None
    virtual: str = ""
    main: Site | None = field(default=None, repr=False)
    mark: str = field(default_factory=partial(token_hex, 12), repr=False)
    application: Any = field(default=None, repr=False)

    @property
    def generation(self) -> int:
        """Former attribute: one more than ``reload_count``."""
        text = "Site.generation will be removed in Mastaba 2.0; use Site.reload_count"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return self.reload_count + 1

    def changed(self, catalogue: Catalogue) -> Site:
        """Return the site with a changed catalogue, ready to serve.

        Raises:
            MastabaError: a service cannot be opened.
        """
        site = replace(
            self,
            catalogue=catalogue,
            revision=self.revision + 1,
            services={},
            encoders={},
            application=None,
        )
        if "renderer" in vars(self):
            site.renderer = self.renderer.of(catalogue)
        site.open_services()
        if self.is_serving:
            site.start_services()
        return site

    @property
    def draws_maps(self) -> bool:
        """Whether a service needs the renderer for its ordinary requests."""
        return any(service.draws_maps for service in self.services.values())

    @cached_property
    def renderer(self) -> Renderer:
        """Renderer of the catalogue's maps. Loaded on first use: tile servers do not need it.

        Raises:
            RendererMissingError: mastaba-render is not installed.
        """
        if self.main is not None:
            return self.main.renderer.of(self.catalogue)
        renderer: Renderer = drawing.load("engine").Renderer(self.catalogue)
        return renderer

    def open_services(self) -> None:
        """Create the services that services.json enables.

        Raises:
            MastabaError: a service cannot be opened.
        """
        self.encoders = _Encoders(self.plugins.encoders, self.encoder_settings)
        for name in self.catalogue.services:
            self.services[name] = self.open_service(name)

    def open_service(self, name: str) -> Service:
        """Create a service that services.json enables.

        Raises:
            MastabaError: it cannot be opened.
        """
        try:
            return self.plugins.services[name](self.catalogue.services[name], self)
        except MastabaError:
            raise
        except Exception as error:
            raise PluginError(
                f"the service {name!r} cannot be opened: {type(error).__name__}: {error}"
            ) from error

    @cached_property
    def views(self) -> Views:
        """What classes of clients, and the clients of virtual services, see of this site."""
        return Views(self)

    def view(self, tag: str, virtual: str = "") -> Site:
        """Return what a class of clients sees: the site itself if nothing limits it.

        Args:
            tag: of the class; see `mastaba.api.access.Grant`.
            virtual: name of a virtual service; empty for the main services.
        """
        found: Site = self.views.get(tag, virtual)
        return found

    @cached_property
    def roots(self) -> frozenset[str]:
        """Paths directly behind which a segment of an address may be a credential."""
        of_virtual = (
            path
            for one in self.catalogue.virtual.values()
            for path in (one.root_path, *(item.root_path for item in one.services.values()))
        )
        own = (service.settings.root_path for service in self.services.values())
        return frozenset(("", *own, *of_virtual))

    def start_services(self) -> None:
        """Prepare the services in a process that answers requests now.

        Raises:
            PluginError: a service fails.
        """
        self.is_serving = True
        # After a change, the gate is the same.
        if self.gate is not None and self.revision == 0:
            self.gate.after_fork()
        for name, service in self.services.items():
            try:
                service.after_fork()
            except Exception as error:
                raise PluginError(
                    f"the service {name!r} fails in after_fork: {type(error).__name__}: {error}"
                ) from error

    def close_services_later(self) -> None:
        """Close the services when no request can use them any more."""
        kinds = (self.plugins.services[name] for name in self.catalogue.services)
        if self.is_serving and any(kind.close is not Service.close for kind in kinds):
            timer = threading.Timer(self.request_timeout, self.close_services)
            timer.daemon = True
            timer.start()

    def close_services(self) -> None:
        """Close the services, in a process that answers no more requests with them."""
        if "views" in vars(self):
            self.views.close()
        # Of a view: those that are open.
        for name, service in dict.items(self.services):
            if service is None or (self.main and service.site is not self):
                continue
            try:
                service.close()
            except Exception:
                logger.exception("the service %r cannot be closed", name)
