"""Downloads of stored values."""

from __future__ import annotations

import json
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from mastaba.api.web import Document, content_disposition, coordinate
from mastaba.errors import InvalidParameterError
from mastaba_ogcapi.coverages.choice import chosen_coverage
from mastaba_ogcapi.coverages.formats import CoverageFormat
from mastaba_ogcapi.coverages.parts import has_parts, parts_path
from mastaba_ogcapi.crs import in_axis_order
from mastaba_ogcapi.dimensions import datetime_header
from mastaba_ogcapi.errors import OutsideCoverageError, TooLargeError, unmet
from mastaba_ows.crs import crs_uri
from mastaba_ows.links import JSON
from mastaba_ows.offers import sources_in

if TYPE_CHECKING:
    from mastaba.api.web import Request, Response
    from mastaba_coverage import Coverage, CoverageLimits, CoverageTooLargeError, Extractor, Plan
    from mastaba_ogcapi.coverages.query import CoverageQuery
    from mastaba_ogcapi.dataset import Collection, Dataset


class GetCoverage:
    """Answers requests for coverages.

    Args:
        dataset: gives the collections.
        limits: of answers.
    """

    def __init__(self, dataset: Dataset, limits: CoverageLimits) -> None:
        self._dataset = dataset
        self._limits = limits

    def collection(self, request: Request, identifier: str) -> Response | None:
        """Return the stored values of a collection, or a range of the file.

        Returns:
            None if the request is for the page of the coverage.

        Raises:
            UnknownPathError: there is no such collection, or it is not offered for download.
            RequestError: a parameter is invalid, or the answer exceeds a limit.
            OverloadedError: too many downloads are running.
            SlabFormatError, StorageError: the data cannot be read.
        """
        found, _ = chosen_coverage(self._dataset, identifier, request)
        # Loaded on first use: tiles and documents do not need it.
        from mastaba_coverage import CoverageTooLargeError
        from mastaba_coverage import OutsideCoverageError as Outside
        from mastaba_ogcapi.coverages.query import CoverageQuery

        query = CoverageQuery(found, found.coverage, request)
        if query.format is CoverageFormat.PAGE:
            return None
        try:
            if query.position is not None:
                return self._values(request, found.coverage, query)
            return self._area(request, found, query)
        except Outside as error:
            raise OutsideCoverageError(str(error)) from error
        except CoverageTooLargeError as error:
            raise self._too_large(error, found) from error
        except InvalidParameterError as error:
            raise InvalidParameterError(str(error), _parameter(request, error)) from error

    @cached_property
    def _extractor(self) -> Extractor:
        from mastaba_coverage import Extractor

        site = self._dataset.site
        return Extractor(site, self._limits, partial(sources_in, site))

    def _area(self, request: Request, collection: Collection, query: CoverageQuery) -> Response:
        from mastaba_coverage import file_name
        from mastaba_render.api.maps import cache_control

        is_chosen = not request.query.keys().isdisjoint(("properties", "exclude-properties"))
        if query.format is CoverageFormat.PNG and is_chosen and len(query.fields) not in (1, 3):
            raise InvalidParameterError(
                "select one or three fields of a PNG, or all by selecting none", "properties"
            )
        plan = self._extractor.plan(collection.coverage, query.wanted)
        media_type = query.format.value
        headers = [
            *cache_control((collection.layer,)),
            *datetime_header((collection.layer,)),
            ("Vary", "Accept, Accept-Profile, Prefer"),
            ("Content-Type", media_type),
            *_place(plan),
            ("Content-Disposition", content_disposition(media_type, file_name(plan))),
        ]
        if query.format is CoverageFormat.PNG:
            # Values are stored as they are.
            headers += [("Values-Scale", "1"), ("Values-Offset", "0")]
        if query.preference is not None and plan.kernel is not None:
            headers.append(("Preference-Applied", query.preference))
        response = self._extractor.respond(request, plan, headers)
        if response.status < 400:
            return response
        return unmet(response.status, request, response.headers)

    def _values(self, request: Request, coverage: Coverage, query: CoverageQuery) -> Response:
        """Return the values at a position: a number, or an object if there are several fields."""
        assert query.position is not None
        crs, x, y = query.position
        values: Any = self._extractor.value_at(coverage, crs, x, y, query.fields)
        if len(query.fields) == 1:
            values = values[query.fields[0]]
        return Document(json.dumps(values), JSON).respond(request)

    def _too_large(self, error: CoverageTooLargeError, collection: Collection) -> TooLargeError:
        export = self._dataset.site.services.get("export")
        offered = () if export is None else export.downloads(collection.layer)
        job = next((one.process for one in offered if one.process and one.format == "cog"), None)
        parts = None
        # Larger cells help against too many pixels.
        if error.unit in ("tiles", "slabs", "bytes") and has_parts(self._dataset, collection):
            parts = f"{self._dataset.uri}{parts_path(collection)}"
        return TooLargeError(str(error), error.size, error.limit, error.unit, job, parts)


def _place(plan: Plan) -> list[tuple[str, str]]:
    """Return the headers that say what is in the file."""
    headers = [
        ("Content-Bbox", ",".join(map(coordinate, in_axis_order(plan.bounds, plan.crs)))),
        ("Content-Crs", crs_uri(plan.crs.code)),
    ]
    if plan.kernel is not None:
        headers.append(("Content-Interpolation", _NAMES.get(plan.kernel, plan.kernel)))
    return headers


_NAMES = {"nn": "nearest-neighbor", "linear": "linear", "bicubic": "cubic", "mean": "mean"}
"""Kernels by their names in headers."""


def _parameter(request: Request, error: InvalidParameterError) -> str | None:
    """Return the parameter that an error of an extraction is about."""
    from mastaba_ogcapi.coverages.query import scaling_parameter

    match error.parameter:
        case "trim":
            return "bbox" if "bbox" in request.query else "subset"
        case "scaling":
            return scaling_parameter(request.query)
        case "fields":
            return "properties" if "properties" in request.query else "exclude-properties"
        case "format":
            return "f"
        case other:
            return other
