"""INSPIRE requirements for capabilities: extended capabilities.

Directive 2007/2/EC; Technical Guidance for the implementation of INSPIRE View Services 3.11 and of
INSPIRE Download Services using Web Coverage Services 1.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mastaba.api.catalogue import Metadata
from mastaba_ows.parameters import flag
from mastaba_ows.xml import Element, add

_COMMON: Final = "http://inspire.ec.europa.eu/schemas/common/1.0"
_LANGUAGE: Final = "fre"


def is_wanted(parameters: Mapping[str, str], default: bool) -> bool:
    """Return the value of the parameter INSPIRE; the default if it is absent or invalid."""
    found = flag(parameters.get("inspire", ""), digits=True)
    return default if found is None else found


def namespaces(view_service: str, prefix: str = "inspire_vs") -> dict[str | None, str]:
    """Return the namespaces that the document of `add_extended_capabilities` must declare.

    Args:
        view_service: namespace of INSPIRE view or download services in the protocol.
        prefix: of that namespace.
    """
    return {"inspire_common": _COMMON, prefix: view_service}


def schema_locations(view_service: str, file: str) -> str:
    """Return the schemas of these namespaces for ``xsi:schemaLocation``.

    Args:
        file: name of the schema of the service.
    """
    return f"{view_service} {view_service}/{file} {_COMMON} {_COMMON}/common.xsd"


def add_extended_capabilities(
    parent: Element, view_service: str, metadata: Metadata | None
) -> Element:
    """Append ``ExtendedCapabilities`` of a view or download service, and return it.

    Args:
        view_service: as in `namespaces`.
        metadata: metadata record of the service, or None.
    """
    common = f"{{{_COMMON}}}"
    extended = add(parent, f"{{{view_service}}}ExtendedCapabilities")
    if metadata is not None:
        # Existing files have the media type in ``type``, where existing servers read it.
        media_type = metadata.type if "/" in metadata.type else metadata.media_type
        record = add(extended, f"{common}MetadataUrl")
        add(record, f"{common}URL", metadata.url)
        add(record, f"{common}MediaType", media_type)
    supported = add(extended, f"{common}SupportedLanguages")
    for language in (
        add(supported, f"{common}DefaultLanguage"),
        add(extended, f"{common}ResponseLanguage"),
    ):
        add(language, f"{common}Language", _LANGUAGE)
    return extended


def add_data_set(extended: Element, download_service: str, code: str, record: str) -> None:
    """Append a data set that a download service offers.

    Args:
        extended: what `add_extended_capabilities` returns.
        download_service: as ``view_service`` of `namespaces`.
        code: identifier of the data set.
        record: address of its metadata record; may be empty.
    """
    attributes = {"metadataURL": record} if record else {}
    identifier = add(
        extended, f"{{{download_service}}}SpatialDataSetIdentifier", attributes=attributes
    )
    add(identifier, f"{{{_COMMON}}}Code", code)
