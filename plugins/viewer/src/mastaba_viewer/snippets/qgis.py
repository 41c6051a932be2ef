"""QGIS: connections that its browser imports, under XYZ Tiles, Vector Tiles or WMS/WMTS."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.sax.saxutils import quoteattr

if TYPE_CHECKING:
    from mastaba_viewer.snippets.offer import Offer


def connection(offer: Offer) -> str | None:
    """Return the file to import."""
    title = quoteattr(offer.layer.title)
    note, (first, last) = "", offer.zooms
    zooms = f'zmin="{first}" zmax="{last}"'
    if offer.heights:
        kind, item = "XYZTiles", "xyztiles"
        # Old versions ignore the interpretation, which is also in the dialog of the connection.
        note = (
            "QGIS reads heights if the interpretation of the connection is Terrarium Terrain RGB."
        )
        address = f'url={quoteattr(offer.heights)} {zooms} interpretation="terrariumterrain"'
    elif offer.tiles:
        is_vector = offer.layer.is_vector
        kind, item = ("VectorTile", "vectortile") if is_vector else ("XYZTiles", "xyztiles")
        address = f"url={quoteattr(offer.tiles)} {zooms}"
        if offer.stylesheet:
            address += f" styleUrl={quoteattr(offer.stylesheet)}"
    elif offer.wmts and not offer.is_web_mercator:
        kind, item, address = "WMS", "wms", f"url={quoteattr(offer.capabilities)}"
    else:
        return None
    return f"""<!DOCTYPE connections>
{_comment(offer.attribution)}{_comment(note)}<qgs{kind}Connections version="1.0">
    <{item} name={title} {address}/>
</qgs{kind}Connections>
"""


def _comment(text: str) -> str:
    # Two hyphens end a comment of XML.
    return f"<!-- {text.replace('--', '- -')} -->\n" if text else ""
