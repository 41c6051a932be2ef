"""Ranges of glyphs: damaged ones, and those made of a font file."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from mastaba_styles.glyphs import BUFFER, composed, encoded_range


@pytest.mark.parametrize(
    "data", [b"\x0a\xff", b"\x0a" + b"\xff" * 11, b"\x0f\x01", b"\x0a\x02\x1a\x00"]
)
def test_damaged_ranges_are_not_composed(data: bytes) -> None:
    with pytest.raises(ValueError):
        composed("Font", 0, [data])


@pytest.mark.skipif(not importlib.util.find_spec("fontTools"), reason="needs the extra fonts")
def test_glyphs_are_made_of_a_font_file(tmp_path: Path) -> None:
    from fontTools.fontBuilder import FontBuilder
    from fontTools.pens.ttGlyphPen import TTGlyphPen

    from mastaba.commands.main import main

    # The letter A is a square of half an em on the base line.
    pen = TTGlyphPen(None)
    for place, point in enumerate([(0, 0), (0, 500), (500, 500), (500, 0)]):
        (pen.moveTo if place == 0 else pen.lineTo)(point)
    pen.closePath()
    font = FontBuilder(1000, isTTF=True)
    font.setupGlyphOrder([".notdef", "A"])
    font.setupCharacterMap({65: "A"})
    font.setupGlyf({".notdef": TTGlyphPen(None).glyph(), "A": pen.glyph()})
    font.setupHorizontalMetrics({".notdef": (500, 0), "A": (600, 0)})
    font.setupHorizontalHeader(ascent=800, descent=-200)
    font.setupNameTable({"familyName": "Square", "styleName": "Regular"})
    font.setupOS2()
    font.setupPost()
    font.save(tmp_path / "square.ttf")

    assert (
        main(["styles", "glyphs", str(tmp_path / "square.ttf"), "--to", str(tmp_path / "to")]) == 0
    )
    data = (tmp_path / "to/Square Regular/0-255.pbf").read_bytes()
    from mastaba_styles.outlines import faces_of, glyphs_of

    (glyph,) = glyphs_of(faces_of(tmp_path / "square.ttf")[0], 0)
    assert data == encoded_range("Square Regular", 0, [glyph])
    # 24 pixels an em: 12 pixels, whose top is 14 below the ascender of 26; the edge is at 191.25.
    assert (glyph.width, glyph.height, glyph.left, glyph.top, glyph.advance) == (12, 12, 0, -14, 14)
    rows = [glyph.bitmap[at : at + 12 + 2 * BUFFER] for at in range(0, len(glyph.bitmap), 18)]
    assert rows[9][BUFFER] == round(255 * (1 - (-0.5 / 8 + 0.25)))
    assert rows[9][BUFFER - 1] == round(255 * (1 - (0.5 / 8 + 0.25)))
    assert rows[9][0] < rows[9][1] < rows[9][2] < rows[9][3] < rows[9][8]
