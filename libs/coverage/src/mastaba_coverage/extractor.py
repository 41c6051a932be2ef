"""Answers to what clients want, the same for all protocols."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from mastaba.api.access import LockedReader
from mastaba.api.catalogue import transform_points
from mastaba.api.web import Request, SizedBody, Streams, addressable_response, spooled
from mastaba.errors import InvalidParameterError, UnsupportedFormatError
from mastaba_coverage.answer import Answer, extract
from mastaba_coverage.errors import NotCopyableError, OutsideCoverageError
from mastaba_coverage.grid import Coverage
from mastaba_coverage.heads import HeadCache
from mastaba_coverage.made import MadeDrawn, MadeStored, made_file, rows_of
from mastaba_coverage.plan import CoveragePlan
from mastaba_coverage.planning import Plan, Planner, with_origin
from mastaba_render.api.encoders import StripRaster
from mastaba_render.api.geotiff import UNKNOWN, Origins, SourcesIn
from mastaba_render.api.maps import drawn_response

if TYPE_CHECKING:
    from mastaba.api.catalogue import CRS, Layer
    from mastaba.api.services import Site
    from mastaba.api.web import Body, Response
    from mastaba_coverage.limits import CoverageLimits
    from mastaba_coverage.made import Made
    from mastaba_coverage.request import CoverageRequest
    from mastaba_render.api.encoders import Encoder
    from mastaba_render.api.maps import Renderer

PICTURES: Final = ("png", "jpeg", "webp")
"""Formats beside GeoTIFF; names of `CoverageRequest.format`."""
_ALWAYS: Final = ("Cache-Control", "Surrogate-Key", "Vary")
"""Headers of answers without content too."""
_CONDITIONS: Final = frozenset(
    f"HTTP_{name}"
    for name in ("IF_MATCH", "IF_NONE_MATCH", "IF_MODIFIED_SINCE", "IF_RANGE", "RANGE")
)
"""Keys of headers that make an answer partial, or empty (RFC 9110, sections 13 and 14)."""


@lru_cache(maxsize=16)
def _streams(most: int) -> Streams:
    """Return the counter of a process: services with the same limit share one."""
    return Streams(most)


class Extractor:
    """Plans and answers requests for coverages.

    Args:
        site: the configuration.
        limits: of answers.
        sources: returns the rows of the sources of a layer in a box in CRS84, the largest share
            first (`mastaba_ows.offers.sources_in`). None names no sources in files.

    Attributes:
        limits: as given.
    """

    def __init__(
        self,
        site: Site,
        limits: CoverageLimits,
        sources: SourcesIn | None = None,
    ) -> None:
        self._origins = None if sources is None else Origins(sources)
        self._site = site
        self.limits = limits
        self._different: set[str] = set()
        self._heads = HeadCache()

    def coverage(self, layer: Layer) -> Coverage:
        """Return the coverage of a raster layer, to be kept by the caller.

        Raises:
            ValueError: the layer has no cell inside its box.
        """
        return Coverage.of(layer, self._site.catalogue.readers_of(layer))

    def plan(self, coverage: Coverage, request: CoverageRequest) -> Plan:
        """Return what to read for a request; see `Planner.plan`, which raises the same errors.

        Raises:
            UnsupportedFormatError: the format cannot hold the fields.
            AccessError: the data of the layer are withheld.
            MastabaError: the sources of the values cannot be read.
        """
        reader = coverage.finest.reader
        if isinstance(reader, LockedReader):
            # Refuses, before limits are checked: a smaller request would be refused too.
            reader.locate(0, 0)
        plan = self._planner.plan(coverage, request)
        if plan.format != "tiff":
            self._encoder(plan)
        elif self._origins is not None:
            plan = with_origin(plan, self._origins)
        if isinstance(plan, CoveragePlan) and coverage.layer.key in self._different:
            return plan.without_copies()
        return plan

    def respond(self, request: Request, plan: Plan, headers: Sequence[tuple[str, str]]) -> Response:
        """Return the answer to a request: 200, 206, 304, 412 or 416, the last two without a body.

        The same plan gives the same bytes and the same ETag.

        Args:
            plan: what is in the answer.
            headers: of a complete answer. ETag, and what belongs to ranges, is added.

        Raises:
            CoverageTooLargeError: the answer exceeds a limit.
            OverloadedError: too many downloads are running, or too many maps are waiting.
            SlabFormatError, StorageError: the data cannot be read.
        """
        found = self._prepared(plan)
        if isinstance(found, Answer):
            return addressable_response(request, list(headers), found, self._shared_streams)
        return drawn_response(
            request,
            self._site.renderer.admission,
            [found],
            self._identity(found),
            self._cost(found),
            partial(self._made, found),
            always=[item for item in headers if item[0] in _ALWAYS],
            content=[item for item in headers if item[0] not in _ALWAYS],
            # A table of sources may be rewritten in place.
            is_dated=found.plan.origin == UNKNOWN,
        )

    def body(self, request: Request, plan: Plan) -> Body:
        """Return the whole answer, to be sent as a part of another one.

        Conditions and ranges of the request are ignored: they are not about this part.

        Raises:
            CoverageTooLargeError, OverloadedError, SlabFormatError, StorageError: as `respond`.
        """
        found = self._prepared(plan)
        if isinstance(found, Answer):
            # It takes one of the places of long answers until it is sent.
            sent = {name: text for name, text in request.environ.items() if name not in _CONDITIONS}
            plain = Request(request.method, request.path, request.query_string, sent)
            return addressable_response(plain, [], found, self._shared_streams).body
        with self._site.renderer.admission.map(self._cost(found)):
            made = self._made(found)
        return made if isinstance(made, bytes | SizedBody) else spooled(made)

    def value_at(
        self, coverage: Coverage, crs: CRS, x: float, y: float, fields: Sequence[str]
    ) -> dict[str, float | None]:
        """Return the stored values of the cell at a position, by field.

        Nodata, and values that are not finite, are None.

        Raises:
            OutsideCoverageError: there is no cell.
            InvalidParameterError: the position cannot be transformed.
            SlabFormatError, StorageError: the data cannot be read.
        """
        source = self._planner.same(crs, coverage.crs)
        if source is not coverage.crs:
            found_x, found_y = transform_points(source, coverage.crs, np.array([x]), np.array([y]))
            x, y = float(found_x[0]), float(found_y[0])
        if not (math.isfinite(x) and math.isfinite(y)):
            raise InvalidParameterError("the position cannot be transformed", "trim")
        grid = coverage.finest
        place = grid.cell_at(x, y)
        if place is None:
            raise OutsideCoverageError("the position is outside the coverage")
        values = self._renderer.stored_value(coverage.layer, grid.matrix.id, *place)
        found: dict[str, float | None] = {}
        for name in fields:
            number = coverage.fields.index(name)
            value = values[number].item()
            is_valid = math.isfinite(value) and (
                "alpha" in coverage.fields or value != coverage.nodata[number]
            )
            found[name] = value if is_valid else None
        return found

    @cached_property
    def _renderer(self) -> Renderer:
        return self._site.renderer.apart()

    @cached_property
    def _planner(self) -> Planner:
        settings = self._site.catalogue.settings
        return Planner(self._renderer, settings.map, settings.equivalences, self.limits)

    @property
    def _shared_streams(self) -> Streams:
        return _streams(self.limits.streams)

    def _prepared(self, plan: Plan) -> Answer | Made:
        if not isinstance(plan, CoveragePlan):
            return MadeDrawn(plan, self.limits)
        if plan.is_addressable:
            try:
                return extract(
                    plan,
                    self.limits,
                    self._site.renderer.admission.give_way,
                    partial(self._different.add, plan.coverage.layer.key),
                    self._heads,
                )
            except NotCopyableError:
                self._different.add(plan.coverage.layer.key)
                plan = plan.without_copies()
        return MadeStored(plan, self.limits)

    def _encoder(self, plan: Plan) -> Encoder:
        """Return the encoder of a picture.

        Raises:
            UnsupportedFormatError: there is none, or it cannot hold the fields.
        """
        encoder = self._site.encoders.get(f"image/{plan.format}")
        if encoder is None:
            raise UnsupportedFormatError(f"{plan.format} is not offered", "format")
        if not encoder.accepts(plan.coverage.dtype.newbyteorder("="), len(plan.fields)):
            raise UnsupportedFormatError(
                f"{plan.format} cannot hold the fields {', '.join(plan.fields)}", "format"
            )
        return encoder

    def _identity(self, made: Made) -> object:
        plan = made.plan
        kind: list[Any] = [
            made.fields,
            plan.coverage.layer.id,
            plan.coverage.layer.pyramid.generation,
            plan.format,
            plan.fields,
            plan.edges,
        ]
        if plan.format != "tiff":
            kind.append(self._encoder(plan))
        if isinstance(plan, CoveragePlan):
            return [
                *kind,
                plan.has_mask,
                [(item.grid.matrix.id, item.cells, item.sampling) for item in plan.images],
            ]
        # The layer says what else decides on pixels.
        return [*kind, plan.coverage.layer, plan.crs, plan.kernel]

    def _cost(self, made: Made) -> int:
        plan = made.plan
        if plan.format == "tiff":
            return made.cost
        shape = plan.rows, plan.columns, len(plan.fields)
        return made.cost + self._encoder(plan).memory(shape, plan.coverage.dtype)

    def _made(self, made: Made) -> Body | Iterator[bytes]:
        plan = made.plan
        if plan.format == "tiff":
            return made_file(made)
        shape = plan.rows, plan.columns, len(plan.fields)
        raster = StripRaster(shape, plan.coverage.dtype, plan.edges, plan.crs, None, rows_of(made))
        return self._encoder(plan).encode_strips(raster, {})
