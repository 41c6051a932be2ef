"""OWSLib: a program that gets a tile."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mastaba_viewer.snippets.offer import Offer


def script(offer: Offer) -> str | None:
    """Return the program."""
    if not offer.wmts:
        return None
    credit = f"# {offer.attribution}\n" if offer.attribution else ""
    return f"""{credit}from owslib.wmts import WebMapTileService

wmts = WebMapTileService({offer.wmts!r})
layer = wmts[{offer.layer.id!r}]
name, link = next(iter(layer.tilematrixsetlinks.items()))
matrix, limits = next(iter(link.tilematrixlimits.items()))
tile = wmts.gettile(
    layer=layer.id,
    tilematrixset=name,
    tilematrix=matrix,
    row=limits.mintilerow,
    column=limits.mintilecol,
    format=layer.formats[0],
)
with open("tile", "wb") as file:
    file.write(tile.read())
"""
