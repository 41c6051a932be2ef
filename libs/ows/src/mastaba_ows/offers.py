"""What services offer to each other: addresses of tiles, stylesheets, and sources of pixels.

Plugins do not import each other. A service offers something if it has the method of one of the
protocols below, and others ask for it by the functions of this module.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from mastaba.errors import MastabaError

if TYPE_CHECKING:
    from mastaba.api.catalogue import CRS, Layer
    from mastaba.api.services import Site
    from mastaba.api.web import Document

logger = logging.getLogger("mastaba.ows.offers")

STYLESHEET: Final = "application/vnd.mapbox.style+json"
"""Media type of MapLibre styles (OGC API - Styles, 20-009, clause "Mapbox Style")."""

_WORLD: Final = 20037508.342789244
"""Half of the width of Web Mercator in metres."""
_CELL: Final = 2 * _WORLD / 256
"""Cell size of zoom 0 with tiles of 256 pixels, in metres."""
_CLOSE: Final = 1e-6


@dataclass(frozen=True, slots=True)
class Stylesheet:
    """A MapLibre style of a layer.

    Attributes:
        id: unique among all layers.
        title: for people.
        href: address.
        document: returns the style.
    """

    id: str
    title: str
    href: str
    document: Callable[[], Document]


class OffersZoomTiles(Protocol):
    """A service with tiles that clients of ``{z}/{x}/{y}`` read."""

    def zoom_tiles(self, layer: Layer) -> str:
        """Return the template of the stored tiles of a layer that `zooms` finds zooms for.

        It contains ``{z}``, ``{x}`` and ``{y}``; rows are counted from the top. Empty if the
        service does not offer them.
        """


class OffersStylesheets(Protocol):
    """A service with styles of layers."""

    def stylesheets(self, layer: Layer) -> Sequence[Stylesheet]:
        """Return the styles of a layer, the default first."""


class OffersSources(Protocol):
    """A service that knows the sources of pixels."""

    def source_at(self, layer: Layer, x: float, y: float, crs: CRS) -> Mapping[str, Any] | None:
        """Return the source of the pixel that contains a point, as in docs/source-table.md.

        Args:
            layer: that the service publishes, or a variant of it.
            x, y: x before y, units of the CRS.

        Returns:
            The row without ``footprint``; None if the pixel has no source.
        """

    def rows_at(self, layer: Layer, x: Any, y: Any, crs: CRS) -> Sequence[Any]:
        """Return `source_at` of n points, which are read together.

        Args:
            x, y: arrays of the shape (n,).
        """


def zoom_tiles(site: Site, layer: Layer) -> str:
    """Return the template of the tiles of a layer by zoom, column and row; empty if none.

    Of several services, that with the lowest rank answers: its tiles are the cheapest.
    """
    if zooms(layer) is None:
        return ""
    offering = sorted(_published("zoom_tiles", site, layer), key=lambda found: found[0].rank)
    templates = (service.zoom_tiles(shown) for service, shown in offering)
    return next(filter(None, templates), "")


def stylesheets(site: Site, layer: Layer) -> Sequence[Stylesheet]:
    """Return the styles that services of a site offer of a layer, the default first."""
    offering = _published("stylesheets", site, layer)
    return [sheet for service, shown in offering for sheet in service.stylesheets(shown)]


def source_at(site: Site, layer: Layer, x: float, y: float, crs: CRS) -> Mapping[str, Any] | None:
    """Return the source of a pixel; None if no service knows it. See `OffersSources`.

    Never raises: what asks for it has an answer without it.
    """
    for service, shown in _published("source_at", site, layer):
        try:
            # A view of a service may show less of a layer than the view of another one.
            found = service.source_at(shown if layer.key == layer.id else layer, x, y, crs)
        except MastabaError as error:
            logger.warning("the source of a pixel of %s cannot be read: %s", layer.key, error)
            continue
        if found is not None:
            source: Mapping[str, Any] = found
            return source
    return None


def sources_at(
    site: Site, layer: Layer, x: Any, y: Any, crs: CRS
) -> Sequence[Mapping[str, Any] | None]:
    """Return the sources of n pixels, each None if no service knows it. See `OffersSources`.

    Never raises, as `source_at`.

    Args:
        x, y: arrays of the shape (n,), x before y, units of the CRS.
    """
    for service, shown in _published("rows_at", site, layer):
        try:
            found: Sequence[Mapping[str, Any] | None] = service.rows_at(
                shown if layer.key == layer.id else layer, x, y, crs
            )
        except MastabaError as error:
            logger.warning("the sources of pixels of %s cannot be read: %s", layer.key, error)
            continue
        return found
    return [None] * len(x)


def zooms(layer: Layer) -> tuple[int, int] | None:
    """Return the first and the last zoom of a layer.

    None unless each of its levels is the zoom of this name in Web Mercator, whose tiles have any
    size in pixels.
    """
    pyramid = layer.pyramid
    if pyramid.tile_matrix_set.crs.code != "EPSG:3857":
        return None
    for name, level in pyramid.levels.items():
        matrix = level.matrix
        if not (name.isascii() and name.isdigit() and len(name) < 3 and name == str(int(name))):
            return None
        cells = _CELL / 2 ** int(name) * 256 / matrix.tile_width
        is_zoom = (
            matrix.tile_width == matrix.tile_height
            and abs(matrix.cell_size / cells - 1) < _CLOSE
            and abs(matrix.origin_x / -_WORLD - 1) < _CLOSE
            and abs(matrix.origin_y / _WORLD - 1) < _CLOSE
        )
        if not is_zoom:
            return None
    found = sorted(map(int, pyramid.levels))
    return found[0], found[-1]


def _published(method: str, site: Site, layer: Layer) -> Iterator[tuple[Any, Layer]]:
    """Return the services that have a method and publish a layer, each with its view of it."""
    for name in site.services:
        # The services of a view are opened on first use.
        if hasattr(site.plugins.services[name], method):
            service = site.services[name]
            shown = service.site.catalogue.layers.get(layer.id)
            if shown is not None and service.publishes(shown):
                yield service, shown
