"""What INSPIRE asks of capabilities: membership of layers, extended capabilities.

Directive 2007/2/EC; Technical Guidance for the implementation of INSPIRE View Services 3.11.
"""

from __future__ import annotations

import re
from typing import Final

from mastaba.http.markup import element, leaf
from mastaba.model.layer import Layer, Metadata

COMMON_NAMESPACE: Final = "http://inspire.ec.europa.eu/schemas/common/1.0"
COMMON_SCHEMA: Final = f"{COMMON_NAMESPACE}/common.xsd"

# Themes of the annexes of the directive, by the codes of Regulation (EU) No 1089/2010.
_THEMES: Final = (
    "AD AU CP GG GN HY PS RS TN "
    "EL GE LC OI "
    "AC AF AM BR BU EF ER HB HH LU MF MR NZ OF PD PF SD SO SR SU US"
).replace(" ", "|")
# Names are a theme and one or more parts in upper camel case. There is no closed list: many
# names end in a value of a code list that may be extended.
_HARMONISED: Final = re.compile(rf"(?:{_THEMES})(?:\.[A-Z][A-Za-z0-9_]*)+")
_LANGUAGE: Final = "fre"


def is_harmonised_name(identifier: str) -> bool:
    """Tell whether a layer identifier is a layer name of the regulation (its annexes II to IV)."""
    return _HARMONISED.fullmatch(identifier) is not None


def in_wms(layer: Layer) -> bool:
    """Tell whether a layer is in INSPIRE capabilities of WMS (layer.md section 10).

    It has keywords, and the default style that the regulation demands of it.
    """
    style = f"{layer.id}.Default" if is_harmonised_name(layer.id) else "DEFAULT"
    return bool(layer.keywords) and layer.style(style) is not None


def extended_capabilities(metadata: Metadata | None) -> str:
    """Return ``inspire_vs:ExtendedCapabilities``, for the prefixes that its name shows.

    Args:
        metadata: of the service.
    """
    language = leaf("inspire_common:Language", _LANGUAGE)
    record = ""
    if metadata is not None:
        # Existing files have the media type in ``type``, as existing servers read it from there.
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
