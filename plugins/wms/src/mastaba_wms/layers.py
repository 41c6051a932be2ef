"""Layer elements for the capabilities of both versions (wms.md 2.1)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Final

from mastaba.model.bbox import WORLD, BoundingBox
from mastaba.model.crs import CRS, Equivalences
from mastaba.model.extent import bbox_in, geographic_extent
from mastaba.model.layer import Attribution, Layer, Metadata
from mastaba.model.style import Style
from mastaba.web.markup import coordinate, decimal, element, leaf, optional_leaf
from mastaba_wms.getlegendgraphic import DEFAULT_FORMAT, legend_url
from mastaba_wms.published import PublishedLayer
from mastaba_wms.versions import Version

_XLINK: Final = "http://www.w3.org/1999/xlink"
_NOT_NMTOKEN: Final = re.compile(r"[^\w.:-]")
_NO_TYPE: Final = "other"


class LayerWriter:
    """Writes layers in one version.

    Args:
        version: of the document.
        endpoint_uri: public URL of the service.
        legends: whether to announce generated legends for styles with a palette.
        equivalences: CRSs treated as the same.
    """

    def __init__(
        self, version: Version, endpoint_uri: str, equivalences: Equivalences, *, legends: bool
    ) -> None:
        self._is_130 = version is Version.V1_3_0
        self._crs_name = version.crs_parameter
        self._endpoint_uri = endpoint_uri
        self._legends = legends
        self._equivalences = equivalences

    def root(
        self, title: str, abstract: str, shared: Sequence[str], layers: Iterable[PublishedLayer]
    ) -> str:
        """Return the unnamed layer that contains all others.

        Args:
            shared: codes of the CRSs in which all layers are offered.
            layers: in document order.
        """
        codes = self._codes(shared)
        layers = list(layers)
        box = geographic_extent(published.layer for published in layers) or WORLD
        own = self._bounding_box("CRS:84", box) if self._is_130 and "CRS:84" in codes else ""
        return element(
            "Layer",
            leaf("Title", title),
            optional_leaf("Abstract", abstract),
            *(leaf(self._crs_name, code) for code in codes),
            self._geographic_box(box),
            own,
            *(self._layer(layer, codes) for layer in layers),
        )

    def _layer(self, published: PublishedLayer, shared: Sequence[str]) -> str:
        layer = published.layer
        own = self._codes(published.crs.own)
        # A layer does not inherit the bounding boxes of the root.
        boxed = dict.fromkeys([*own, *shared])
        return element(
            "Layer",
            leaf("Name", layer.id),
            leaf("Title", layer.title),
            optional_leaf("Abstract", layer.abstract),
            keyword_list(layer.keywords),
            *(leaf(self._crs_name, code) for code in own),
            self._geographic_box(layer.geographic_bbox),
            *(self._box_in(code, layer) for code in boxed),
            self._attribution(layer.attribution) if layer.attribution else "",
            *(self._metadata(metadata) for metadata in layer.metadata),
            *(self._style(layer, style) for style in layer.styles),
            self._scales(layer),
            attributes={"queryable": str(int(published.is_queryable)), "opaque": "0"},
        )

    def _codes(self, codes: Iterable[str]) -> list[str]:
        # 1.1.1 has no authority CRS; EPSG:4326 replaces CRS:84, the only code used here.
        known = (code if self._is_130 or code != "CRS:84" else "EPSG:4326" for code in codes)
        return list(dict.fromkeys(known))

    def _geographic_box(self, bbox: BoundingBox) -> str:
        west, south, east, north = map(coordinate, (bbox.xmin, bbox.ymin, bbox.xmax, bbox.ymax))
        if not self._is_130:
            corners = {"minx": west, "miny": south, "maxx": east, "maxy": north}
            return element("LatLonBoundingBox", attributes=corners)
        return element(
            "EX_GeographicBoundingBox",
            leaf("westBoundLongitude", west),
            leaf("eastBoundLongitude", east),
            leaf("southBoundLatitude", south),
            leaf("northBoundLatitude", north),
        )

    def _box_in(self, code: str, layer: Layer) -> str:
        """Return a layer's ``BoundingBox`` in a CRS, or an empty string without one."""
        bbox = bbox_in(layer, CRS.from_code(code), self._equivalences)
        return "" if bbox is None else self._bounding_box(code, bbox)

    def _bounding_box(self, code: str, bbox: BoundingBox) -> str:
        x, y = (bbox.xmin, bbox.xmax), (bbox.ymin, bbox.ymax)
        if self._is_130 and CRS.from_code(code).northing_first:
            x, y = y, x
        corners = {"minx": x[0], "miny": y[0], "maxx": x[1], "maxy": y[1]}
        texts = {name: coordinate(value) for name, value in corners.items()}
        return element("BoundingBox", attributes={self._crs_name: code} | texts)

    def _attribution(self, attribution: Attribution) -> str:
        logo = attribution.logo
        return element(
            "Attribution",
            leaf("Title", attribution.title),
            self.online_resource(attribution.url),
            self._picture("LogoURL", logo.media_type, logo.url, logo.width, logo.height)
            if logo
            else "",
        )

    def _metadata(self, metadata: Metadata) -> str:
        if self._is_130:
            kind = _NOT_NMTOKEN.sub("_", metadata.type) or _NO_TYPE
        elif "19115" in metadata.type or "TC211" in metadata.type:
            kind = "TC211"
        elif "FGDC" in metadata.type:
            kind = "FGDC"
        else:
            return ""  # the DTD of 1.1.1 allows only these two
        return element(
            "MetadataURL",
            leaf("Format", metadata.media_type),
            self.online_resource(metadata.url),
            attributes={"type": kind},
        )

    def _style(self, layer: Layer, style: Style) -> str:
        return element(
            "Style",
            leaf("Name", style.identifier),
            leaf("Title", style.title or style.identifier),
            optional_leaf("Abstract", style.abstract),
            self._legend(layer, style),
        )

    def _legend(self, layer: Layer, style: Style) -> str:
        legend = style.legend
        if legend is not None:
            return self._picture(
                "LegendURL", legend.media_type, legend.url, legend.width, legend.height
            )
        if not self._legends or style.palette is None:
            return ""
        # Loaded on first use: see GetLegendGraphic.
        from mastaba_wms.legend import legend_size, style_of_legend

        url = legend_url(self._endpoint_uri, layer.id, style, DEFAULT_FORMAT)
        return self._picture(
            "LegendURL", DEFAULT_FORMAT, url, *legend_size(style_of_legend(layer, style))
        )

    def _picture(self, name: str, media_type: str, url: str, width: int, height: int) -> str:
        if width <= 0 or height <= 0:
            return ""  # both are mandatory, and zero is not allowed
        return element(
            name,
            leaf("Format", media_type),
            self.online_resource(url),
            attributes={"width": str(width), "height": str(height)},
        )

    def _scales(self, layer: Layer) -> str:
        pyramid = layer.pyramid
        crs = pyramid.tile_matrix_set.crs
        matrices = (pyramid.finest.matrix, pyramid.coarsest.matrix)
        if self._is_130:
            finest, coarsest = (decimal(matrix.scale_denominator(crs)) for matrix in matrices)
            return leaf("MinScaleDenominator", finest) + leaf("MaxScaleDenominator", coarsest)
        # The diagonal of a pixel in metres (OGC 01-068r3 clause 7.1.4.5.16).
        diagonal = math.sqrt(2) * crs.metres_per_unit
        finest, coarsest = (decimal(matrix.cell_size * diagonal) for matrix in matrices)
        return element("ScaleHint", attributes={"min": finest, "max": coarsest})

    def online_resource(self, url: str) -> str:
        """Return the ``OnlineResource`` element."""
        # The DTD of 1.1.1 allows the prefix declaration only here.
        declared = {} if self._is_130 else {"xmlns:xlink": _XLINK}
        return element(
            "OnlineResource", attributes=declared | {"xlink:type": "simple", "xlink:href": url}
        )


def keyword_list(words: Iterable[str]) -> str:
    """Return ``KeywordList``, or an empty string without keywords."""
    leaves = [leaf("Keyword", word) for word in words]
    return element("KeywordList", *leaves) if leaves else ""
