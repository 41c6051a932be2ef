"""Pictures of several kinds in one file: one format, or all; maps get equal pixels."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from mastaba.api.containers import (
    AVIF,
    JPEG_GRAY,
    TILE_FORMATS,
    WEBP,
    Codec,
    RasterSpecification,
    TileFormat,
)
from mastaba.errors import ContainerFormatError
from mastaba_containers.payloads import Payload, sniffed

if TYPE_CHECKING:
    from mastaba.api.containers import Delivery

_PNG: Final = TILE_FORMATS["TIFF_PNG_UINT8"]
_JPEG: Final = TILE_FORMATS["TIFF_JPG_UINT8"]
STORED: Final = "stored"
"""Value of the option ``format``: all pictures are sent as they are."""
_FORMATS: Final = {"png": _PNG, "jpeg": _JPEG, "webp": WEBP, "avif": AVIF}
_MODES: Final = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}
_SIGNATURES: Final = {
    Codec.PNG: (0, b"\x89PNG\r\n\x1a\n"),
    Codec.JPEG: (0, b"\xff\xd8\xff"),
    Codec.WEBP: (8, b"WEBP"),
    Codec.AVIF: (4, b"ftyp"),
}
_MEDIA_TYPES: Final = {found.codec: found.media_type for found in _FORMATS.values()}
_WEBP_QUALITY: Final = 80


def common_format(
    samples: Sequence[Payload], wanted: str | None, name: str
) -> tuple[TileFormat, int]:
    """Return the format in which the pictures of a file are delivered, and its channels.

    One kind of picture is delivered as it is stored, several kinds as PNG. With `STORED`, it is the
    format that services announce: that of the first picture.

    Args:
        wanted: option ``format``.
        name: of the file, for messages.

    Raises:
        ContainerFormatError: the tiles are not pictures of one size, or not in a known format.
    """
    kinds = {sample.kind for sample in samples}
    if kinds - _FORMATS.keys() or any(sample.coding for sample in samples):
        what = ", ".join(sorted(kinds))
        raise ContainerFormatError(f"{name}: tiles of the kinds {what} cannot form one layer")
    if any(sample.is_animated for sample in samples):
        raise ContainerFormatError(f"{name}: animated pictures cannot form a layer")
    if wanted == STORED:
        wanted = samples[0].kind
    kind = wanted or (next(iter(kinds)) if len(kinds) == 1 else "png")
    has_colour = any(sample.channels >= 3 for sample in samples)
    has_alpha = any(sample.channels in (2, 4) for sample in samples)
    if kind == "jpeg":
        return (_JPEG, 3) if has_colour or has_alpha else (JPEG_GRAY, 1)
    channels = (3 if has_colour or kind != "png" else 1) + has_alpha
    return _FORMATS[kind], channels


def size_of(samples: Sequence[Payload], name: str) -> tuple[int, int]:
    """Return width and height of all pictures. Raises `ContainerFormatError` if they differ."""
    sizes = {(sample.width, sample.height) for sample in samples}
    if len(sizes) > 1:
        raise ContainerFormatError(f"{name}: its tiles have different sizes: {sorted(sizes)}")
    return next(iter(sizes))


class PictureDecoder:
    """Decodes pictures of any kind to the same number of channels.

    Args:
        tile_format: of the pyramid.
        raster: of the pyramid. Its nodata are behind pictures with alpha, if it has none.
        width, height: pixels.
    """

    def __init__(
        self, tile_format: TileFormat, raster: RasterSpecification, width: int, height: int
    ) -> None:
        channels = raster.channels
        self._mode = _MODES[channels]
        self._format = tile_format
        self._channels = channels
        self._behind = tuple(int(value) for value in raster.nodata)
        self._size = width, height

    @property
    def nbytes(self) -> int:
        """Size of one decoded tile in bytes."""
        return self._size[0] * self._size[1] * self._channels

    def decode(self, payload: bytes) -> Any:
        """Return the pixels of a tile: shape (rows, columns, channels), uint8, read-only.

        Raises:
            ContainerFormatError: the picture is damaged, or has another size.
        """
        import numpy as np
        from PIL import Image

        found = sniffed(payload)
        if found is None or (found.width, found.height) != self._size:
            raise ContainerFormatError(f"a tile is not a picture of {self._size} pixels")
        try:
            with Image.open(io.BytesIO(payload), formats=("PNG", "JPEG", "WEBP", "AVIF")) as opened:
                if opened.size != self._size:
                    raise ContainerFormatError(f"a tile has {opened.size} pixels")
                image: Image.Image = opened
                if image.mode.startswith("I"):
                    # Samples of 16 bits: the upper eight.
                    upper = np.asarray(image).astype(np.uint32) >> 8
                    image = Image.fromarray(upper.astype(np.uint8))
                elif image.has_transparency_data and not self._mode.endswith("A"):
                    # Transparent pixels may have any colour.
                    above = image.convert("RGBA")
                    image = Image.new(self._mode, image.size, self._behind)
                    image.paste(above, mask=above.getchannel("A"))
                elif image.mode == "P" and "transparency" in image.info:
                    image = image.convert("RGBA")
                pixels = np.array(image.convert(self._mode))
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
            raise ContainerFormatError("a tile cannot be decoded") from error
        pixels = pixels.reshape(self._size[1], self._size[0], self._channels)
        pixels.flags.writeable = False
        return pixels


def delivery_of(tile_format: TileFormat, decoder: PictureDecoder) -> Delivery:
    """Return what passes pictures of a format on, and turns others into it."""
    start, signature = _SIGNATURES[tile_format.codec]

    def deliver(payload: bytes) -> bytes:
        if payload.startswith(signature, start):
            return payload
        return _encoded(decoder.decode(payload), tile_format)

    return deliver


def type_of(payload: bytes) -> str:
    """Return the media type of a picture by its first bytes.

    Raises:
        ContainerFormatError: it is none.
    """
    for kind, (start, signature) in _SIGNATURES.items():
        if payload[start : start + len(signature)] == signature:
            return _MEDIA_TYPES[kind]
    raise ContainerFormatError("a tile is not a picture")


def _encoded(pixels: Any, tile_format: TileFormat) -> bytes:
    from PIL import Image

    if tile_format.codec in (Codec.WEBP, Codec.AVIF):
        output = io.BytesIO()
        image = Image.fromarray(pixels)
        image.save(output, tile_format.codec.value.upper(), quality=_WEBP_QUALITY)
        return output.getvalue()
    from mastaba_render.encoding.tile_format import stored_payload

    return stored_payload(pixels, tile_format)
