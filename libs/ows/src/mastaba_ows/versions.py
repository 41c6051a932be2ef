"""Names of versions of layers in the addresses that documents contain (time.md section 4.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mastaba.api.catalogue import Catalogue, Layer


def address_name(catalogue: Catalogue, layer: Layer) -> str:
    """Return the name of a layer for addresses of its tiles in a document that is loaded again.

    It is that of the published version if `mastaba-history` is asked for such addresses. Never use
    it for addresses that people copy: they would show this version for ever.

    Args:
        layer: of the catalogue.
    """
    for versions in catalogue.at_token:
        name: str = getattr(versions, "address_name", _key)(layer)
        return name
    return layer.key


def _key(layer: Layer) -> str:
    return layer.key
