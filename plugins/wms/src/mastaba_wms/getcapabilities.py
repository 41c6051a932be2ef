"""GetCapabilities: documents in 1.3.0, plain or for INSPIRE, and in 1.1.1 (wms.md 2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from mastaba.api.web import Document
from mastaba_ows import inspire
from mastaba_ows.contact import add_contact
from mastaba_ows.dimensions import clock_defaults
from mastaba_ows.featureinfo import INFO_FORMATS
from mastaba_ows.xml import XSI, Element, root_element, serialized
from mastaba_wms.inspire_names import is_harmonised_name
from mastaba_wms.layers import LayerWriter
from mastaba_wms.params import EXCEPTION_TYPES, Exceptions
from mastaba_wms.versions import Version, negotiated

if TYPE_CHECKING:
    from mastaba.api.catalogue import Catalogue, Layer
    from mastaba.api.services import ServiceSettings
    from mastaba.api.web import Request, Response
    from mastaba_render.api.crs import CRSOffer
    from mastaba_wms.published import PublishedLayer

_DEFAULT_ROOT: Final = "WMS layers"
_NAMESPACES: Final = {
    None: "http://www.opengis.net/wms",
    "xlink": "http://www.w3.org/1999/xlink",
    "xsi": "http://www.w3.org/2001/XMLSchema-instance",
}
_SCHEMAS: Final = (
    "http://www.opengis.net/wms http://schemas.opengis.net/wms/1.3.0/capabilities_1_3_0.xsd"
)
_INSPIRE_VS: Final = "http://inspire.ec.europa.eu/schemas/inspire_vs/1.0"
_DOCTYPE_111: Final = (
    "<!DOCTYPE WMT_MS_Capabilities SYSTEM "
    '"http://schemas.opengis.net/wms/1.1.1/WMS_MS_Capabilities.dtd">'
)
_MEDIA_TYPES: Final = {
    Version.V1_3_0: "text/xml",
    Version.V1_1_1: "application/vnd.ogc.wms_xml",
}


class GetCapabilities:
    """Answers GetCapabilities for one configuration; builds each document on first request.

    Args:
        settings: of the service.
        catalogue: of the service.
        crs: offered CRSs.
        layers: in document order.
        map_formats, legend_formats: media types.
    """

    def __init__(
        self,
        settings: ServiceSettings,
        catalogue: Catalogue,
        crs: CRSOffer,
        layers: Iterable[PublishedLayer],
        map_formats: Iterable[str],
        legend_formats: Iterable[str],
    ) -> None:
        self._settings = settings
        self._catalogue = catalogue
        self._general = catalogue.settings
        self._crs = crs
        self._layers = list(layers)
        self._map_formats = list(map_formats)
        self._legend_formats = list(legend_formats)
        self._values = settings.own.get("capabilities_values", 500)
        self._timed = [
            one.layer
            for one in self._layers
            if any(dimension.default == "now" for dimension in one.layer.dimensions)
        ]
        self._documents: dict[tuple[Version, bool], tuple[object, Document]] = {}

    def respond(self, request: Request, parameters: Mapping[str, str]) -> Response:
        """Return the document, or 304 if the client has it already."""
        version = negotiated(parameters)
        is_inspire = inspire.is_wanted(parameters, self._general.inspire)
        key = version, is_inspire and version is Version.V1_3_0
        moment = clock_defaults(self._catalogue, self._timed)
        built = self._documents.get(key)
        if built is None or built[0] != moment:
            # Two threads may build it at the same time; both results are equal.
            built = self._documents[key] = moment, self._document(*key)
        return built[1].respond(request, is_constant=not self._timed)

    def _document(self, version: Version, is_inspire: bool) -> Document:
        layers = [one for one in self._layers if not is_inspire or _in_inspire(one.layer)]
        writer = LayerWriter(
            version,
            self._settings.endpoint_uri,
            self._catalogue,
            values=self._values,
            legends="image/png" in self._legend_formats,
        )
        if version is Version.V1_3_0:
            schemas, namespaces = _SCHEMAS, dict(_NAMESPACES)
            if is_inspire:
                schemas += " " + inspire.schema_locations(_INSPIRE_VS, "inspire_vs.xsd")
                namespaces |= inspire.namespaces(_INSPIRE_VS)
            attributes = {"version": version.value, f"{XSI}schemaLocation": schemas}
            root = root_element(f"{writer.namespace}WMS_Capabilities", attributes, namespaces)
        else:
            root = root_element("WMT_MS_Capabilities", {"version": version.value})
        self._add_service(root, writer, version)
        capability = writer.add(root, "Capability")
        self._add_operations(capability, writer, version, layers, is_inspire)
        formats = Exceptions if version is Version.V1_3_0 else EXCEPTION_TYPES
        exception = writer.add(capability, "Exception")
        for name in formats:
            writer.add(exception, "Format", name)
        if is_inspire:
            inspire.add_extended_capabilities(capability, _INSPIRE_VS, self._settings.metadata)
        root_layer = self._settings.own.get("root_layer") or {}
        writer.add_root_layer(
            capability,
            root_layer.get("title", _DEFAULT_ROOT),
            root_layer.get("abstract", _DEFAULT_ROOT),
            self._crs.common(one.crs for one in layers),
            layers,
            self._settings.metadata,
        )
        doctype = "" if version is Version.V1_3_0 else _DOCTYPE_111
        return Document(serialized(root, doctype=doctype), _MEDIA_TYPES[version])

    def _add_service(self, root: Element, writer: LayerWriter, version: Version) -> None:
        settings, general = self._settings, self._general
        limits, is_130 = general.map, version is Version.V1_3_0
        service = writer.add(root, "Service")
        writer.add(service, "Name", "WMS" if is_130 else "OGC:WMS")
        writer.add_texts(service, settings.title, settings.abstract, settings.keywords)
        writer.add_online_resource(service, general.site or settings.endpoint_uri)
        add_contact(service, general, writer.namespace, whole_parts=True)
        writer.add(service, "Fees", general.fee or "none")
        writer.add(service, "AccessConstraints", general.access_constraint or "none")
        if is_130:
            writer.add(service, "LayerLimit", str(limits.max_layers))
            writer.add(service, "MaxWidth", str(limits.max_width))
            writer.add(service, "MaxHeight", str(limits.max_height))

    def _add_operations(
        self,
        capability: Element,
        writer: LayerWriter,
        version: Version,
        layers: Iterable[PublishedLayer],
        is_inspire: bool,
    ) -> None:
        endpoint = self._settings.endpoint_uri
        prefix = f"{endpoint}&" if "?" in endpoint else f"{endpoint}?"
        by_get = prefix + ("INSPIRE=1&SERVICE=WMS&" if is_inspire else "SERVICE=WMS&")
        request = writer.add(capability, "Request")

        def operation(name: str, formats: Iterable[str], get: str, post: str = "") -> None:
            element = writer.add(request, name)
            for media_type in formats:
                writer.add(element, "Format", media_type)
            methods = writer.add(writer.add(element, "DCPType"), "HTTP")
            writer.add_online_resource(writer.add(methods, "Get"), get)
            if post:
                writer.add_online_resource(writer.add(methods, "Post"), post)

        # In the address for POST, the question mark is for clients that treat every address as a
        # prefix.
        operation("GetCapabilities", [_MEDIA_TYPES[version]], by_get, prefix)
        operation("GetMap", self._map_formats, by_get, prefix)
        if any(one.is_queryable for one in layers):
            operation("GetFeatureInfo", INFO_FORMATS, by_get)
        if self._legend_formats and version is Version.V1_1_1:
            operation("GetLegendGraphic", self._legend_formats, f"{prefix}SERVICE=WMS&")


def _in_inspire(layer: Layer) -> bool:
    """Return whether a layer is in the document for INSPIRE (layer.md section 10).

    This requires keywords and the default style defined by the regulation.
    """
    style = f"{layer.id}.Default" if is_harmonised_name(layer.id) else "DEFAULT"
    return bool(layer.keywords) and layer.style(style) is not None
