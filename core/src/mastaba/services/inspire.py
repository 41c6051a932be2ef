"""INSPIRE requirements for capabilities: layer names and extended capabilities.

Directive 2007/2/EC; Technical Guidance for the implementation of INSPIRE View Services 3.11.
"""

from __future__ import annotations

import re
from typing import Final

from mastaba.model.layer import Layer, Metadata
from mastaba.web.markup import element, leaf

COMMON_NAMESPACE: Final = "http://inspire.ec.europa.eu/schemas/common/1.0"
COMMON_SCHEMA: Final = f"{COMMON_NAMESPACE}/common.xsd"

# Codes of the themes in the annexes of the directive, from Regulation (EU) No 1089/2010.
_THEMES: Final = (
    "AD AU CP GG GN HY PS RS TN "
    "EL GE LC OI "
    "AC AF AM BR BU EF ER HB HH LU MF MR NZ OF PD PF SD SO SR SU US"
).replace(" ", "|")
# A name consists of a theme and one or more parts in upper camel case. There is no closed list:
# many names end in a value from an extensible code list.
_HARMONISED: Final = re.compile(rf"(?:{_THEMES})(?:\.[A-Z][A-Za-z0-9_]*)+")
_LANGUAGE: Final = "fre"


def is_harmonised_name(identifier: str) -> bool:
    """Return whether an identifier is a layer name of the regulation (annexes II to IV)."""
    return _HARMONISED.fullmatch(identifier) is not None


def in_wms(layer: Layer) -> bool:
    """Return whether a layer is listed in INSPIRE capabilities of WMS (layer.md section 10).

    This requires keywords and the default style defined by the regulation.
    """
    style = f"{layer.id}.Default" if is_harmonised_name(layer.id) else "DEFAULT"
    return bool(layer.keywords) and layer.style(style) is not None


def extended_capabilities(metadata: Metadata | None) -> str:
    """Return the element ``inspire_vs:ExtendedCapabilities``.

    The document must declare the prefixes ``inspire_vs`` and ``inspire_common``.

    Args:
        metadata: metadata record of the service, or None.
    """
    language = leaf("inspire_common:Language", _LANGUAGE)
    record = ""
    if metadata is not None:
        # Existing files have the media type in ``type``, where existing servers read it.
        media_type = metadata.type if "/" in metadata.type else metadata.media_type
        record = element(
            "inspire_common:MetadataUrl",
            leaf("inspire_common:URL", metadata.url),
            leaf("inspire_common:MediaType", media_type),
        )
    return element(
        "inspire_vs:ExtendedCapabilities",
        record,
        element(
            "inspire_common:SupportedLanguages",
            element("inspire_common:DefaultLanguage", language),
        ),
        element("inspire_common:ResponseLanguage", language),
    )
