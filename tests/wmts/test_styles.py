"""Which styles a layer offers over WMTS."""

from __future__ import annotations

from dataclasses import replace

import pytest
from werkzeug.test import Client

from mastaba.model.layer import Layer
from mastaba.model.style import Palette, PaletteEntry, Style
from mastaba.tiles.styles import listed_styles

PALETTE = Palette((PaletteEntry(0, 1, 2, 3, 255),))
IDENTITY = Style("i", "identity", "")
TINT = Style("t", "tint", "", palette=PALETTE)
RELIEF = Style("r", "relief", "", processing={"estompage": {}})
COLOURED_RELIEF = Style("c", "coloured", "", palette=PALETTE, processing={"estompage": {}})
ALL = (COLOURED_RELIEF, RELIEF, TINT, IDENTITY)


@pytest.mark.parametrize(
    ("layer", "styles", "expected"),
    [
        ("GREY_PNG", ALL, [TINT, IDENTITY, COLOURED_RELIEF, RELIEF]),
        ("GREY_PNG", (RELIEF, COLOURED_RELIEF), [RELIEF, COLOURED_RELIEF]),
        ("FLOAT32_RAW", ALL, [IDENTITY, COLOURED_RELIEF, RELIEF, TINT]),
        ("FLOAT32_RAW", (TINT, RELIEF), [TINT, RELIEF]),
        ("GREYA_ZIP", (TINT, IDENTITY), [IDENTITY, TINT]),
    ],
)
def test_styles_that_stored_tiles_show_are_listed_first(
    tiny: Client, layer: str, styles: tuple[Style, ...], expected: list[Style]
) -> None:
    found: Layer = tiny.application.site.catalogue.layers[layer]
    assert listed_styles(replace(found, styles=styles)) == expected
