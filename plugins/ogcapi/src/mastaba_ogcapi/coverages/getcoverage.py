"""Downloads of stored values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mastaba.api.web import Streams, addressable_response, content_disposition, coordinate
from mastaba.errors import UnknownPathError
from mastaba_ogcapi.crs import in_axis_order
from mastaba_ogcapi.errors import TooLargeError, problem
from mastaba_ows.crs import crs_uri

if TYPE_CHECKING:
    from mastaba.api.web import Request, Response
    from mastaba_coverage import CoveragePlan
    from mastaba_ogcapi.coverages.settings import CoverageSettings
    from mastaba_ogcapi.dataset import Dataset


class GetCoverage:
    """Answers requests for coverages.

    Args:
        dataset: gives the collections.
        settings: limits.
    """

    def __init__(self, dataset: Dataset, settings: CoverageSettings) -> None:
        self._dataset = dataset
        self._settings = settings
        self._streams = Streams(settings.streams)

    def collection(self, request: Request, identifier: str) -> Response:
        """Return the stored values of a collection, or a range of the file.

        Raises:
            UnknownPathError: there is no such collection, or it is not offered for download.
            RequestError: a parameter is invalid, or the answer exceeds a limit.
            OverloadedError: too many downloads are running.
            SlabFormatError, StorageError: the data cannot be read.
        """
        found = self._dataset.collection(identifier)
        if not found.has_coverage:
            raise UnknownPathError("this collection is not offered for download")
        # Loaded on first use: tiles and documents do not need it.
        from mastaba_coverage import CoverageLimits, CoverageTooLargeError, extract
        from mastaba_ogcapi.coverages.query import CoverageQuery
        from mastaba_render.api.maps import cache_control

        query = CoverageQuery(self._dataset, found, found.coverage, request)
        settings = self._settings
        limits = CoverageLimits(settings.stream_bytes, settings.tiles, settings.indices)
        try:
            answer = extract(query.plan, limits)
        except CoverageTooLargeError as error:
            raise TooLargeError(str(error), error.size, error.limit, error.unit) from error
        headers = [
            *cache_control((found.layer,)),
            ("Vary", "Accept, Accept-Profile"),
            ("Content-Type", query.format.value),
            *_place(answer.plan),
        ]
        response = addressable_response(request, headers, answer, self._streams)
        if response.status < 400:
            return response
        return problem(response.status, request, response.headers)


def _place(plan: CoveragePlan) -> list[tuple[str, str]]:
    """Return the headers that say what is in the file, and its name."""
    layer = plan.coverage.layer
    crs, box = layer.pyramid.tile_matrix_set.crs, plan.grid.bounds(plan.cells)
    corner = (f"{value:.12g}" for value in (box.xmin, box.ymin))
    name = "_".join((layer.id, plan.grid.matrix.id, *corner))
    return [
        ("Content-Bbox", ",".join(map(coordinate, in_axis_order(box, crs)))),
        ("Content-Crs", crs_uri(crs.code)),
        ("Content-Disposition", content_disposition("image/tiff", f"{name}.tif")),
    ]
