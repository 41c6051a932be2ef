"""GetCoverage of both versions: a file that the engine extracts."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from mastaba.api.web import Response, content_disposition, entry_of
from mastaba.errors import InvalidParameterError, RequestError
from mastaba_coverage import (
    CoverageLimits,
    CoverageRequest,
    CoverageTooLargeError,
    Extractor,
    InvalidIntervalError,
    InvalidScalingError,
    OutsideCoverageError,
    Plan,
    Scaling,
    file_name,
)
from mastaba_ows.offers import parts_address, sources_in
from mastaba_ows.xml import serialized
from mastaba_render.api.maps import cache_control
from mastaba_wcs.descriptions201 import Grid, coverage_without_values
from mastaba_wcs.errors import (
    InvalidScaleFactorError,
    InvalidSubsettingError,
    PreconditionError,
    RangeError,
    TooLargeError,
    error_response,
)
from mastaba_wcs.formats import COG, GEOTIFF
from mastaba_wcs.multipart import related_response
from mastaba_wcs.query import coverage_query, split_subsets
from mastaba_wcs.query100 import coverage_query_100
from mastaba_wcs.versions import Version

if TYPE_CHECKING:
    from mastaba.api.services import Site
    from mastaba.api.web import Request
    from mastaba_wcs.parameters import Parameters
    from mastaba_wcs.published import PublishedCoverage, PublishedCoverages

# Attributes of requests to the engine, and parameters of both versions.
_PARAMETERS: Final = {
    "trim": "subset",
    "crs": "outputCrs",
    "kernel": "interpolation",
    "scaling": "scaleFactor",
    "fields": "rangeSubset",
    "format": "format",
}
_PARAMETERS_100: Final = {
    "trim": "BBOX",
    "crs": "RESPONSE_CRS",
    "kernel": "INTERPOLATION",
    "scaling": "WIDTH",
    "format": "FORMAT",
}
_KINDS: Final[dict[type[BaseException], type[InvalidParameterError]]] = {
    OutsideCoverageError: InvalidSubsettingError,
    InvalidIntervalError: InvalidSubsettingError,
    InvalidScalingError: InvalidScaleFactorError,
    Exception: InvalidParameterError,
}
_CONDITIONS: Final = {
    412: PreconditionError("the data has another version"),
    416: RangeError("the file has no such bytes"),
}


class GetCoverage:
    """Answers GetCoverage.

    Args:
        site: gives the renderer.
        published: the coverages.
        limits: of one answer.
    """

    def __init__(self, site: Site, published: PublishedCoverages, limits: CoverageLimits) -> None:
        self._site = site
        self._published = published
        self._maps = site.catalogue.settings.map
        self._extractor = Extractor(site, limits, partial(sources_in, site))

    def respond(self, request: Request, parameters: Parameters) -> Response:
        """Return a coverage of version 2.0.1, or a range of the file.

        Raises:
            RequestError: a parameter is invalid, or the answer exceeds a limit.
            OverloadedError: too many downloads are running.
            SlabFormatError, StorageError: the data cannot be read.
        """
        name = parameters.required("coverageId")
        values, parameters = split_subsets(parameters, self._published.dimensions(name))
        published = self._published.find(name, values)
        query = coverage_query(published, parameters)
        wanted = query.request
        if query.is_one_sided:
            wanted = self._sized(published, wanted)
        plan = self._plan(published, wanted)
        if query.is_multipart:
            return self._related(request, published, plan)
        media_type = COG if wanted.is_cog else GEOTIFF
        return self._file(request, published, wanted, plan, media_type)

    def respond_100(self, request: Request, parameters: Parameters) -> Response:
        """Return a coverage of version 1.0.0.

        Raises:
            RequestError: a parameter is invalid, or the answer exceeds a limit.
            SlabFormatError, StorageError: the data cannot be read.
        """
        published = self._published.find(parameters.required("COVERAGE"), parameters)
        wanted = coverage_query_100(published, parameters, self._maps)
        return self._file(request, published, wanted, self._plan(published, wanted), GEOTIFF)

    def _sized(self, published: PublishedCoverage, wanted: CoverageRequest) -> CoverageRequest:
        """Return a request with both sizes: an axis without one keeps its cells."""
        scaling = wanted.scaling
        assert scaling is not None
        plain = self._plan(published, replace(wanted, scaling=None))
        width, height = scaling.width or plain.columns, scaling.height or plain.rows
        return replace(wanted, scaling=Scaling(width=width, height=height))

    def _plan(self, published: PublishedCoverage, wanted: CoverageRequest) -> Plan:
        try:
            return self._extractor.plan(published.coverage, wanted)
        except CoverageTooLargeError as error:
            raise self._too_large(error, published, wanted) from error
        except (InvalidParameterError, OutsideCoverageError) as error:
            raise _named(error, wanted) from error

    def _file(
        self,
        request: Request,
        published: PublishedCoverage,
        wanted: CoverageRequest,
        plan: Plan,
        media_type: str,
    ) -> Response:
        headers = [
            *cache_control((published.layer,)),
            ("Content-Type", media_type),
            ("Content-Disposition", content_disposition(GEOTIFF, file_name(plan))),
        ]
        try:
            response = self._extractor.respond(request, plan, headers)
        except CoverageTooLargeError as error:
            raise self._too_large(error, published, wanted) from error
        problem = _CONDITIONS.get(response.status)
        if problem is None:
            return response
        version = Version.V1_0_0 if wanted.is_fixed else Version.V2_0_1
        report = error_response(problem, version)
        report.headers += response.headers
        return report

    def _related(self, request: Request, published: PublishedCoverage, plan: Plan) -> Response:
        grid = Grid(plan.crs, plan.edges, plan.columns, plan.rows)
        description = serialized(coverage_without_values(published, grid, plan.fields))
        disposition = content_disposition(GEOTIFF, file_name(plan))
        try:
            file = self._extractor.body(request, plan)
        except CoverageTooLargeError as error:
            advice = "request it without a media type, or a smaller area"
            raise self._larger(error, advice, published, "mediaType") from error
        headers = list(cache_control((published.layer,)))
        return related_response(headers, description, file, disposition)

    def _too_large(
        self, error: CoverageTooLargeError, published: PublishedCoverage, wanted: CoverageRequest
    ) -> TooLargeError:
        """Return the error for a client, with what it can request instead."""
        if wanted.is_fixed:
            advice = "request a smaller area, or version 2.0.1"
            return self._larger(error, advice, published, "BBOX")
        text = str(error).replace("compression=none", "geotiff:compression=None")
        return TooLargeError(f"{text}{self._ways(published)}", "subset")

    def _larger(
        self,
        error: CoverageTooLargeError,
        advice: str,
        published: PublishedCoverage,
        parameter: str,
    ) -> TooLargeError:
        return TooLargeError(
            f"the coverage has {error.size} {error.unit}, and at most {error.limit} are sent: "
            f"{advice}{self._ways(published)}",
            parameter,
        )

    def _ways(self, published: PublishedCoverage) -> str:
        """Return the end of an advice: what else sends or writes the stored values."""
        site, layer = self._site, published.layer
        parts = parts_address(site, layer)
        export = site.services.get("export")
        offered = () if export is None else export.downloads(layer)
        job = next((one.process for one in offered if one.process and one.format == "cog"), "")
        ways = (
            f"or get the parts of the coverage, which are listed in {parts}" if parts else "",
            f"or order a job, which writes the stored values: {job}" if job else "",
        )
        return "".join(f"; {way}" for way in ways if way)


def _named(error: RequestError, wanted: CoverageRequest) -> InvalidParameterError:
    """Return the error of the protocol for one of the engine, with the parameter of a client."""
    attribute = error.parameter or "trim"
    if wanted.is_fixed:
        return InvalidParameterError(str(error), _PARAMETERS_100.get(attribute, attribute))
    # All other attributes are options of GeoTIFF.
    parameter = _PARAMETERS.get(attribute, f"geotiff:{attribute}")
    return entry_of(error, _KINDS)(str(error), parameter)
