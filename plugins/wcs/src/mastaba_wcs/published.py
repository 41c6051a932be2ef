"""The coverages of the service, with what requests and documents need."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from mastaba.api.catalogue import CRS, CRS84, BoundingBox, Layer
from mastaba.api.web import printable
from mastaba.errors import NoSuchValueError, UnknownNameError
from mastaba_ows.crs import crs_code, crs_uri
from mastaba_ows.dimensions import requested_values
from mastaba_ows.errors import GoneError
from mastaba_render.api.crs import CRSOffer
from mastaba_wcs.errors import InvalidSubsettingError, NoSuchCoverageError
from mastaba_wcs.identifiers import coverage_id

if TYPE_CHECKING:
    from mastaba.api.services import Site
    from mastaba_coverage import Coverage, CoverageGrid

logger = logging.getLogger("mastaba.wcs")

SWITCH: Final = "wcs"
"""Key of layer descriptors."""
LAYER_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "description": "Publication by the service wcs, which must be turned on for each layer.",
    "additionalProperties": False,
    "properties": {
        "enabled": {
            "type": "boolean",
            "default": False,
            "description": "Whether the stored values of the layer are offered.",
        }
    },
}


@dataclass(frozen=True, slots=True, eq=False)
class PublishedCoverage:
    """One coverage.

    Attributes:
        id: identifier in documents.
        coverage: its stored values.
        codes: CRSs of requests and answers, the native one first.
    """

    id: str
    coverage: Coverage
    codes: tuple[str, ...]

    @property
    def layer(self) -> Layer:
        """The layer."""
        return self.coverage.layer

    @property
    def grid(self) -> CoverageGrid:
        """The grid of the coverage: that of the finest level."""
        return self.coverage.finest

    @property
    def crs(self) -> CRS:
        """The native CRS."""
        return self.layer.pyramid.tile_matrix_set.crs

    @property
    def edges(self) -> BoundingBox:
        """Outer edges of the grid, in the native CRS."""
        return self.grid.edges(self.grid.window)

    @property
    def nodata(self) -> tuple[float | None, ...]:
        """The value of each field where nothing is stored; None where alpha tells it."""
        if "alpha" in self.coverage.fields:
            return (None,) * len(self.coverage.fields)
        return self.coverage.nodata

    def offered_crs(self, text: str) -> CRS | None:
        """Return the CRS of an identifier in any form; None if it is not offered."""
        code = crs_code(text)
        # Only offered codes reach the projection library.
        return CRS.from_code(code) if code in self.codes else None


class PublishedCoverages:
    """All coverages of the service.

    Args:
        site: gives the readers of the layers.
        layers: those that the service publishes.

    Attributes:
        all: in document order.
        codes: CRSs of any coverage.
    """

    def __init__(self, site: Site, layers: Iterable[Layer]) -> None:
        # Loaded here, so that listing the plugins does not load it.
        from mastaba_coverage import Coverage

        self._site = site
        offer = CRSOffer(site.catalogue.settings)
        found: list[PublishedCoverage] = []
        for layer in layers:
            if not is_offered(layer):
                continue
            try:
                coverage = Coverage.of(layer, site.catalogue.readers_of(layer))
            except ValueError as error:
                logger.warning("%s, so wcs does not offer it", error)
                continue
            codes = _codes(offer, layer)
            found.append(PublishedCoverage(coverage_id(layer.id), coverage, codes))
        self.all = tuple(found)
        self.codes = tuple(dict.fromkeys(code for one in found for code in one.codes))
        # Clients may also send the identifier of the layer.
        self._by_name = {one.layer.id: one for one in found} | {one.id: one for one in found}

    def known(self, name: str) -> bool:
        """Return whether a coverage has this identifier, or its layer."""
        return name in self._by_name

    def layer_of(self, name: str) -> str:
        """Return the layer whose coverage a name means; the name if it is no identifier."""
        found = self._base(name)
        return name if found is None else found.layer.id

    def find(
        self, name: str, parameters: Mapping[str, str] = MappingProxyType({})
    ) -> PublishedCoverage:
        """Return a coverage by its identifier, that of its layer, or the name of a value.

        Args:
            parameters: of a request, in lower case, with values of dimensions. Of several values,
                the newest is returned.

        Raises:
            NoSuchCoverageError: there is none.
            InvalidSubsettingError: it has no such value.
            MissingDimensionError, InvalidDimensionError: the value of a dimension is refused.
            OverloadedError: a value cannot be opened at the moment.
        """
        found = self._by_name.get(name)
        if found is not None and not found.layer.dimensions:
            return found
        base = self._base(name)
        values = {} if base is None else requested_values(parameters, base.layer.dimensions)
        unknown = NoSuchCoverageError(f"there is no coverage {printable(name)}", name)
        try:
            catalogue = self._site.catalogue
            layer = catalogue.resolve(name if found is None else found.layer.id, values).layer
        except NoSuchValueError as error:
            if not values:
                raise unknown from None
            raise InvalidSubsettingError(str(error), error.parameter) from None
        except UnknownNameError as error:
            raise error if isinstance(error, GoneError) else unknown from None
        whole = self._by_name.get(layer.id)
        if whole is None or layer is whole.layer:
            if whole is None:
                raise unknown
            return whole
        from mastaba_coverage import Coverage

        return replace(whole, coverage=Coverage.of(layer, catalogue.readers_of(layer)))

    def dimensions(self, name: str) -> frozenset[str]:
        """Return the names of the dimensions of a coverage; none if it is unknown."""
        found = self._base(name)
        return frozenset(() if found is None else (one.name for one in found.layer.dimensions))

    def _base(self, name: str) -> PublishedCoverage | None:
        """Return a coverage by its name, which may have values, or by the identifier of it."""
        return self._by_name.get(name) or self._by_name.get(
            name.partition("~")[0].partition(";")[0]
        )


def is_offered(layer: Layer) -> bool:
    """Return whether the descriptor of a layer turns the service on for it."""
    return layer.own.get(SWITCH, {}).get("enabled") is True


def crs_address(code: str) -> str | None:
    """Return the address of the definition of a CRS; None if it has none."""
    uri = crs_uri(code)
    return uri if uri.startswith("http") else None


def axis_labels(crs: CRS) -> list[str]:
    """Return the names of the axes, in the order of the CRS."""
    labels = ["Long", "Lat"] if crs.is_geographic else ["E", "N"]
    return labels[::-1] if crs.northing_first else labels


def ordered(crs: CRS, x: float, y: float) -> tuple[float, float]:
    """Return a position in the axis order of the CRS."""
    return (y, x) if crs.northing_first else (x, y)


def _codes(offer: CRSOffer, layer: Layer) -> tuple[str, ...]:
    own = offer.of(layer).own
    shared = (CRS84, *offer.shared) if offer.shared else ()
    return tuple(dict.fromkeys((*own, *shared)))
