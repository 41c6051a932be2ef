"""QGIS: connections that its browser imports, under XYZ Tiles, Vector Tiles or WMS/WMTS."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.sax.saxutils import quoteattr

if TYPE_CHECKING:
    from mastaba_viewer.snippets.offer import Offer


def connection(offer: Offer) -> str | None:
    """Return the file to import."""
    title = quoteattr(offer.layer.title)
    if offer.tiles:
        is_vector, (first, last) = offer.layer.is_vector, offer.zooms
        kind, item = ("VectorTile", "vectortile") if is_vector else ("XYZTiles", "xyztiles")
        address = f'url={quoteattr(offer.tiles)} zmin="{first}" zmax="{last}"'
    elif offer.wmts and not offer.is_web_mercator:
        kind, item, address = "WMS", "wms", f"url={quoteattr(offer.capabilities)}"
    else:
        return None
    return f"""<!DOCTYPE connections>
<qgs{kind}Connections version="1.0">
    <{item} name={title} {address}/>
</qgs{kind}Connections>
"""
