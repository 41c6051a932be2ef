"""From stored samples to pixels that are published: colours, transparency, values."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from mastaba.errors import SlabFormatError
from mastaba_cog import images
from mastaba_cog.images import Image
from mastaba_cog.samples import SampleDecoder, Samples

_HEADER: Final = struct.Struct("<HHB")


@dataclass(frozen=True, slots=True)
class Publication:
    """How samples become pixels; equal for all images of a file.

    Attributes:
        bands: those that are shown, from 0.
        alpha: the band that is alpha, from 0; None without one.
        is_associated: whether colours are multiplied by alpha.
        rescale: lowest and highest value of each band; empty if samples are kept.
        is_float: whether pixels are float32; uint8 otherwise.
        raw_nodata: the sample without data, before `scale`; None without one.
        nodata: the value of pixels without data.
        adds_alpha: whether a channel says which pixels have data.
        uses_mask: whether masks are applied.
        scale, offset: of values.
    """

    bands: tuple[int, ...]
    alpha: int | None
    is_associated: bool
    rescale: tuple[tuple[float, float], ...]
    is_float: bool
    raw_nodata: float | None
    nodata: float
    adds_alpha: bool
    uses_mask: bool
    scale: float = 1.0
    offset: float = 0.0


def framed(parts: list[bytes], width: int, height: int) -> bytes:
    """Return a payload of several parts.

    Args:
        width, height: pixels of the tile that are data; the rest is padding.
    """
    sizes = struct.pack(f"<{len(parts)}I", *map(len, parts))
    return b"".join((_HEADER.pack(width, height, len(parts)), sizes, *parts))


def unframed(payload: bytes) -> tuple[list[bytes], int, int]:
    """Return the parts of a payload, and its width and height. Inverse of `framed`."""
    width, height, count = _HEADER.unpack_from(payload)
    sizes = struct.unpack_from(f"<{count}I", payload, _HEADER.size)
    start = _HEADER.size + 4 * count
    parts = []
    for size in sizes:
        parts.append(payload[start : start + size])
        start += size
    return parts, width, height


class TileConverter:
    """Decodes the framed tiles of one image to pixels.

    Args:
        order: ``<`` or ``>``, of the file.

    Attributes:
        channels, is_float, nbytes: of the pixels of a tile.
    """

    def __init__(
        self, image: Image, mask: Image | None, order: str, publication: Publication
    ) -> None:
        self._image = image
        self._samples = SampleDecoder(image, order)
        self._mask = None if mask is None else SampleDecoder(mask, order)
        self._publication = publication
        self._palette = _palette(image) if image.photometric == images.PALETTE else None
        colours = 3 if self._palette is not None else len(publication.bands)
        self.channels = colours + publication.adds_alpha
        self.is_float = publication.is_float
        itemsize = 4 if publication.is_float else 1
        self.nbytes = image.tile_width * image.tile_height * self.channels * itemsize

    def decode(self, payload: bytes) -> npt.NDArray[np.generic]:
        """Return pixels, shape (rows, columns, channels), uint8 or float32, read-only.

        Raises:
            SlabFormatError: the payload is damaged.
        """
        parts, width, height = unframed(payload)
        planes = parts[: self._image.planes]
        samples = self._samples.planes([self._present(plane) for plane in planes])
        valid = self._valid(samples, parts[self._image.planes :])
        if valid is None and (width, height) != samples.shape[1::-1]:
            valid = np.ones(samples.shape[:2], np.bool_)
        if valid is not None:
            valid[height:] = False
            valid[:, width:] = False
        found = (
            self._values(samples, valid)
            if self._publication.is_float
            else self._picture(samples, valid)
        )
        found.flags.writeable = False
        return found

    def _present(self, plane: bytes) -> bytes:
        if not plane:
            raise SlabFormatError("a tile lacks one of its bands")
        return plane

    def _valid(self, samples: Samples, rest: list[bytes]) -> npt.NDArray[np.bool_] | None:
        """Return where there is data; None if everywhere, or if only alpha knows."""
        how = self._publication
        if how.uses_mask and self._mask is not None:
            if not rest or not rest[0]:
                return np.zeros(samples.shape[:2], np.bool_)
            covered: npt.NDArray[np.bool_] = self._mask.samples(rest[0])[:, :, 0] != 0
            return covered
        if how.alpha is not None or how.raw_nodata is None:
            return None
        shown = samples[:, :, list(how.bands)]
        if math.isnan(how.raw_nodata):
            known: npt.NDArray[np.bool_] = np.logical_not(np.isnan(shown).all(axis=2))
            return known
        # Compared in the type of the samples: float32 has not all values of the text.
        with np.errstate(over="ignore", invalid="ignore"):
            value = np.asarray(how.raw_nodata).astype(shown.dtype)
        if value != how.raw_nodata and shown.dtype.kind != "f":
            return None
        found: npt.NDArray[np.bool_] = (shown != value).any(axis=2)
        return found

    def _values(self, samples: Samples, valid: npt.NDArray[np.bool_] | None) -> Samples:
        how = self._publication
        values = samples[:, :, how.bands[0]]
        if (how.scale, how.offset) != (1.0, 0.0):
            values = values.astype(np.float64) * how.scale + how.offset
        with np.errstate(over="ignore", invalid="ignore"):
            found = values.astype(np.float32)
        keep = np.isfinite(found)
        if valid is not None:
            keep &= valid
        if how.alpha is not None:
            keep &= samples[:, :, how.alpha] != 0
        if not keep.all():
            found[~keep] = np.float32(how.nodata)
        return found[:, :, np.newaxis]

    def _picture(self, samples: Samples, valid: npt.NDArray[np.bool_] | None) -> Samples:
        how = self._publication
        colours = self._colours(samples)
        if not how.adds_alpha:
            if valid is not None:
                colours = colours.copy()
                colours[~valid] = int(how.nodata)
            return np.ascontiguousarray(colours)
        result = np.empty((*colours.shape[:2], colours.shape[2] + 1), np.uint8)
        result[:, :, :-1] = colours
        result[:, :, -1] = 255 if how.alpha is None else self._alpha(samples[:, :, how.alpha])
        if valid is not None:
            result[~valid] = 0
        return result

    def _alpha(self, values: Samples) -> Samples:
        """Return alpha of any type as 0 to 255; of floats, 1 is opaque."""
        if values.dtype == np.uint8:
            return values
        with np.errstate(invalid="ignore"):
            scaled = np.nan_to_num(values.astype(np.float64) / self._opaque) * 255.0
        alpha: Samples = np.rint(np.clip(scaled, 0, 255)).astype(np.uint8)
        return alpha

    @property
    def _opaque(self) -> float:
        dtype = self._samples.dtype
        return 1.0 if dtype.kind == "f" else float(np.iinfo(dtype).max)

    def _straight(self, samples: Samples, shown: Samples) -> Samples:
        """Return colours that are not multiplied by alpha, as floats."""
        alpha = samples[:, :, self._publication.alpha, np.newaxis].astype(np.float64)
        with np.errstate(invalid="ignore", divide="ignore"):
            straight: Samples = np.where(alpha > 0, shown * self._opaque / alpha, 0.0)
        return straight

    def _colours(self, samples: Samples) -> Samples:
        how, image = self._publication, self._image
        if self._palette is not None:
            colours: Samples = self._palette[samples[:, :, 0]]
            return colours
        shown: Samples = samples[:, :, list(how.bands)]
        if how.is_associated:
            shown = self._straight(samples, shown)
            if not how.rescale:
                shown = np.rint(np.minimum(shown, 255)).astype(np.uint8)
        if how.rescale:
            low, high = np.array(how.rescale, np.float64).T
            with np.errstate(invalid="ignore"):
                scaled = (shown.astype(np.float64) - low) / (high - low) * 255.0
            picture: Samples = np.rint(np.clip(np.nan_to_num(scaled), 0, 255)).astype(np.uint8)
            return picture
        if image.bits < 8:
            shown = shown * np.uint8(255 // ((1 << image.bits) - 1))
        if image.photometric == images.WHITE_IS_ZERO:
            return np.subtract(np.uint8(255), shown)
        return shown


def _palette(image: Image) -> npt.NDArray[np.uint8]:
    values = np.array(image.palette, np.uint32).reshape(3, -1).T
    # Some writers store colours of 8 bits.
    return (values // (257 if values.max() > 255 else 1)).astype(np.uint8)
