"""Names of versions of layers in the addresses that documents contain (time.md section 4.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mastaba.api.catalogue import Catalogue, Layer


def address_name(catalogue: Catalogue, layer: Layer) -> str:
    """Return the name of a layer for addresses of its tiles in a document that is loaded again.

    It is that of the published version if `versioned_addresses` of `mastaba-history` is true. Never
    use it for addresses that people copy: they would show this version for ever.

    Args:
        layer: of the catalogue.
    """
    for versions in catalogue.at_token:
        name: str = getattr(versions, "address_name", _key)(layer)
        return name
    return layer.key


def document_headers(catalogue: Catalogue, layer: Layer) -> list[tuple[str, str]]:
    """Return further headers of a document about a version, as RFC 7089 wants them.

    Args:
        catalogue: that shows the layer; their addresses are those of its services.
        layer: a version of a layer, as `Catalogue.resolve` returns it.
    """
    for versions in catalogue.at_token:
        headers: list[tuple[str, str]] = getattr(versions, "document_headers", _none)(
            layer, catalogue
        )
        return headers
    return []


def _none(_: Layer, __: Catalogue) -> list[tuple[str, str]]:
    return []


def _key(layer: Layer) -> str:
    return layer.key
