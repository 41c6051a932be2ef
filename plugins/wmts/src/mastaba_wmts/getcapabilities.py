"""GetCapabilities: the document, complete or in sections, plain or for INSPIRE (wmts.md 2)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from mastaba.api.catalogue import Codec
from mastaba.api.web import Document
from mastaba_ows import inspire
from mastaba_ows.dimensions import clock_defaults
from mastaba_ows.provider import add_provider
from mastaba_ows.xml import (
    XLINK,
    XSI,
    Element,
    add,
    local_name,
    read,
    root_element,
    serialized,
)
from mastaba_wmts import rest
from mastaba_wmts.contents import OWS, WMTS, add_contents, add_description
from mastaba_wmts.params import VERSION, CapabilitiesRequest
from mastaba_wmts.themes import add_themes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mastaba.api.catalogue import Layer
    from mastaba.api.services import ServiceSettings, Site
    from mastaba.api.web import Request, Response

# Sections and INSPIRE allow 66 different documents, but clients request two or three. The most
# recently used documents are cached; the complete ones are always cached.
_CACHED_DOCUMENTS: Final = 4
_WRITTEN: Final = (
    "ServiceIdentification",
    "ServiceProvider",
    "OperationsMetadata",
    "Contents",
    "Themes",
)

_NAMESPACES: Final = {
    None: WMTS.strip("{}"),
    "ows": OWS.strip("{}"),
    "xlink": XLINK.strip("{}"),
    "xsi": XSI.strip("{}"),
    "gml": "http://www.opengis.net/gml",
}
_INSPIRE_VS: Final = "http://inspire.ec.europa.eu/schemas/inspire_vs_ows11/1.0"
_SCHEMAS: Final = (
    "http://www.opengis.net/wmts/1.0 "
    "http://schemas.opengis.net/wmts/1.0/wmtsGetCapabilities_response.xsd"
)


class GetCapabilities:
    """Answers GetCapabilities for one configuration; builds each document on first request.

    Args:
        settings: of the service.
        site: of the service.
        layers: of the service, in document order.
    """

    def __init__(self, settings: ServiceSettings, site: Site, layers: Sequence[Layer]) -> None:
        self._settings = settings
        self._site = site
        self._general = site.catalogue.settings
        self._layers = layers
        self._restful = settings.own.get("restful", True)
        self._timed = [
            layer for layer in layers if any(one.default == "now" for one in layer.dimensions)
        ]
        self._complete = lru_cache(maxsize=2)(self._make_complete)
        self._extract = lru_cache(maxsize=_CACHED_DOCUMENTS)(self._make_extract)

    def respond(
        self, request: Request, wanted: CapabilitiesRequest, parameters: Mapping[str, str]
    ) -> Response:
        """Return the document, or 304 if the client has it already."""
        is_inspire = inspire.is_wanted(parameters, self._general.inspire)
        moment = clock_defaults(self._site.catalogue, self._timed)
        if wanted.sections is None:
            document = self._complete(is_inspire, moment)
        else:
            # Sections that are never written must not cause another document.
            document = self._extract(wanted.sections.intersection(_WRITTEN), is_inspire, moment)
        # Only the complete documents are few. A path leaves the choice to the Accept header.
        is_constant = wanted.sections is None and not request.path and not self._timed
        return document.respond(request, wanted.media_type, is_constant=is_constant)

    def _make_extract(
        self, sections: frozenset[str], is_inspire: bool, moment: tuple[str, ...]
    ) -> Document:
        root = read(self._complete(is_inspire, moment).body)
        for child in root:
            if local_name(child) not in sections:
                root.remove(child)
        return Document(serialized(root), "text/xml")

    def _make_complete(self, is_inspire: bool, _moment: tuple[str, ...]) -> Document:
        schemas, namespaces = _SCHEMAS, dict(_NAMESPACES)
        if is_inspire:
            schemas += " " + inspire.schema_locations(_INSPIRE_VS, "inspire_vs_ows_11.xsd")
            namespaces |= inspire.namespaces(_INSPIRE_VS)
        attributes = {"version": VERSION, f"{XSI}schemaLocation": schemas}
        root = root_element(f"{WMTS}Capabilities", attributes, namespaces)
        self._add_identification(root)
        add_provider(root, self._general, OWS)
        self._add_operations(root, is_inspire)
        endpoint = self._settings.endpoint_uri
        layers = [layer for layer in self._layers if not is_inspire or in_inspire(layer)]
        add_contents(
            root,
            layers,
            self._site,
            rest.resources_uri(endpoint) if self._restful else "",
            crs_names=self._settings.own.get("crs_names", "urn"),
            values=self._settings.own.get("values", 500),
        )
        themes = self._settings.own.get("themes", ())
        add_themes(root, themes, {layer.id for layer in layers})
        if self._restful:
            url = endpoint + rest.CAPABILITIES_PATH
            if is_inspire != self._general.inspire:
                url += f"?INSPIRE={int(is_inspire)}"
            add(root, f"{WMTS}ServiceMetadataURL", attributes={f"{XLINK}href": url})
        return Document(serialized(root), "text/xml")

    def _add_identification(self, root: Element) -> None:
        settings, general = self._settings, self._general
        section = add(root, f"{OWS}ServiceIdentification")
        add(section, f"{OWS}Title", settings.title)
        add_description(section, "", settings.abstract, settings.keywords)
        add(section, f"{OWS}ServiceType", "OGC WMTS")
        add(section, f"{OWS}ServiceTypeVersion", VERSION)
        add(section, f"{OWS}Fees", general.fee or "none")
        add(section, f"{OWS}AccessConstraints", general.access_constraint or "none")

    def _add_operations(self, root: Element, is_inspire: bool) -> None:
        endpoint = self._settings.endpoint_uri
        get = endpoint + ("?INSPIRE=1&SERVICE=WMTS&" if is_inspire else "?")
        operations = {"GetCapabilities": ["KVP", "XML"], "GetTile": ["KVP", "XML"]}
        if any(
            layer.feature_info is not None and ("wmts", "info") not in layer.withheld
            for layer in self._layers
        ):
            operations["GetFeatureInfo"] = ["KVP"]
        section = add(root, f"{OWS}OperationsMetadata")
        for name, post_encodings in operations.items():
            operation = add(section, f"{OWS}Operation", attributes={"name": name})
            methods = add(add(operation, f"{OWS}DCP"), f"{OWS}HTTP")
            _add_method(methods, "Get", get, ["KVP", "RESTful"] if self._restful else ["KVP"])
            # The question mark is for clients that treat every announced address as a prefix.
            _add_method(methods, "Post", f"{endpoint}?", post_encodings)
            metadata = self._settings.metadata
            if metadata is not None and name == "GetCapabilities":
                add(operation, f"{OWS}Metadata", attributes={f"{XLINK}href": metadata.url})
        if is_inspire:
            inspire.add_extended_capabilities(section, _INSPIRE_VS, self._settings.metadata)


def in_inspire(layer: Layer) -> bool:
    """Return whether INSPIRE capabilities list the layer: with keywords, metadata and PNG tiles."""
    return bool(layer.keywords and layer.metadata) and layer.pyramid.format.codec is Codec.PNG


def _add_method(methods: Element, name: str, url: str, encodings: Sequence[str]) -> None:
    method = add(methods, OWS + name, attributes={f"{XLINK}href": url})
    constraint = add(method, f"{OWS}Constraint", attributes={"name": f"{name}Encoding"})
    allowed = add(constraint, f"{OWS}AllowedValues")
    for encoding in encodings:
        add(allowed, f"{OWS}Value", encoding)
