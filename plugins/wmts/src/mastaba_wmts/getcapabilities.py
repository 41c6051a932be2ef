"""GetCapabilities: the document, complete or in sections, plain or for INSPIRE (wmts.md 2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from mastaba.model.format import Codec
from mastaba.services.inspire import COMMON_NAMESPACE, COMMON_SCHEMA, extended_capabilities
from mastaba.web.markup import DECLARATION, element, leaf, optional_leaf
from mastaba.web.response import Document
from mastaba_wmts import rest
from mastaba_wmts.contents import contents, keywords
from mastaba_wmts.params import VERSION, CapabilitiesRequest

if TYPE_CHECKING:
    from mastaba.catalogue import Catalogue
    from mastaba.model.layer import Layer
    from mastaba.model.settings import Contact, ServiceSettings
    from mastaba.web.request import Request
    from mastaba.web.response import Response

# Sections and INSPIRE allow 34 different documents, but clients request two or three. The most
# recently used documents are cached; their parts are always cached.
_KEPT_DOCUMENTS: Final = 4
_WRITTEN: Final = ("ServiceIdentification", "ServiceProvider", "OperationsMetadata", "Contents")
_KVP: Final = "KVP"
_RESTFUL: Final = "RESTful"
_XML: Final = "XML"

_NAMESPACES: Final = {
    "version": VERSION,
    "xmlns": "http://www.opengis.net/wmts/1.0",
    "xmlns:ows": "http://www.opengis.net/ows/1.1",
    "xmlns:xlink": "http://www.w3.org/1999/xlink",
    "xmlns:xsi": "http://www.w3.org/2001/XMLSchema-instance",
    "xmlns:gml": "http://www.opengis.net/gml",
}
_INSPIRE_VS: Final = "http://inspire.ec.europa.eu/schemas/inspire_vs_ows11/1.0"
_INSPIRE_NAMESPACES: Final = {
    "xmlns:inspire_common": COMMON_NAMESPACE,
    "xmlns:inspire_vs": _INSPIRE_VS,
}
_SCHEMAS: Final = (
    "http://www.opengis.net/wmts/1.0 "
    "http://schemas.opengis.net/wmts/1.0/wmtsGetCapabilities_response.xsd"
)
_INSPIRE_SCHEMAS: Final = (
    f"{_INSPIRE_VS} {_INSPIRE_VS}/inspire_vs_ows_11.xsd {COMMON_NAMESPACE} {COMMON_SCHEMA}"
)


class GetCapabilities:
    """Answers GetCapabilities for one configuration; builds each document on first request.

    Args:
        settings: of the service.
        catalogue: gives the settings common to all services.
        layers: of the service, in document order.
    """

    def __init__(
        self, settings: ServiceSettings, catalogue: Catalogue, layers: Sequence[Layer]
    ) -> None:
        self._settings = settings
        self._general = catalogue.settings
        self._layers = layers
        self._restful = settings.own.get("restful", True)
        self._section = lru_cache(maxsize=2 * len(_WRITTEN))(self._make_section)
        self._document = lru_cache(maxsize=_KEPT_DOCUMENTS)(self._make_document)

    def respond(self, request: Request, wanted: CapabilitiesRequest) -> Response:
        """Return the document, or 304 when the client has it already."""
        inspire = self._general.inspire if wanted.inspire is None else wanted.inspire
        # Sections that are never written must not cause another document.
        sections = None if wanted.sections is None else wanted.sections.intersection(_WRITTEN)
        return self._document(sections, inspire).respond(request, wanted.media_type)

    def _make_document(self, sections: frozenset[str] | None, inspire: bool) -> Document:
        written = [
            self._section(name, inspire)
            for name in _WRITTEN
            if sections is None or name in sections
        ]
        if sections is None and self._restful:
            url = f"{self._settings.endpoint_uri}{rest.CAPABILITIES_PATH}"
            if inspire != self._general.inspire:
                url += f"?INSPIRE={int(inspire)}"
            written.append(element("ServiceMetadataURL", attributes={"xlink:href": url}))
        attributes = _NAMESPACES | (_INSPIRE_NAMESPACES if inspire else {})
        attributes["xsi:schemaLocation"] = f"{_SCHEMAS} {_INSPIRE_SCHEMAS}" if inspire else _SCHEMAS
        root = element("Capabilities", *written, attributes=attributes)
        return Document(f"{DECLARATION}{root}", "text/xml")

    def _make_section(self, name: str, inspire: bool) -> str:
        if name == "ServiceIdentification":
            return self._identification()
        if name == "ServiceProvider":
            return self._provider()
        if name == "OperationsMetadata":
            return self._operations(inspire)
        layers = filter(in_inspire, self._layers) if inspire else self._layers
        return contents(
            layers,
            self._settings.endpoint_uri if self._restful else "",
            crs_names=self._settings.own.get("crs_names", "urn"),
        )

    def _identification(self) -> str:
        settings, general = self._settings, self._general
        return element(
            "ows:ServiceIdentification",
            leaf("ows:Title", settings.title),
            optional_leaf("ows:Abstract", settings.abstract),
            keywords(settings.keywords),
            leaf("ows:ServiceType", "OGC WMTS"),
            leaf("ows:ServiceTypeVersion", VERSION),
            leaf("ows:Fees", general.fee or "none"),
            leaf("ows:AccessConstraints", general.access_constraint or "none"),
        )

    def _provider(self) -> str:
        general = self._general
        site = {"xlink:href": general.site}
        return element(
            "ows:ServiceProvider",
            leaf("ows:ProviderName", general.provider),
            element("ows:ProviderSite", attributes=site) if general.site else "",
            _contact(general.contact),
        )

    def _operations(self, inspire: bool) -> str:
        encodings = [_KVP, _RESTFUL] if self._restful else [_KVP]
        query = "?INSPIRE=1&SERVICE=WMTS&" if inspire else "?"
        get = _binding("Get", self._settings.endpoint_uri + query, "GetEncoding", encodings)
        # The question mark is for clients that treat every announced address as a prefix.
        address = f"{self._settings.endpoint_uri}?"
        post = _binding("Post", address, "PostEncoding", [_KVP, _XML])
        operations = {"GetCapabilities": post, "GetTile": post}
        if any(layer.feature_info is not None for layer in self._layers):
            operations["GetFeatureInfo"] = _binding("Post", address, "PostEncoding", [_KVP])
        return element(
            "ows:OperationsMetadata",
            *(
                element(
                    "ows:Operation",
                    element("ows:DCP", element("ows:HTTP", get, by_post)),
                    attributes={"name": name},
                )
                for name, by_post in operations.items()
            ),
            extended_capabilities(self._settings.metadata) if inspire else "",
        )


def in_inspire(layer: Layer) -> bool:
    """Return whether INSPIRE capabilities list the layer: with keywords, metadata and PNG tiles."""
    return bool(layer.keywords and layer.metadata) and layer.pyramid.format.codec is Codec.PNG


def _binding(method: str, url: str, constraint: str, encodings: Iterable[str]) -> str:
    values = [leaf("ows:Value", encoding) for encoding in encodings]
    return element(
        f"ows:{method}",
        element(
            "ows:Constraint",
            element("ows:AllowedValues", *values),
            attributes={"name": constraint},
        ),
        attributes={"xlink:href": url},
    )


def _contact(contact: Contact) -> str:
    phone = optional_leaf("ows:Voice", contact.voice) + optional_leaf(
        "ows:Facsimile", contact.facsimile
    )
    address = "".join(
        optional_leaf(f"ows:{name}", value)
        for name, value in (
            ("DeliveryPoint", contact.delivery_point),
            ("City", contact.city),
            ("AdministrativeArea", contact.administrative_area),
            ("PostalCode", contact.post_code),
            ("Country", contact.country),
            ("ElectronicMailAddress", contact.email),
        )
    )
    info = _unless_empty("ows:Phone", phone) + _unless_empty("ows:Address", address)
    return element(
        "ows:ServiceContact",
        optional_leaf("ows:IndividualName", contact.name),
        optional_leaf("ows:PositionName", contact.position),
        _unless_empty("ows:ContactInfo", info),
    )


def _unless_empty(name: str, content: str) -> str:
    return element(name, content) if content else ""
