"""Layer elements in the capabilities of both versions (wms.md 2.1)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from mastaba.api.catalogue import (
    CRS,
    WGS84,
    WORLD,
    BoundingBox,
    Catalogue,
    Layer,
    Metadata,
    Style,
    bbox_in,
    geographic_extent,
)
from mastaba.api.web import coordinate, decimal
from mastaba_ows.dimensions import with_further_names
from mastaba_ows.xml import XLINK, Element, add, add_copy, add_filled, add_list, record
from mastaba_wms.dimensions import attributes_of, units_of
from mastaba_wms.getlegendgraphic import DEFAULT_FORMAT, legend_url
from mastaba_wms.published import PublishedLayer
from mastaba_wms.versions import Version

_WMS: Final = "{http://www.opengis.net/wms}"
_GEOGRAPHIC_BOX: Final = record(
    f"{_WMS}EX_GeographicBoundingBox",
    f"{_WMS}westBoundLongitude",
    f"{_WMS}eastBoundLongitude",
    f"{_WMS}southBoundLatitude",
    f"{_WMS}northBoundLatitude",
)
_NOT_NMTOKEN: Final = re.compile(r"[^\w.:-]")
_NO_TYPE: Final = "other"


class LayerWriter:
    """Writes layers in one version.

    Args:
        version: of the document.
        endpoint_uri: public URL of the service.
        catalogue: of the service; has the values of dimensions.
        values: values and runs of a dimension, at most.
        legends: whether to announce generated legends, for palettes and for floats.

    Attributes:
        namespace: of the elements, as `add` needs it.
    """

    def __init__(
        self,
        version: Version,
        endpoint_uri: str,
        catalogue: Catalogue,
        *,
        values: int,
        legends: bool,
    ) -> None:
        self._is_130 = version is Version.V1_3_0
        self.namespace = _WMS if self._is_130 else ""
        self._crs_name = version.crs_parameter
        self._endpoint_uri = endpoint_uri
        self._catalogue = catalogue
        self._values = values
        self._equivalences = catalogue.settings.equivalences
        self._legends = legends

    def add(
        self,
        parent: Element,
        name: str,
        text: str = "",
        attributes: dict[str, str] | None = None,
    ) -> Element:
        """Append an element of WMS and return it."""
        return add(parent, self.namespace + name, text, attributes)

    def add_texts(
        self, element: Element, title: str, abstract: str, keywords: Iterable[str] = ()
    ) -> None:
        """Append ``Title``, and ``Abstract`` and ``KeywordList`` unless they are empty."""
        self.add(element, "Title", title)
        add_filled(element, (f"{self.namespace}Abstract", abstract))
        add_list(element, f"{self.namespace}KeywordList", f"{self.namespace}Keyword", keywords)

    def add_online_resource(self, parent: Element, url: str) -> None:
        """Append ``OnlineResource``."""
        # In 1.1.1, the DTD allows the declaration of the prefix only here; lxml adds it.
        self.add(
            parent, "OnlineResource", attributes={f"{XLINK}type": "simple", f"{XLINK}href": url}
        )

    def add_root_layer(
        self,
        parent: Element,
        title: str,
        abstract: str,
        shared: Sequence[str],
        layers: Sequence[PublishedLayer],
        metadata: Metadata | None = None,
    ) -> None:
        """Append the unnamed layer that contains all others.

        Args:
            shared: codes of the CRSs in which all layers are offered.
            layers: in document order.
            metadata: link to the metadata record of the service.
        """
        codes = self._codes(shared)
        box = geographic_extent(published.layer for published in layers) or WORLD
        root = self.add(parent, "Layer")
        self.add_texts(root, title, abstract)
        for code in codes:
            self.add(root, self._crs_name, code)
        self._add_geographic_box(root, box)
        if self._is_130 and "CRS:84" in codes:
            self._add_box(root, "CRS:84", WGS84, box)
        if metadata is not None:
            self._add_metadata(root, metadata)
        for published in layers:
            for layer in with_further_names([published.layer], self._catalogue):
                self._add_layer(root, replace(published, layer=layer), codes)

    def _add_layer(self, parent: Element, published: PublishedLayer, shared: Sequence[str]) -> None:
        layer = published.layer
        codes = self._codes(published.crs.own)
        queryable = "1" if published.is_queryable else "0"
        element = self.add(parent, "Layer", attributes={"queryable": queryable, "opaque": "0"})
        self.add(element, "Name", layer.id)
        self.add_texts(element, layer.title, layer.abstract, layer.keywords)
        for code in codes:
            self.add(element, self._crs_name, code)
        self._add_geographic_box(element, layer.geographic_bbox)
        # A layer does not inherit the bounding boxes of the root.
        for code in dict.fromkeys([*codes, *shared]):
            crs = CRS.from_code(code)
            bbox = bbox_in(layer, crs, self._equivalences)
            if bbox is not None:
                self._add_box(element, code, crs, bbox)
        if layer.dimensions:
            self._add_dimensions(element, layer)
        if layer.attribution:
            attribution = self.add(element, "Attribution")
            self.add(attribution, "Title", layer.attribution.title)
            if layer.attribution.url:
                self.add_online_resource(attribution, layer.attribution.url)
            if logo := layer.attribution.logo:
                size = logo.width, logo.height
                self._add_image(attribution, "LogoURL", logo.media_type, logo.url, *size)
        for metadata in layer.metadata:
            self._add_metadata(element, metadata)
        for style in layer.styles:
            self._add_style(element, layer, style)
        self._add_scales(element, layer)

    def _add_dimensions(self, element: Element, layer: Layer) -> None:
        found = self._catalogue.values_of(layer, self._values)
        if self._is_130:
            for one in found:
                attributes = units_of(one) | attributes_of(one)
                self.add(element, "Dimension", one.extent, attributes)
            return
        for one in found:
            self.add(element, "Dimension", attributes=units_of(one))
        for one in found:
            # The document type has no other attributes than these, although the standard does.
            known = attributes_of(one)
            attributes = {"name": one.dimension.name} | {
                name: known[name] for name in ("default", "nearestValue") if name in known
            }
            self.add(element, "Extent", one.extent, attributes)

    def _codes(self, codes: Iterable[str]) -> list[str]:
        # 1.1.1 has no authority CRS; EPSG:4326 replaces CRS:84, the only code used here.
        known = (code if self._is_130 or code != "CRS:84" else "EPSG:4326" for code in codes)
        return list(dict.fromkeys(known))

    def _add_geographic_box(self, element: Element, bbox: BoundingBox) -> None:
        west, south, east, north = map(coordinate, (bbox.xmin, bbox.ymin, bbox.xmax, bbox.ymax))
        if not self._is_130:
            corners = {"minx": west, "miny": south, "maxx": east, "maxy": north}
            self.add(element, "LatLonBoundingBox", attributes=corners)
            return
        add_copy(element, _GEOGRAPHIC_BOX, west, east, south, north)

    def _add_box(self, element: Element, code: str, crs: CRS, bbox: BoundingBox) -> None:
        corners = map(coordinate, (bbox.xmin, bbox.ymin, bbox.xmax, bbox.ymax))
        names = ("minx", "miny", "maxx", "maxy")
        if self._is_130 and crs.northing_first:
            names = ("miny", "minx", "maxy", "maxx")
        texts = dict(zip(names, corners, strict=True))
        self.add(element, "BoundingBox", attributes={self._crs_name: code} | texts)

    def _add_metadata(self, element: Element, metadata: Metadata) -> None:
        if self._is_130:
            kind = _NOT_NMTOKEN.sub("_", metadata.type) or _NO_TYPE
        elif "19115" in metadata.type or "TC211" in metadata.type:
            kind = "TC211"
        elif "FGDC" in metadata.type:
            kind = "FGDC"
        else:
            return  # the DTD of 1.1.1 allows only these two
        link = self.add(element, "MetadataURL", attributes={"type": kind})
        self.add(link, "Format", metadata.media_type)
        self.add_online_resource(link, metadata.url)

    def _add_style(self, parent: Element, layer: Layer, style: Style) -> None:
        element = self.add(parent, "Style")
        self.add(element, "Name", style.identifier)
        self.add_texts(element, style.title or style.identifier, style.abstract)
        if ("wms", "legend") in layer.withheld:
            return
        if legend := style.legend:
            size = legend.width, legend.height
            self._add_image(element, "LegendURL", legend.media_type, legend.url, *size)
        elif self._legends and (style.palette or layer.pyramid.format.sample == "float32"):
            # Loaded on first use: see GetLegendGraphic.
            from mastaba_wms.legend import legend_of, legend_size

            drawn = legend_of(layer, style)
            if drawn.palette is not None or drawn.is_grey:
                url = legend_url(self._endpoint_uri, layer.id, style, DEFAULT_FORMAT)
                size = legend_size(drawn)
                self._add_image(element, "LegendURL", DEFAULT_FORMAT, url, *size)

    def _add_image(
        self, parent: Element, name: str, media_type: str, url: str, width: int, height: int
    ) -> None:
        if width > 0 and height > 0:  # both are mandatory, and zero is not allowed
            link = self.add(parent, name, attributes={"width": str(width), "height": str(height)})
            self.add(link, "Format", media_type)
            self.add_online_resource(link, url)

    def _add_scales(self, element: Element, layer: Layer) -> None:
        pyramid = layer.pyramid
        crs = pyramid.tile_matrix_set.crs
        finest, coarsest = pyramid.finest.matrix, pyramid.coarsest.matrix
        if self._is_130:
            self.add(element, "MinScaleDenominator", decimal(finest.scale_denominator(crs)))
            self.add(element, "MaxScaleDenominator", decimal(coarsest.scale_denominator(crs)))
            return
        # The diagonal of a pixel in metres (OGC 01-068r3 clause 7.1.4.5.16).
        diagonal = math.sqrt(2) * crs.metres_per_unit
        scales = [decimal(matrix.cell_size * diagonal) for matrix in (finest, coarsest)]
        self.add(element, "ScaleHint", attributes={"min": scales[0], "max": scales[1]})
