"""Errors reported as images: EXCEPTIONS=INIMAGE and BLANK (OGC 06-042 clause 7.3.3.11)."""

from __future__ import annotations

from mastaba.api.web import Response, content_disposition
from mastaba_wms.drawing import LINE_HEIGHT, canvas, encoded, font, opaque, wrapped
from mastaba_wms.params import BlankImage, Exceptions

_MARGIN = 4
_INK = (180, 0, 0, 255)


def drawn_report(words: str, blank: BlankImage) -> Response:
    """Return an image in place of a map: with the message on it, or blank.

    Args:
        words: the message, suitable for clients.
        blank: size, format and background; its ``exceptions`` is not XML.
    """
    transparent = blank.background.transparent
    ground = opaque(blank.background.colour)
    if transparent:
        ground = (*ground[:3], 0)
    image, draw = canvas(blank.width, blank.height, ground)
    if blank.exceptions is Exceptions.INIMAGE:
        lines = wrapped(words, blank.width - 2 * _MARGIN)
        for number, line in enumerate(lines[: blank.height // LINE_HEIGHT + 1]):
            draw.text((_MARGIN, _MARGIN + number * LINE_HEIGHT), line, _INK, font())
    media_type = blank.encoder.media_type
    headers = [
        ("Content-Type", media_type),
        ("Content-Disposition", content_disposition(media_type, None, blank.encoder.extension)),
        # The standard requires status 200, but caches must not keep the report as the map.
        ("Cache-Control", "no-store"),
    ]
    return Response(200, headers, encoded(image, blank.encoder, transparent=transparent))
