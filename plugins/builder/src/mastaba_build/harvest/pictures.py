"""Pictures from a service: decoded, checked, and as they may be stored without a change."""

from __future__ import annotations

import io
import struct
import zlib
from dataclasses import dataclass
from typing import Final

import numpy as np
from PIL import Image

from mastaba_build.harvest.client import Answer
from mastaba_build.harvest.documents import normal, reported
from mastaba_build.samples import Mask, PixelType, Raster, Samples, flattened

_DAMAGE: Final = (OSError, SyntaxError, struct.error, zlib.error, Image.DecompressionBombError)
_SLACK: Final = 1 << 16
"""Bytes of a picture in addition to its pixels."""
_PNG: Final = b"\x89PNG\r\n\x1a\n"
_COLOUR_TYPES: Final = {1: 0, 2: 4, 3: 2, 4: 6}
_END_OF_PNG: Final = b"IEND\xaeB`\x82"
_END_OF_JPEG: Final = b"\xff\xd9"
_TAIL: Final = 64
"""Bytes that may follow the end of a picture."""
_MODES: Final = {"1", "L", "LA", "P", "PA", "RGB", "RGBA"}
_ALPHA: Final = {"LA", "PA", "RGBA"}
_LENGTHLESS: Final = frozenset([0x01, *range(0xD0, 0xD9)])
_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_BASELINE: Final = 0xC0
_ADOBE: Final = 0xEE
_SCAN: Final = 0xDA


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture of a service.

    Attributes:
        payload: its bytes, if they can be stored as a tile; else None.
    """

    raster: Raster
    payload: bytes | None


@dataclass(frozen=True, slots=True)
class PictureReader:
    """Reads pictures.

    Args:
        media_type: of all of them.
        type_: pixels of the pyramid.
        nodata: value of each channel in pictures where there is no data.
    """

    media_type: str
    type_: PixelType
    nodata: tuple[float, ...]

    def largest(self, width: int, height: int) -> int:
        """Return the bytes that a picture of a size may have."""
        return width * height * 5 + _SLACK

    def read(self, answer: Answer, width: int, height: int) -> Picture:
        """Return the picture in an answer.

        Raises:
            ValueError: it is something else, damaged, or of another size.
        """
        media_type, body = answer
        if normal(media_type) != normal(self.media_type):
            what = f"answers with {media_type[:60] or 'no media type'} instead of {self.media_type}"
            is_text = media_type.startswith(("text/", "application/")) or body[:1] == b"<"
            raise ValueError(f"{what}: {reported(body)}" if is_text else what)
        if self.type_.dtype == np.float32:
            return Picture(self._floats(body, width, height), None)
        samples, valid = self._colours(body, width, height)
        samples[~valid] = 0
        payload = body if self._is_storable(body) else None
        return Picture(Raster(samples, valid), payload)

    def is_blank(self, samples: Samples) -> bool:
        """Return whether all pixels have the value of nodata."""
        value = np.array(self.nodata, samples.dtype)
        return bool((samples[0, 0] == value).all() and (samples == value).all())

    def _floats(self, body: bytes, width: int, height: int) -> Raster:
        if len(body) != 4 * width * height:
            raise ValueError(f"a picture has {len(body)} bytes instead of {4 * width * height}")
        samples = np.frombuffer(body, "<f4").astype(np.float32).reshape(height, width, 1)
        valid = np.isfinite(samples[:, :, 0]) & (samples[:, :, 0] != np.float32(self.nodata[0]))
        return Raster(np.where(valid[:, :, np.newaxis], samples, np.float32(0)), valid)

    def _colours(self, body: bytes, width: int, height: int) -> tuple[Samples, Mask]:
        format_ = "PNG" if normal(self.media_type) == "image/png" else "JPEG"
        end = _END_OF_PNG if format_ == "PNG" else _END_OF_JPEG
        try:
            with Image.open(io.BytesIO(body), formats=(format_,)) as image:
                # Before the pixels, because a small file can declare gigabytes of them.
                if image.size != (width, height):
                    raise ValueError(
                        f"a picture has {image.size[0]} x {image.size[1]} pixels instead of "
                        f"{width} x {height}"
                    )
                if image.mode not in _MODES:
                    raise ValueError(f"a picture has pixels of the mode {image.mode}")
                if end not in body[-_TAIL:]:
                    raise ValueError("a picture is cut short")
                return self._channels(image)
        except _DAMAGE as error:
            text = reported(body) if body[:1] == b"<" else str(error)[:200]
            raise ValueError(f"a picture cannot be decoded: {text}") from None

    def _channels(self, image: Image.Image) -> tuple[Samples, Mask]:
        """Return the pixels of an image in the channels of the pyramid, and which have data."""
        count = self.type_.channels
        has_alpha = image.mode in _ALPHA or "transparency" in image.info
        full = np.array(image.convert("RGBA" if has_alpha else "RGB"))
        colours = full[:, :, :3]
        if count < 3:
            if (colours != colours[:, :, :1]).any():
                raise ValueError("a picture has colours; use --channels 3 or 4")
            colours = colours[:, :, :1]
        alpha = full[:, :, 3] if has_alpha else np.full(full.shape[:2], 255, np.uint8)
        if self.type_.has_alpha:
            return np.concatenate([colours, alpha[:, :, np.newaxis]], axis=2), alpha > 0
        return np.array(flattened(colours, alpha, self.type_.nodata)), alpha > 0

    def _is_storable(self, body: bytes) -> bool:
        """Return whether all readers of slabs can decode a picture as a tile."""
        kind, channels = self.type_.format, self.type_.channels
        if self.type_.protects_nodata:
            return False
        if kind == "TIFF_PNG_UINT8":
            return _is_plain_png(body, channels)
        return kind in ("TIFF_JPG_UINT8", "TIFF_JPG90_UINT8") and _is_baseline_jpeg(body)


def _is_plain_png(body: bytes, channels: int) -> bool:
    """Return whether a PNG has only IHDR, one IDAT and IEND, 8 bits, and no filters."""
    width, height = struct.unpack_from(">II", body, 16) if len(body) > 24 else (0, 0)
    head = struct.pack(">IIBBBBB", width, height, 8, _COLOUR_TYPES[channels], 0, 0, 0)
    if body[:8] != _PNG or body[16:29] != head or body[37:41] != b"IDAT":
        return False
    (length,) = struct.unpack_from(">I", body, 33)
    if body[45 + length :] != b"\0\0\0\0" + _END_OF_PNG:
        return False
    stride = 1 + width * channels
    rows = zlib.decompressobj().decompress(body[41 : 41 + length], height * stride)
    return len(rows) == height * stride and not any(rows[::stride])


def _is_baseline_jpeg(body: bytes) -> bool:
    """Return whether a JPEG is baseline with 8 bits, and has 3 components in YCbCr."""
    at, is_baseline = 2, False
    while at + 4 <= len(body) and body[at] == 0xFF:
        marker = body[at + 1]
        if marker in _LENGTHLESS:
            at += 2
            continue
        (length,) = struct.unpack_from(">H", body, at + 2)
        part = body[at + 4 : at + 2 + length]
        if marker == _ADOBE and part[:5] == b"Adobe" and part[11:12] != b"\x01":
            return False  # not YCbCr
        if marker in _FRAMES:
            is_baseline = marker == _BASELINE and part[:1] == b"\x08" and part[5:6] == b"\x03"
        if marker == _SCAN:
            # All components in one scan.
            return is_baseline and part[:1] == b"\x03" and body.endswith(_END_OF_JPEG)
        at += 2 + length
    return False
