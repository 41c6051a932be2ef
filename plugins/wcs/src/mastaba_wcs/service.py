"""The WCS service, which dispatches requests to operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote

from mastaba.api.services import RootEntry, Service, ServiceSettings, Site
from mastaba.api.web import Request, Response
from mastaba.errors import UnknownPathError, UnsupportedOperationError
from mastaba_coverage import LIMITS_SCHEMA, coverage_limits
from mastaba_ows.post import read_once, readable
from mastaba_wcs import post
from mastaba_wcs.errors import error_response
from mastaba_wcs.parameters import Operation, Parameters, operation, query_parameters
from mastaba_wcs.published import LAYER_SCHEMA, SWITCH, PublishedCoverages
from mastaba_wcs.versions import Version, named_version, required_version

if TYPE_CHECKING:
    from mastaba_wcs.getcoverage import GetCoverage

# Keeps the parameters of a request, which are read once, for error reports too.
_PARAMETERS = "mastaba_wcs.parameters"


class WCSService(Service):
    """WCS 2.0.1 (KVP over GET and POST, XML over POST) and 1.0.0 (KVP)."""

    name = "wcs"
    rank = 55
    title = "WCS service"
    abilities: ClassVar[tuple[str, ...]] = ("coverages",)
    parameters: ClassVar[frozenset[str]] = frozenset(
        (
            *("acceptversions", "bbox", "coverage", "coverageid", "crs", "format", "height"),
            *("inspire", "interpolation", "mediatype", "outputcrs", "rangesubset", "request"),
            *("resolution", "response_crs", "resx", "resy", "scaleaxes", "scaleextent"),
            *("scalefactor", "scalesize", "sections", "service", "size", "subset"),
            *("subsettingcrs", "version", "width"),
        )
    )
    operations: ClassVar[tuple[str, ...]] = tuple(map(str.lower, Operation))
    draws_maps = True
    is_raster_only: ClassVar[bool] = True
    allowed_methods: ClassVar[tuple[str, ...]] = ("GET", "POST")
    exposed_headers = "Accept-Ranges, Content-Range, Content-Disposition, ETag"
    layer_schema: ClassVar[Mapping[str, Any]] = {SWITCH: LAYER_SCHEMA}
    settings_schema: ClassVar[Mapping[str, Any]] = {
        "limits": {**LIMITS_SCHEMA, "description": "Limits of one answer of version 2.0.1."}
    }

    def __init__(self, settings: ServiceSettings, site: Site) -> None:
        # Loaded here, so that listing the plugins loads no lxml.
        from mastaba_wcs.documents import Documents

        super().__init__(settings, site)
        self._published = PublishedCoverages(site, self.published_layers())
        self._documents = Documents(settings, site.catalogue.settings, self._published)

    @cached_property
    def _get_coverage(self) -> GetCoverage:
        from mastaba_wcs.getcoverage import GetCoverage

        limits = coverage_limits(self.settings.own)
        return GetCoverage(self.site, self._published, limits)

    def root_entry(self) -> RootEntry:
        return RootEntry(
            rank=35,
            element="WebCoverageService",
            version=Version.V2_0_1.value,
            href=f"{self.settings.endpoint_uri}"
            f"?SERVICE=WCS&VERSION={Version.V2_0_1.value}&REQUEST=GetCapabilities",
        )

    def ability_of(self, request: Request) -> str:
        found = readable(request, _PARAMETERS, _read)
        parameters: Mapping[str, str] = request.query if found is None else found
        is_coverage = parameters.get("request", "").lower() == Operation.GET_COVERAGE.lower()
        return "coverages" if is_coverage else ""

    def query_of(self, request: Request) -> str | None:
        query = super().query_of(request)
        values = [request.query.get(name, "") for name in ("coverageid", "coverage")]
        if query is None or not any(values):
            return query
        names = (name for value in values for name in (value, *value.split(",")))
        layers = (quote(self._published.layer_of(name.strip()), safe="") for name in names)
        return f"coverageid={','.join(layers)}"

    def respond(self, request: Request) -> Response:
        if request.path:
            raise UnknownPathError
        parameters = read_once(request, _PARAMETERS, _read)
        wanted = operation(parameters)
        request.name_operation(wanted.lower())
        if wanted is Operation.GET_CAPABILITIES:
            return self._documents.capabilities(request, parameters)
        version = required_version(parameters)
        if wanted is Operation.DESCRIBE_COVERAGE:
            return self._documents.descriptions(request, parameters, version)
        if version is Version.V2_0_1:
            return self._get_coverage.respond(request, parameters)
        if request.method == "POST":
            raise UnsupportedOperationError("version 1.0.0 is offered by GET only", "REQUEST")
        return self._get_coverage.respond_100(request, parameters)

    def error_response(self, error: Exception, request: Request) -> Response:
        parameters: Mapping[str, str] = request.environ.get(_PARAMETERS, request.query)
        return error_response(error, named_version(parameters))

    def summary(self) -> Sequence[str]:
        count = len(self._published.all)
        layers = len(self.published_layers())
        return (f"wcs offers {count} of {layers} raster layers",)


def _read(request: Request) -> Parameters:
    if request.method == "POST":
        return post.parameters(request)
    return query_parameters(request.query_string)
