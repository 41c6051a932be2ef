"""Text and colours as pixels, for images drawn without layer data: legends and reports."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from mastaba.api.catalogue import WGS84, WORLD
from mastaba_render.api.encoders import Encoder, Raster

Colour = tuple[int, int, int, int]
Bytes = npt.NDArray[np.uint8]

TEXT_SIZE = 11
"""Pixels."""
LINE_HEIGHT = 14
"""Pixels from one line of text to the next."""

_LUMINANCE = np.array([0.2125, 0.7154, 0.0721])


@cache
def font() -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Return the font for all text; Pillow includes it."""
    return ImageFont.load_default(TEXT_SIZE)


def text_width(text: str) -> int:
    """Return the width of a line of text in pixels."""
    return int(np.ceil(font().getlength(text)))


def canvas(width: int, height: int, colour: Colour) -> tuple[Image.Image, ImageDraw.ImageDraw]:
    """Return an empty RGBA image and the object that draws on it."""
    image = Image.new("RGBA", (width, height), colour)
    return image, ImageDraw.Draw(image)


def wrapped(text: str, width: int) -> list[str]:
    """Return a text as lines that fit a width in pixels; words that are too long are not broken."""
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def encoded(image: Image.Image, encoder: Encoder, *, transparent: bool) -> bytes:
    """Return an encoded RGBA image: with alpha, in colour or in grey, as the format allows.

    Raises:
        ValueError: the format can hold none of these.
    """
    pixels = np.asarray(image)
    keep_alpha = transparent and encoder.holds_alpha
    colours = pixels if keep_alpha else pixels[:, :, :3]
    for candidate in (colours, _grey(colours[:, :, :3])):
        if encoder.accepts(candidate.dtype, candidate.shape[2]):
            raster = Raster(np.ascontiguousarray(candidate), WORLD, WGS84)
            return encoder.encode(raster, {})
    raise ValueError(f"{encoder.media_type} cannot hold an image")


def _grey(colours: Bytes) -> Bytes:
    grey: Bytes = (colours @ _LUMINANCE)[:, :, np.newaxis].astype(np.uint8)
    return grey


def opaque(colour: Sequence[int] | None) -> Colour:
    """Return an RGB colour as opaque RGBA; white for None."""
    red, green, blue = colour or (255, 255, 255)
    return red, green, blue, 255
