"""GetCapabilities: documents in 1.3.0, plain or for INSPIRE, and in 1.1.1 (wms.md 2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mastaba.services import inspire
from mastaba.services.featureinfo.answers import INFO_FORMATS
from mastaba.web.markup import DECLARATION, element, leaf, optional_leaf
from mastaba.web.response import Document
from mastaba_wms import params
from mastaba_wms.layers import LayerWriter, keyword_list
from mastaba_wms.params import Exceptions
from mastaba_wms.versions import Version, negotiated

if TYPE_CHECKING:
    from mastaba.model.crs_offer import CRSOffer
    from mastaba.model.settings import Contact, ServiceSettings, Settings
    from mastaba.web.request import Request
    from mastaba.web.response import Response
    from mastaba_wms.published import PublishedLayer

_DEFAULT_ROOT: Final = "WMS layers"
_NAMESPACES: Final = {
    "version": Version.V1_3_0.value,
    "xmlns": "http://www.opengis.net/wms",
    "xmlns:xlink": "http://www.w3.org/1999/xlink",
    "xmlns:xsi": "http://www.w3.org/2001/XMLSchema-instance",
}
_SCHEMAS: Final = (
    "http://www.opengis.net/wms http://schemas.opengis.net/wms/1.3.0/capabilities_1_3_0.xsd"
)
_INSPIRE_VS: Final = "http://inspire.ec.europa.eu/schemas/inspire_vs/1.0"
_INSPIRE_NAMESPACES: Final = {
    "xmlns:inspire_common": inspire.COMMON_NAMESPACE,
    "xmlns:inspire_vs": _INSPIRE_VS,
}
_INSPIRE_SCHEMAS: Final = (
    f"{_INSPIRE_VS} {_INSPIRE_VS}/inspire_vs.xsd {inspire.COMMON_NAMESPACE} {inspire.COMMON_SCHEMA}"
)
_DOCTYPE_111: Final = (
    "<!DOCTYPE WMT_MS_Capabilities SYSTEM "
    '"http://schemas.opengis.net/wms/1.1.1/WMS_MS_Capabilities.dtd">\n'
)
_MEDIA_TYPES: Final = {
    Version.V1_3_0: "text/xml",
    Version.V1_1_1: "application/vnd.ogc.wms_xml",
}
_EXCEPTIONS_111: Final = (
    "application/vnd.ogc.se_xml",
    "application/vnd.ogc.se_inimage",
    "application/vnd.ogc.se_blank",
)


@dataclass(frozen=True, slots=True)
class Offer:
    """What the service offers.

    Attributes:
        layers: in document order.
        map_formats, legend_formats: media types.
    """

    layers: Sequence[PublishedLayer]
    crs: CRSOffer
    map_formats: Sequence[str]
    legend_formats: Sequence[str]


class GetCapabilities:
    """Answers GetCapabilities for one configuration; builds each document on first request.

    Args:
        settings: of the service.
        general: settings common to all services.
        offer: of the service.
    """

    def __init__(self, settings: ServiceSettings, general: Settings, offer: Offer) -> None:
        self._settings = settings
        self._general = general
        self._offer = offer
        self._documents: dict[tuple[Version, bool], Document] = {}

    def respond(self, request: Request, parameters: Mapping[str, str]) -> Response:
        """Return the document, or 304 when the client has it already."""
        version = negotiated(parameters)
        chosen = params.inspire(parameters)
        is_inspire = self._general.inspire if chosen is None else chosen
        key = version, is_inspire and version is Version.V1_3_0
        document = self._documents.get(key)
        if document is None:
            # Two threads may build it at the same time; both results are equal.
            document = self._documents[key] = self._document(*key)
        return document.respond(request)

    def _document(self, version: Version, is_inspire: bool) -> Document:
        layers = [
            published
            for published in self._offer.layers
            if not is_inspire or inspire.in_wms(published.layer)
        ]
        writer = LayerWriter(
            version,
            self._settings.endpoint_uri,
            self._general.equivalences,
            legends="image/png" in self._offer.legend_formats,
        )
        root_layer = self._settings.own.get("root_layer") or {}
        root = writer.root(
            root_layer.get("title", _DEFAULT_ROOT),
            root_layer.get("abstract", _DEFAULT_ROOT),
            self._offer.crs.common(published.crs for published in layers),
            layers,
        )
        is_queryable = any(published.is_queryable for published in layers)
        write = _document_130 if version is Version.V1_3_0 else _document_111
        return Document(
            DECLARATION + write(self, writer, root, is_inspire, is_queryable), _MEDIA_TYPES[version]
        )

    def service_element(self, writer: LayerWriter, name: str, *, limits: bool) -> str:
        """Return the ``Service`` element.

        Args:
            name: service name required by the version.
            limits: whether the version has elements for limits.
        """
        settings, general = self._settings, self._general
        maps = general.map
        return element(
            "Service",
            leaf("Name", name),
            leaf("Title", settings.title),
            optional_leaf("Abstract", settings.abstract),
            keyword_list(settings.keywords),
            writer.online_resource(general.site or settings.endpoint_uri),
            _contact(general.contact, general.provider),
            leaf("Fees", general.fee or "none"),
            leaf("AccessConstraints", general.access_constraint or "none"),
            leaf("LayerLimit", str(maps.max_layers)) if limits else "",
            leaf("MaxWidth", str(maps.max_width)) if limits else "",
            leaf("MaxHeight", str(maps.max_height)) if limits else "",
        )

    def operation(
        self,
        writer: LayerWriter,
        name: str,
        formats: Iterable[str],
        *,
        posted: bool = False,
        is_inspire: bool = False,
    ) -> str:
        """Return the element for an operation.

        Args:
            posted: whether POST is also supported.
        """
        query = "INSPIRE=1&SERVICE=WMS&" if is_inspire else "SERVICE=WMS&"
        endpoint = self._settings.endpoint_uri
        prefix = f"{endpoint}&" if "?" in endpoint else f"{endpoint}?"
        methods = element("Get", writer.online_resource(prefix + query))
        if posted:
            # The question mark is for clients that treat every address as a prefix.
            methods += element("Post", writer.online_resource(prefix))
        return element(
            name,
            *(leaf("Format", media_type) for media_type in formats),
            element("DCPType", element("HTTP", methods)),
        )

    def operations(
        self, writer: LayerWriter, *, capabilities_type: str, is_inspire: bool, is_queryable: bool
    ) -> list[str]:
        """Return the elements for the operations that both versions have."""
        found = [
            self.operation(
                writer, "GetCapabilities", [capabilities_type], posted=True, is_inspire=is_inspire
            ),
            self.operation(
                writer, "GetMap", self._offer.map_formats, posted=True, is_inspire=is_inspire
            ),
        ]
        if is_queryable:
            found.append(
                self.operation(writer, "GetFeatureInfo", INFO_FORMATS, is_inspire=is_inspire)
            )
        return found

    def legend_operation(self, writer: LayerWriter) -> str:
        """Return the element for GetLegendGraphic, or an empty string without a legend format."""
        formats = self._offer.legend_formats
        return self.operation(writer, "GetLegendGraphic", formats) if formats else ""

    def extended(self) -> str:
        """Return the extended capabilities for INSPIRE."""
        return inspire.extended_capabilities(self._settings.metadata)


def _document_130(
    source: GetCapabilities, writer: LayerWriter, root: str, is_inspire: bool, is_queryable: bool
) -> str:
    attributes = _NAMESPACES | (_INSPIRE_NAMESPACES if is_inspire else {})
    attributes["xsi:schemaLocation"] = f"{_SCHEMAS} {_INSPIRE_SCHEMAS}" if is_inspire else _SCHEMAS
    operations = source.operations(
        writer, capabilities_type="text/xml", is_inspire=is_inspire, is_queryable=is_queryable
    )
    return element(
        "WMS_Capabilities",
        source.service_element(writer, "WMS", limits=True),
        element(
            "Capability",
            element("Request", *operations),
            element("Exception", *(leaf("Format", name) for name in Exceptions)),
            source.extended() if is_inspire else "",
            root,
        ),
        attributes=attributes,
    )


def _document_111(
    source: GetCapabilities, writer: LayerWriter, root: str, is_inspire: bool, is_queryable: bool
) -> str:
    operations = source.operations(
        writer,
        capabilities_type=_MEDIA_TYPES[Version.V1_1_1],
        is_inspire=is_inspire,
        is_queryable=is_queryable,
    )
    return _DOCTYPE_111 + element(
        "WMT_MS_Capabilities",
        source.service_element(writer, "OGC:WMS", limits=False),
        element(
            "Capability",
            element("Request", *operations, source.legend_operation(writer)),
            element("Exception", *(leaf("Format", name) for name in _EXCEPTIONS_111)),
            root,
        ),
        attributes={"version": Version.V1_1_1.value},
    )


def _contact(contact: Contact, provider: str) -> str:
    """Return ``ContactInformation`` without empty parts, or an empty string when all are empty."""
    person = ""
    if contact.name or provider:
        person = element(
            "ContactPersonPrimary",
            leaf("ContactPerson", contact.name),
            leaf("ContactOrganization", provider),
        )
    parts = (
        ("AddressType", contact.address_type),
        ("Address", contact.delivery_point),
        ("City", contact.city),
        ("StateOrProvince", contact.administrative_area),
        ("PostCode", contact.post_code),
        ("Country", contact.country),
    )
    address = ""
    if any(value for _, value in parts):
        # The schemas require all parts or none.
        address = element("ContactAddress", *(leaf(name, value) for name, value in parts))
    information = (
        person
        + optional_leaf("ContactPosition", contact.position)
        + address
        + optional_leaf("ContactVoiceTelephone", contact.voice)
        + optional_leaf("ContactFacsimileTelephone", contact.facsimile)
        + optional_leaf("ContactElectronicMailAddress", contact.email)
    )
    return element("ContactInformation", information) if information else ""
