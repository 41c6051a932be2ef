"""The capabilities of version 2.0.1 (OGC 09-110r4 clause 8.2, and the extensions)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mastaba.api.web import coordinate
from mastaba_ows import inspire
from mastaba_ows.provider import add_provider
from mastaba_ows.xml import XLINK, XSI, Element, add, add_filled, add_list, root_element
from mastaba_wcs.formats import COG, GEOTIFF, KERNELS
from mastaba_wcs.names import CRS, INTERPOLATION, OWS, PREFIXES, SCHEMAS, WCS
from mastaba_wcs.parameters import Operation
from mastaba_wcs.published import crs_address, ordered
from mastaba_wcs.versions import Version

if TYPE_CHECKING:
    from mastaba.api.services import ServiceSettings, Settings
    from mastaba_wcs.published import PublishedCoverage, PublishedCoverages

SECTIONS: Final = (
    "ServiceIdentification",
    "ServiceProvider",
    "OperationsMetadata",
    "ServiceMetadata",
    "Contents",
)
"""Names that Sections may list, in addition to ``All``."""

_SPEC: Final = "http://www.opengis.net/spec/"
_PROFILES: Final = (
    f"{_SPEC}WCS/2.0/conf/core",
    f"{_SPEC}WCS_protocol-binding_get-kvp/1.0/conf/get-kvp",
    f"{_SPEC}WCS_protocol-binding_post-xml/1.0/conf/post-xml",
    f"{_SPEC}WCS_service-extension_crs/1.0/conf/crs",
    f"{_SPEC}WCS_service-extension_crs/1.0/conf/crs-gridded-coverage",
    f"{_SPEC}WCS_service-extension_scaling/1.0/conf/scaling",
    f"{_SPEC}WCS_service-extension_range-subsetting/1.0/conf/record-subsetting",
    f"{_SPEC}WCS_service-extension_interpolation/1.0/conf/interpolation",
    # Not conf/gml: values are never sent as GML.
    f"{_SPEC}GMLCOV/1.0/conf/gml-coverage",
    f"{_SPEC}GMLCOV/1.0/conf/multipart",
    f"{_SPEC}GMLCOV_geotiff-coverages/1.0/conf/geotiff-coverage",
)
_INSPIRE: Final = "http://inspire.ec.europa.eu/schemas/inspire_dls/1.0"


def capabilities_201(
    settings: ServiceSettings,
    general: Settings,
    published: PublishedCoverages,
    *,
    is_inspire: bool,
) -> Element:
    """Return the complete document.

    Args:
        settings: of the service.
        general: settings common to all services.
        is_inspire: whether to add the extended capabilities of INSPIRE.
    """
    schemas = SCHEMAS
    namespaces: dict[str | None, str] = {
        **PREFIXES,
        "crs": CRS.strip("{}"),
        "int": INTERPOLATION.strip("{}"),
    }
    if is_inspire:
        schemas += " " + inspire.schema_locations(_INSPIRE, "inspire_dls.xsd")
        namespaces |= inspire.namespaces(_INSPIRE, "inspire_dls")
    attributes = {"version": Version.V2_0_1.value, f"{XSI}schemaLocation": schemas}
    root = root_element(f"{WCS}Capabilities", attributes, namespaces)
    _add_identification(root, settings, general)
    add_provider(root, general, OWS)
    operations = _add_operations(root, settings, is_inspire=is_inspire)
    if is_inspire:
        parent = add(operations, f"{OWS}ExtendedCapabilities")
        extended = inspire.add_extended_capabilities(parent, _INSPIRE, settings.metadata)
        for one in published.all:
            record = one.layer.metadata[0].url if one.layer.metadata else ""
            inspire.add_data_set(extended, _INSPIRE, one.layer.id, record)
    _add_service_metadata(root, published)
    contents = add(root, f"{WCS}Contents")
    for one in published.all:
        _add_summary(contents, one)
    return root


def _add_identification(root: Element, settings: ServiceSettings, general: Settings) -> None:
    section = add(root, f"{OWS}ServiceIdentification")
    add(section, f"{OWS}Title", settings.title)
    add_filled(section, (f"{OWS}Abstract", settings.abstract))
    add_list(section, f"{OWS}Keywords", f"{OWS}Keyword", settings.keywords)
    add(section, f"{OWS}ServiceType", "OGC WCS")
    for version in Version:
        add(section, f"{OWS}ServiceTypeVersion", version.value)
    for profile in _PROFILES:
        add(section, f"{OWS}Profile", profile)
    add(section, f"{OWS}Fees", general.fee or "none")
    add(section, f"{OWS}AccessConstraints", general.access_constraint or "none")


def _add_operations(root: Element, settings: ServiceSettings, *, is_inspire: bool) -> Element:
    endpoint = settings.endpoint_uri
    section = add(root, f"{OWS}OperationsMetadata")
    # Clients append their parameters to the address.
    get = f"{endpoint}?INSPIRE=1&" if is_inspire else f"{endpoint}?"
    for name in Operation:
        operation = add(section, f"{OWS}Operation", attributes={"name": name.value})
        methods = add(add(operation, f"{OWS}DCP"), f"{OWS}HTTP")
        add(methods, f"{OWS}Get", attributes={f"{XLINK}href": get})
        post = add(methods, f"{OWS}Post", attributes={f"{XLINK}href": f"{endpoint}?"})
        _add_encoding(post)
        if settings.metadata is not None and name is Operation.GET_CAPABILITIES:
            add(operation, f"{OWS}Metadata", attributes={f"{XLINK}href": settings.metadata.url})
    _add_encoding(section)
    return section


def _add_encoding(parent: Element) -> None:
    """Say that POST takes XML, as OGC 09-148r1 requires it."""
    constraint = add(parent, f"{OWS}Constraint", attributes={"name": "PostEncoding"})
    add(add(constraint, f"{OWS}AllowedValues"), f"{OWS}Value", "XML")


def _add_service_metadata(root: Element, published: PublishedCoverages) -> None:
    section = add(root, f"{WCS}ServiceMetadata")
    for media_type in (GEOTIFF, COG):
        add(section, f"{WCS}formatSupported", media_type)
    extension = add(section, f"{WCS}Extension")
    systems = add(extension, f"{CRS}CrsMetadata")
    for address in dict.fromkeys(filter(None, map(crs_address, published.codes))):
        add(systems, f"{CRS}crsSupported", address)
    methods = add(extension, f"{INTERPOLATION}InterpolationMetadata")
    for method in KERNELS:
        add(methods, f"{INTERPOLATION}InterpolationSupported", method)


def _add_summary(contents: Element, published: PublishedCoverage) -> None:
    layer = published.layer
    summary = add(contents, f"{WCS}CoverageSummary")
    add(summary, f"{OWS}Title", layer.title)
    add_filled(summary, (f"{OWS}Abstract", layer.abstract))
    add_list(summary, f"{OWS}Keywords", f"{OWS}Keyword", layer.keywords)
    box = layer.geographic_bbox
    _add_box(add(summary, f"{OWS}WGS84BoundingBox"), (box.xmin, box.ymin), (box.xmax, box.ymax))
    add(summary, f"{WCS}CoverageId", published.id)
    add(summary, f"{WCS}CoverageSubtype", "RectifiedGridCoverage")
    crs, edges = published.crs, published.edges
    attributes = {"crs": crs_address(crs.code) or crs.urn, "dimensions": "2"}
    _add_box(
        add(summary, f"{OWS}BoundingBox", attributes=attributes),
        ordered(crs, edges.xmin, edges.ymin),
        ordered(crs, edges.xmax, edges.ymax),
    )
    for metadata in layer.metadata:
        add(summary, f"{OWS}Metadata", attributes={f"{XLINK}href": metadata.url})


def _add_box(element: Element, lower: tuple[float, float], upper: tuple[float, float]) -> None:
    for name, corner in (("LowerCorner", lower), ("UpperCorner", upper)):
        add(element, OWS + name, " ".join(map(coordinate, corner)))
