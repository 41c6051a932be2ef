"""Text and colours as pixels, for what is drawn without any data: legends and reports."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from mastaba.encoding.base import Encoder, Raster
from mastaba.model.bbox import WORLD
from mastaba.model.crs import WGS84

Colour = tuple[int, int, int, int]
Bytes = npt.NDArray[np.uint8]

TEXT_SIZE = 11
"""Pixels."""
LINE_HEIGHT = 14
"""Pixels from one line of text to the next."""

_LUMINANCE = np.array([0.2125, 0.7154, 0.0721])


@cache
def font() -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Return the font of all texts; it comes with Pillow."""
    return ImageFont.load_default(TEXT_SIZE)


def text_width(text: str) -> int:
    """Return the width of a line of text, pixels."""
    return int(np.ceil(font().getlength(text)))


def canvas(width: int, height: int, colour: Colour) -> tuple[Image.Image, ImageDraw.ImageDraw]:
    """Return an empty picture and what draws on it."""
    image = Image.new("RGBA", (width, height), colour)
    return image, ImageDraw.Draw(image)


def wrapped(text: str, width: int) -> list[str]:
    """Return a text as lines that fit into a width; a word that does not is not broken."""
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def encoded(image: Image.Image, encoder: Encoder, *, transparent: bool) -> bytes:
    """Return a picture in any format: with alpha, in colours or in grey, as the format allows."""
    pixels = np.asarray(image)
    keep_alpha = transparent and encoder.holds_alpha
    colours = pixels if keep_alpha else pixels[:, :, :3]
    for candidate in (colours, _grey(colours[:, :, :3])):
        if encoder.accepts(candidate.dtype, candidate.shape[2]):
            raster = Raster(np.ascontiguousarray(candidate), WORLD, WGS84)
            return encoder.encode(raster, {})
    raise ValueError(f"{encoder.media_type} cannot hold a picture")


def _grey(colours: Bytes) -> Bytes:
    grey: Bytes = (colours @ _LUMINANCE)[:, :, np.newaxis].astype(np.uint8)
    return grey


def opaque(colour: Sequence[int] | None) -> Colour:
    """Return a colour without transparency; white for None."""
    red, green, blue = colour or (255, 255, 255)
    return red, green, blue, 255
