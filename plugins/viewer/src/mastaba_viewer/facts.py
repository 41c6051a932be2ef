"""The "About" section of the page of a layer."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

from mastaba.api.web import anchor
from mastaba_viewer.texts import text

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer

_MOST_DIGITS = 12


def facts(layer: Layer, lang: str) -> str:
    """Return the terms of a description list: what is stored, in which grid and where."""
    pyramid, box = layer.pyramid, layer.geographic_bbox
    tile_matrix_set, top, bottom = pyramid.tile_matrix_set, pyramid.coarsest, pyramid.finest
    names = dict.fromkeys((top.matrix.id, bottom.matrix.id))
    unit = "°" if tile_matrix_set.crs.is_geographic else "m"
    found = [
        (text("identifier", lang), layer.id),
        (text("stored-as", lang), pyramid.format.media_type),
        (text("set", lang), f"{tile_matrix_set.id} ({tile_matrix_set.crs.code})"),
        (text("levels", lang), " – ".join(names)),
        (text("finest-pixel", lang), f"{three_digits(bottom.matrix.cell_size, lang)} {unit}"),
        (text("longitude", lang), f"{box.xmin:z.4f} … {box.xmax:z.4f}"),
        (text("latitude", lang), f"{box.ymin:z.4f} … {box.ymax:z.4f}"),
    ]
    rows = [(name, escape(value)) for name, value in found]
    rows += [
        (item.type or text("metadata", lang), anchor(item.url, item.url)) for item in layer.metadata
    ]
    return "".join(f"<dt>{escape(name)}</dt><dd>{value}</dd>\n" for name, value in rows)


def three_digits(value: float, lang: str) -> str:
    """Return a number with three significant digits, without an exponent, for reading."""
    digits = max(0, 2 - math.floor(math.log10(value)))
    found = f"{value:.{min(_MOST_DIGITS, digits)}f}"
    return found.replace(".", ",") if lang == "fr" else found
