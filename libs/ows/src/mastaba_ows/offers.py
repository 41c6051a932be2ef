"""What services offer to each other: tiles, stylesheets, parts, sources of pixels, heat maps.

Plugins do not import each other. A service offers something if it has the method of one of the
protocols below, and others ask for it by the functions of this module.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from mastaba.errors import AccessError, MastabaError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from mastaba.api.catalogue import CRS, BoundingBox, Layer
    from mastaba.api.services import Service, Site
    from mastaba.api.web import Document

    Floats = npt.NDArray[np.float64]

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
        name: in access rules; empty for a generated style.
        title: for people.
        href: address.
        document: returns the style.
    """

    id: str
    name: str
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


class OffersTileTemplates(Protocol):
    """A service whose stored tiles have paths."""

    def tile_template(self, layer: Layer, style: str) -> str:
        """Return the template of the paths of stored tiles; see `tile_template`."""


class OffersStylesheets(Protocol):
    """A service with styles of layers."""

    def stylesheets(self, layer: Layer) -> Sequence[Stylesheet]:
        """Return the styles of a layer, the default first.

        Those that rules hide are left out: `Service.offers` is false for ``style:NAME``.
        """


class OffersParts(Protocol):
    """A service that sends the stored values of a layer in parts."""

    def parts_path(self, layer: Layer) -> str:
        """Return the path of the list of parts of a layer below the service; empty without one."""


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

    def sources_at(
        self, layer: Layer, x: Floats, y: Floats, crs: CRS
    ) -> Sequence[Mapping[str, Any] | None] | None:
        """Return the source of each point, as `source_at` does; None if the layer knows none.

        Args:
            x, y: shape (n,), x before y, units of the CRS.
        """

    def credits(self, layer: Layer, box: BoundingBox) -> str:
        """Return who is to be named for an area, with years, the largest share first.

        Args:
            box: CRS84, degrees.

        Returns:
            at most 200 characters; empty if the layer knows no sources there.
        """

    def sources_in(self, layer: Layer, box: BoundingBox) -> Sequence[Mapping[str, Any]]:
        """Return the rows of the sources of an area, the largest share first; no pixel is read.

        Shares, from 0 to 1, come from the boxes of the sources, and are members of the rows.

        Args:
            box: CRS84, degrees.

        Raises:
            MastabaError: the sources cannot be read.
        """

    def sources_path(self, layer: Layer) -> str:
        """Return the path of the sources of a layer below the service; empty if it knows none."""


class OffersHeatMaps(Protocol):
    """A service that knows how often areas of a layer are requested."""

    def heat_map(self, layer: Layer) -> str:
        """Return the path of the heat map of a layer, GeoJSON, below the service; empty if none."""


def zoom_tiles(site: Site, layer: Layer) -> str:
    """Return the template of the tiles of a layer by zoom, column and row; empty if none.

    Of several services, that with the lowest rank answers: its tiles are the cheapest.
    """
    if zooms(layer) is None:
        return ""
    offering = sorted(_published("zoom_tiles", site, layer), key=lambda found: found[0].rank)
    templates = (service.zoom_tiles(shown) for service, shown in offering)
    return next(filter(None, templates), "")


def tile_template(service: Service, layer: Layer, style: str = "") -> str:
    """Return the template of the paths of the stored tiles of a layer; empty if there is none.

    It contains ``{TileMatrix}``, ``{TileRow}`` and ``{TileCol}``, and ``{TileMatrixSet}`` if the
    service offers several sets.

    Args:
        layer: with the identifier by which addresses name it.
        style: its identifier, or ``{style}`` for a placeholder; empty for none. A service without
            styles in paths ignores it.
    """
    find = getattr(service, "tile_template", None)
    return "" if find is None else str(find(layer, style))


def stylesheets(site: Site, layer: Layer, service: str) -> Sequence[Stylesheet]:
    """Return the styles that services of a site offer of a layer, the default first.

    A value or version of a layer has none: the sources of styles are the tiles of the layer itself.

    Args:
        service: name of the one that shows them. What rules hide there is left out.
    """
    offering = _published("stylesheets", site, layer) if layer.key == layer.id else ()
    return [
        sheet
        for offered, shown in offering
        for sheet in offered.stylesheets(shown)
        if (service, f"style:{sheet.name}") not in layer.withheld
    ]


def source_at(site: Site, layer: Layer, x: float, y: float, crs: CRS) -> Mapping[str, Any] | None:
    """Return the source of a pixel; None if no service knows it. See `OffersSources`.

    Never raises: what asks for it has an answer without it.
    """
    for service, asked in _asked("source_at", site, layer):
        try:
            found = service.source_at(asked, x, y, crs)
        except MastabaError as error:
            logger.warning("the source of a pixel of %s cannot be read: %s", layer.key, error)
            continue
        if found is not None:
            source: Mapping[str, Any] = found
            return source
    return None


def sources_at(
    site: Site, layer: Layer, x: Floats, y: Floats, crs: CRS
) -> Sequence[Mapping[str, Any] | None] | None:
    """Return the source of each point; None if no service knows those of the layer.

    Args:
        x, y: shape (n,), x before y, units of the CRS.

    Raises:
        RequestError: the points are in too many tiles.
        SlabFormatError, StorageError, OverloadedError: the sources cannot be read.
    """
    for service, asked in _asked("sources_at", site, layer):
        found = service.sources_at(asked, x, y, crs)
        if found is not None:
            sources: Sequence[Mapping[str, Any] | None] = found
            return sources
    return None


def credits_of(site: Site, layer: Layer, box: BoundingBox) -> str:
    """Return who is to be named for an area of a layer; empty if no service knows its sources.

    Never raises, as `source_at`.

    Args:
        box: CRS84, degrees.
    """
    for service, asked in _asked("credits", site, layer):
        try:
            found: str = service.credits(asked, box)
        except MastabaError as error:
            logger.warning("the sources of %s cannot be read: %s", layer.key, error)
            continue
        if found:
            return found
    return ""


def sources_in(site: Site, layer: Layer, box: BoundingBox) -> Sequence[Mapping[str, Any]]:
    """Return the sources of an area of a layer, the largest share first; none if unknown.

    What is locked is unknown: only the sources need another credential, not the layer.

    Args:
        box: CRS84, degrees.

    Raises:
        MastabaError: the sources cannot be read. A file without them would have other bytes.
    """
    for service, asked in _asked("sources_in", site, layer):
        try:
            rows: Sequence[Mapping[str, Any]] = service.sources_in(asked, box)
        except AccessError:
            continue
        if rows:
            return rows
    return ()


def sources_address(site: Site, layer: Layer) -> str:
    """Return the address of the sources of a layer; empty if no service knows any.

    Never raises, as `source_at`. It is the address of the view.
    """
    return _address("sources_path", site, layer)


def parts_address(site: Site, layer: Layer) -> str:
    """Return the address of the parts of the stored values of a layer; empty if there are none.

    Never raises, as `source_at`. It is the address of the view.
    """
    return _address("parts_path", site, layer)


def heat_map(site: Site, layer: Layer) -> str:
    """Return the address of the heat map of a layer; empty if no service offers one.

    It is the address of the view: the service may answer all views.
    """
    for service, shown in _published("heat_map", site, layer):
        path = service.heat_map(shown)
        if path:
            return f"{site.catalogue.services[service.name].endpoint_uri}{path}"
    return ""


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


def _address(method: str, site: Site, layer: Layer) -> str:
    """Return the first address that a service of a site has for a layer; empty if none has one."""
    for service, asked in _asked(method, site, layer):
        try:
            path = getattr(service, method)(asked)
        except MastabaError as error:
            logger.warning("%s of %s cannot be found: %s", method, layer.key, error)
            continue
        if path:
            return f"{site.catalogue.services[service.name].endpoint_uri}{path}"
    return ""


def _asked(method: str, site: Site, layer: Layer) -> Iterator[tuple[Any, Layer]]:
    """Return the services that have a method and publish a layer, each with what to ask about.

    A view of a service may show less of a layer than the view of another one. A value or version
    is the same in all.
    """
    for service, shown in _published(method, site, layer):
        yield service, shown if layer.key == layer.id else layer


def _published(method: str, site: Site, layer: Layer) -> Iterator[tuple[Any, Layer]]:
    """Return the services that have a method and publish a layer, each with its view of it."""
    for name in site.services:
        # The services of a view are opened on first use.
        if hasattr(site.plugins.services[name], method):
            service = site.services[name]
            shown = service.site.catalogue.layers.get(layer.id)
            if shown is not None and service.publishes(shown):
                yield service, shown
