"""Readers of the tiles of one image: as they are stored, with a header, decoded, or cut."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy.typing as npt

from mastaba.api.containers import WEBP, Level, TileFormat
from mastaba_cog.conversion import Publication, TileConverter, framed
from mastaba_cog.cuts import Cut, CutDecoder, CutReader
from mastaba_cog.images import GeoTiff, Image
from mastaba_cog.publication import SPLICED, STORED
from mastaba_cog.reader import CogReader, CogTile, ScatteredReader, ScatteredTile
from mastaba_cog.samples import SampleDecoder
from mastaba_cog.splices import tiff_header


class StoredDecoder:
    """Decodes complete pictures and strips, for maps."""

    def __init__(self, image: Image, order: str, channels: int) -> None:
        self._samples = SampleDecoder(image, order)
        self.nbytes = image.tile_width * image.tile_height * channels

    def decode(self, payload: bytes) -> Any:
        found = self._samples.samples(payload)
        found = found if not found.flags.writeable else found.view()
        found.flags.writeable = False
        return found


class _SplicedDecoder:
    """Decodes payloads without a frame."""

    def __init__(self, image: Image, converter: TileConverter) -> None:
        self._size = image.tile_width, image.tile_height
        self._converter = converter
        self.nbytes = converter.nbytes

    def decode(self, payload: bytes) -> Any:
        return self._converter.decode(framed([payload], *self._size))


def reader_maker(
    geotiff: GeoTiff, number: int, how: Publication, tile_format: TileFormat, way: str, digest: str
) -> tuple[Callable[..., CogReader], int]:
    """Return what makes the reader of an image, and the channels of its pixels."""
    image, mask, order = geotiff.images[number], geotiff.masks[number], geotiff.order
    decoder: Any = None
    deliver: Callable[[bytes], bytes] | None = None
    suffix = ""
    if way == STORED:
        channels = image.bands
        if tile_format.name != "TIFF_JPG_UINT8":
            decoder = StoredDecoder(image, order, channels)
    else:
        converter = TileConverter(image, mask, order, how)
        channels = converter.channels
        if way == SPLICED:
            decoder = _SplicedDecoder(image, converter)
            deliver = partial(_spliced, image, order)
            suffix = "-tiff"
        else:
            decoder = converter
            deliver = partial(_encoded, converter, tile_format)
            suffix = f"-{digest}"
    kind = ScatteredReader if _is_scattered(geotiff, number) else CogReader

    def make(level: Level, **arguments: Any) -> CogReader:
        reader = kind(level, **arguments)
        reader.deliver, reader.decoder, reader.etag_suffix = deliver, decoder, suffix
        return reader

    return make, channels


def cut_reader_maker(
    geotiff: GeoTiff,
    number: int,
    how: Publication,
    tile_format: TileFormat,
    cut: Cut,
    channels: int,
    digest: str,
) -> Callable[..., CutReader]:
    """Return what makes the reader of an overview whose tiles have other corners.

    Args:
        channels: of the full image.
    """
    image, mask, order = geotiff.images[number], geotiff.masks[number], geotiff.order
    converter = TileConverter(image, mask, order, how)
    if converter.channels != channels:
        # The tiles of the full image are sent as they are stored.
        plain = replace(
            how,
            alpha=None,
            is_associated=False,
            raw_nodata=None,
            adds_alpha=False,
            uses_mask=False,
        )
        converter = TileConverter(image, mask, order, plain)
    decoder = CutDecoder(image, cut, converter, 0.0 if how.adds_alpha else how.nodata)
    kind = ScatteredTile if _is_scattered(geotiff, number) else CogTile

    def make(level: Level, **arguments: Any) -> CutReader:
        reader = CutReader(level, cut=cut, part_class=kind, **arguments)
        reader.deliver, reader.decoder = partial(_encoded, decoder, tile_format), decoder
        reader.etag_suffix = f"-cut-{digest}"
        return reader

    return make


def _is_scattered(geotiff: GeoTiff, number: int) -> bool:
    has_mask = geotiff.masks[number] is not None and not geotiff.is_interleaved
    return geotiff.images[number].is_planar or has_mask


def _spliced(image: Image, order: str, payload: bytes) -> bytes:
    further: list[tuple[int, str, tuple[int, ...] | bytes]] = []
    if image.predictor != 1:
        further.append((317, "H", (image.predictor,)))
    if image.palette:
        further.append((320, "H", image.palette))
    if image.extra:
        further.append((338, "H", image.extra))
    if image.lerc:
        further.append((50674, "I", image.lerc))
    head = tiff_header(
        *(image.tile_width, image.tile_height, image.bands, image.bits, image.kind),
        *(image.compression, image.photometric, len(payload)),
        tuple(further),
        order,
    )
    return head + payload


def _encoded(
    converter: TileConverter | CutDecoder, tile_format: TileFormat, payload: bytes
) -> bytes:
    return encoded(converter.decode(payload), tile_format)


def encoded(pixels: npt.NDArray[Any], tile_format: TileFormat) -> bytes:
    """Return a tile in a format that is sent after decoding.

    Args:
        pixels: shape (rows, columns, channels), uint8 or float32.
    """
    if tile_format.sample == "float32":
        return pixels.astype("<f4", copy=False).tobytes()
    if tile_format is WEBP:
        import io

        from PIL import Image as Pictures

        stream = io.BytesIO()
        Pictures.fromarray(pixels).save(stream, "WEBP", quality=80, method=2)
        return stream.getvalue()
    from mastaba_render.encoding.tile_format import stored_payload

    payload: bytes = stored_payload(pixels, tile_format)
    return payload
