"""The WMS service, which dispatches requests to operations."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, ClassVar

from mastaba.api.services import RootEntry, Service, ServiceSettings, Site
from mastaba.api.web import Request, Response
from mastaba.errors import AccessError, RequestError, UnknownPathError, public_message
from mastaba_ows.post import read_once, readable
from mastaba_render.api.crs import CRSOffer
from mastaba_wms import cost, params, post
from mastaba_wms.dimensions import LayerNames
from mastaba_wms.errors import error_response
from mastaba_wms.getlegendgraphic import GetLegendGraphic
from mastaba_wms.getmap import GetMap
from mastaba_wms.params import BlankImage, Exceptions, MapQueries, Operation
from mastaba_wms.published import PublishedLayer
from mastaba_wms.versions import Version, negotiated

logger = logging.getLogger("mastaba.wms")

# Keeps the parameters of a request body for error reports.
_PARAMETERS = "mastaba_wms.parameters"


class WMSService(Service):
    """WMS 1.3.0 and 1.1.1: KVP over GET and POST, XML over POST."""

    name = "wms"
    rank = 60
    title = "WMS service"
    abilities: ClassVar[tuple[str, ...]] = ("maps", "info", "legend")
    parameters: ClassVar[frozenset[str]] = frozenset(
        (
            *("bbox", "bgcolor", "crs", "dpi", "exception", "exceptions", "feature_count"),
            *("filename", "format", "format_options", "height", "i", "info_format", "inspire"),
            *("j", "layer", "layers", "provenance", "query_layers", "request", "sld_version"),
            *("service", "srs", "str_dpi", "style", "styles", "transparent", "version", "width"),
            *("wmtver", "x", "y"),
            *("elevation", "time"),
        )
    )
    operations: ClassVar[tuple[str, ...]] = tuple(map(str.lower, Operation))
    draws_maps = True
    is_raster_only: ClassVar[bool] = True
    allowed_methods: ClassVar[tuple[str, ...]] = ("GET", "POST")
    settings_schema: ClassVar[Mapping[str, Any]] = {
        "name": {
            "type": "string",
            "default": "WMS",
            "description": "Of no effect: the standard allows no other name than WMS.",
        },
        "warnings": {
            "type": "boolean",
            "default": True,
            "description": "Name the default and nearest values of dimensions that a response "
            "shows in headers Warning.",
        },
        "capabilities_values": {
            "type": "integer",
            "minimum": 1,
            "default": 500,
            "description": "Values and runs of a dimension in the capabilities. If there are more "
            "times, their range is announced.",
        },
        "root_layer": {
            "type": "object",
            "description": "The layer that holds all others in the capabilities.",
            "additionalProperties": False,
            "properties": {
                "title": {"type": "string", "default": "WMS layers"},
                "abstract": {"type": "string", "default": "WMS layers"},
            },
        },
    }

    def __init__(self, settings: ServiceSettings, site: Site) -> None:
        # Loaded here, so that listing the plugins loads no lxml.
        from mastaba_wms.getcapabilities import GetCapabilities
        from mastaba_wms.getfeatureinfo import GetFeatureInfo

        super().__init__(settings, site)
        general = site.catalogue.settings
        offer = CRSOffer(general)
        layers = {
            layer.id: PublishedLayer.of(layer, offer.of(layer))
            for layer in self.published_layers()
            if self.offers("maps", layer)
        }
        encoders = {
            name.lower(): site.encoders[name.lower()]
            for name in general.map.formats
            if name.lower() in site.encoders
        }
        own = settings.own
        self._names = LayerNames(layers, site.catalogue)
        self._queries = MapQueries(
            self._names, general.map, encoders, warns=own.get("warnings", True)
        )
        self._get_map = GetMap(site, self._queries)
        self._get_feature_info = GetFeatureInfo(site, self._queries)
        self._get_legend_graphic = GetLegendGraphic(self._names, encoders, site)
        self._get_capabilities = GetCapabilities(
            settings,
            site.catalogue,
            offer,
            layers.values(),
            [encoder.media_type for encoder in encoders.values()],
            self._get_legend_graphic.formats,
        )
        if own.get("name", "WMS") != "WMS":
            logger.warning("wms.name has no effect: the name of the service is always WMS")

    def root_entry(self) -> RootEntry:
        return RootEntry(
            rank=20,
            element="WebMapService",
            version=Version.V1_3_0.value,
            href=f"{self.settings.endpoint_uri}"
            f"?SERVICE=WMS&VERSION={Version.V1_3_0.value}&REQUEST=GetCapabilities",
        )

    def ability_of(self, request: Request) -> str:
        operation = cost.operation_of(self._known_parameters(request))
        return cost.ABILITIES.get(operation, "") if operation else ""

    def cost(self, request: Request) -> int:
        most_pixels = self.site.catalogue.settings.map.max_pixels
        return cost.cost_of(self._known_parameters(request), self._names, most_pixels)

    def respond(self, request: Request) -> Response:
        if request.path:
            raise UnknownPathError
        parameters = self._parameters(request)
        operation = params.operation(parameters)
        request.name_operation(operation.lower())
        if operation is Operation.GET_MAP:
            return self._get_map.respond(request, parameters)
        if operation is Operation.GET_CAPABILITIES:
            return self._get_capabilities.respond(request, parameters)
        if operation is Operation.GET_FEATURE_INFO:
            return self._get_feature_info.respond(parameters)
        return self._get_legend_graphic.respond(parameters)

    def _parameters(self, request: Request) -> Mapping[str, str]:
        if request.method != "POST":
            return request.query
        return read_once(request, _PARAMETERS, post.parameters)

    def _known_parameters(self, request: Request) -> Mapping[str, str]:
        """Return the parameters of a request; those of its address if its body is invalid."""
        if request.method != "POST":
            return request.query
        return readable(request, _PARAMETERS, post.parameters) or request.query

    def error_response(self, error: Exception, request: Request) -> Response:
        parameters: Mapping[str, str] = request.environ.get(_PARAMETERS, request.query)
        # Clients ask for a password if they see the status, which an image would hide.
        blank = None if isinstance(error, AccessError) else self._blank_image(parameters)
        if blank is not None:
            # Loaded on first use: see GetLegendGraphic.
            from mastaba_wms.report import drawn_report

            return drawn_report(public_message(error), blank)
        return error_response(error, negotiated(parameters))

    def _blank_image(self, parameters: Mapping[str, str]) -> BlankImage | None:
        """Return the blank image for an error report, or None when the report must be XML."""
        if params.OPERATIONS.get(parameters.get("request", "").lower()) is not Operation.GET_MAP:
            return None
        try:
            blank = self._queries.blank_image(parameters)
        except RequestError:
            return None
        return None if blank.exceptions is Exceptions.XML else blank
