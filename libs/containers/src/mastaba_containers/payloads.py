"""The formats of tiles, recognized by their first bytes; nothing is decoded.

Sources: PNG (ISO/IEC 15948, clause 11), JPEG (ITU-T T.81, annex B), WebP (RFC 9649), AVIF (ISO
23008-12, ISO 14496-12), TIFF 6, vector tiles 2.1 of Mapbox.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from mastaba.errors import ContainerFormatError
from mastaba_containers.inflating import coding_of, inflated
from mastaba_containers.protobuf import fields

PNG: Final = "png"
JPEG: Final = "jpeg"
WEBP: Final = "webp"
AVIF: Final = "avif"
TIFF: Final = "tiff"
MVT: Final = "mvt"

_PNG_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_PNG_CHANNELS: Final = {0: 1, 2: 3, 3: 3, 4: 2, 6: 4}
_PALETTE: Final = 3
_TIFF_SIGNATURES: Final = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""Markers of JPEG that begin a frame."""
_ALPHA: Final = b"urn:mpeg:mpegB:cicp:systems:auxiliary:alpha"
_LARGEST_TILE: Final = 64 * 1024 * 1024
_LAYERS: Final = 0x1A
"""Key of a layer in a vector tile: field 3, with a length."""
_SEARCHED: Final = 64 * 1024
"""Bytes in which the properties of an AVIF image are searched."""


@dataclass(frozen=True, slots=True)
class Payload:
    """What the bytes of a tile say about it.

    Attributes:
        kind: ``png``, ``jpeg``, ``webp``, ``avif``, ``tiff`` or ``mvt``.
        coding: ``gzip`` or ``zstd`` if the tile is compressed once more; None if not.
        width, height: pixels; 0 if unknown.
        channels: of the decoded image, with alpha; 0 if unknown. An image with a palette has 3,
            or 4 if some of its colours are transparent.
        bits: of a sample; 0 if unknown.
        has_palette: whether the pixels are indices of colours.
        is_animated: whether it contains several images.
    """

    kind: str
    coding: str | None = None
    width: int = 0
    height: int = 0
    channels: int = 0
    bits: int = 0
    has_palette: bool = False
    is_animated: bool = False


def sniffed(data: bytes, limit: int = _LARGEST_TILE) -> Payload | None:
    """Return the format of a tile, or None if it is not a known one, or is damaged.

    Args:
        data: the whole tile; for images, its start may be enough.
        limit: bytes to which a compressed tile may inflate.
    """
    coding = coding_of(data)
    if coding is not None:
        try:
            found = _of(inflated(data, limit, coding))
        except ContainerFormatError:
            return None
        if found is None:
            return None
        return Payload(
            *(found.kind, coding, found.width, found.height, found.channels, found.bits),
            *(found.has_palette, found.is_animated),
        )
    return _of(data)


def _of(data: bytes) -> Payload | None:
    try:
        if data.startswith(_PNG_SIGNATURE):
            return _png(data)
        if data.startswith(b"\xff\xd8\xff"):
            return _jpeg(data)
        if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
            return _webp(data)
        if data[4:8] == b"ftyp" and data[8:12] in (b"avif", b"avis", b"mif1", b"miaf"):
            return _avif(data)
    except (struct.error, IndexError):
        return None
    if data.startswith(_TIFF_SIGNATURES):
        return Payload(TIFF)
    return Payload(MVT) if _is_vector_tile(data) else None


def _png(data: bytes) -> Payload | None:
    length, kind, width, height, bits, colour = struct.unpack_from(">I4sIIBB", data, 8)
    if (length, kind) != (13, b"IHDR") or colour not in _PNG_CHANNELS:
        return None
    channels = _PNG_CHANNELS[colour]
    is_animated = False
    position = 33
    while position + 8 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, position)
        if kind == b"IDAT":
            break
        if kind == b"tRNS" and channels in (1, 3):
            channels += 1
        is_animated |= kind == b"acTL"
        position += 12 + length
    return Payload(
        *(PNG, None, width, height, channels, bits),
        has_palette=colour == _PALETTE,
        is_animated=is_animated,
    )


def _jpeg(data: bytes) -> Payload | None:
    position = 2
    while position + 4 <= len(data):
        if data[position] != 0xFF:
            return None
        marker = data[position + 1]
        if marker == 0xFF:  # a fill byte
            position += 1
            continue
        if marker == 0x01 or 0xD0 <= marker <= 0xD7:
            position += 2
            continue
        (length,) = struct.unpack_from(">H", data, position + 2)
        if marker in _FRAMES:
            bits, height, width, channels = struct.unpack_from(">BHHB", data, position + 4)
            return Payload(JPEG, None, width, height, channels, bits)
        if marker == 0xDA or length < 2:
            return None
        position += 2 + length
    return None


def _webp(data: bytes) -> Payload | None:
    kind = data[12:16]
    if kind == b"VP8 ":
        if data[23:26] != b"\x9d\x01\x2a":
            return None
        width, height = struct.unpack_from("<HH", data, 26)
        return Payload(WEBP, None, width & 0x3FFF, height & 0x3FFF, 3, 8)
    if kind == b"VP8L":
        if data[20] != 0x2F:
            return None
        (packed,) = struct.unpack_from("<I", data, 21)
        width, height = (packed & 0x3FFF) + 1, (packed >> 14 & 0x3FFF) + 1
        return Payload(WEBP, None, width, height, 4 if packed >> 28 & 1 else 3, 8)
    if kind == b"VP8X":
        flags = data[20]
        width, height = (int.from_bytes(data[at : at + 3], "little") + 1 for at in (24, 27))
        if len(data) < 30:
            return None
        channels = 4 if flags & 0x10 else 3
        return Payload(WEBP, None, width, height, channels, 8, is_animated=bool(flags & 0x02))
    return None


def _avif(data: bytes) -> Payload | None:
    head = data[:_SEARCHED]
    at = head.find(b"ispe")
    if at < 0:
        return None
    width, height = struct.unpack_from(">II", head, at + 8)
    bits = 8
    depths = head.find(b"pixi")
    if depths >= 0 and depths + 10 <= len(head):
        bits = head[depths + 9]
    channels = 4 if _ALPHA in head else 3
    return Payload(AVIF, None, width, height, channels, bits, is_animated=data[8:12] == b"avis")


def _is_vector_tile(data: bytes) -> bool:
    """Return whether data consists of layers with names, each complete."""
    if not data or data[0] != _LAYERS:
        return False
    try:
        return all(
            number == _LAYERS >> 3 and type(layer) is bytes and _is_layer(layer)
            for number, layer in fields(data)
        )
    except ValueError:
        return False


def _is_layer(layer: bytes) -> bool:
    # A writer may put the fields of a layer in any order; its name is required.
    kinds = {(number, type(value)) for number, value in fields(layer)}
    return (1, bytes) in kinds and not any(number == 0 for number, _ in kinds)
