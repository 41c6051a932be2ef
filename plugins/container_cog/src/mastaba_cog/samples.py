"""Stored tiles of a TIFF as arrays of samples. What a tile claims never sizes memory."""

from __future__ import annotations

import io
import lzma
import struct
import zlib
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import simplejpeg
from isal import isal_zlib
from isal.igzip_lib import IsalError
from PIL import Image as Pictures

from mastaba.errors import SlabFormatError
from mastaba_cog import images
from mastaba_cog.errors import CogError
from mastaba_cog.images import Image
from mastaba_cog.pictures import frame_of_jpeg, size_of_webp
from mastaba_cog.splices import tiff_header

Samples = npt.NDArray[Any]

_LZMA_MEMORY: Final = 128 * 1024 * 1024
_LERC_DEFLATE, _LERC_ZSTD = 1, 2
# The type stub of isal declares the error class incorrectly.
_DAMAGE: Final[tuple[type[Exception], ...]] = (  # type: ignore[assignment]
    *(ValueError, OSError, SyntaxError, RuntimeError, OverflowError),
    *(zlib.error, struct.error, lzma.LZMAError, IsalError, Pictures.DecompressionBombError),
)
_MODES: Final = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}


class SampleDecoder:
    """Decodes the tiles of one image.

    Args:
        image: the image.
        order: ``<`` or ``>``, of the file.

    Attributes:
        dtype: of the samples in the file.
        nbytes: of the samples of a tile, with all bands.
    """

    def __init__(self, image: Image, order: str) -> None:
        self._image = image
        self._bands = 1 if image.is_planar else image.bands
        self._shape = image.tile_height, image.tile_width, self._bands
        letter = {images.UINT: "u", images.INT: "i", images.FLOAT: "f"}[image.kind]
        self.dtype = np.dtype(f"{order}{letter}{max(1, image.bits // 8)}")
        self._row = -(-image.tile_width * self._bands * image.bits // 8)
        self._size = self._row * image.tile_height
        self.nbytes = image.tile_width * image.tile_height * image.bands * self.dtype.itemsize
        self._decode = self._codec()

    def planes(self, parts: list[bytes]) -> Samples:
        """Return a tile from its stored parts: one, or one for each band.

        Shape (rows, columns, bands), in the byte order of this machine.

        Raises:
            SlabFormatError: a part is damaged, or has another size than the file says.
        """
        if len(parts) == 1:
            return self.samples(parts[0])
        return np.concatenate([self.samples(part) for part in parts], axis=2)

    def samples(self, payload: bytes) -> Samples:
        """Return one part as shape (rows, columns, bands). Raises the errors of `planes`."""
        try:
            found = self._decode(payload)
        except _DAMAGE as error:
            name = images.COMPRESSIONS[self._image.compression]
            raise SlabFormatError(f"a tile in {name} cannot be decoded: {error}") from error
        if found.shape != self._shape:
            raise SlabFormatError(f"a tile has the shape {found.shape} instead of {self._shape}")
        return found

    def _codec(self) -> Callable[[bytes], Samples]:
        match self._image.compression:
            case images.JPEG:
                return self._jpeg
            case images.WEBP:
                return self._webp
            case images.LERC:
                _imagecodecs()
                return self._lerc
            case images.ZSTD:
                _imagecodecs()
        inflate = {
            images.NONE: _same,
            images.DEFLATE: self._inflated,
            images.DEFLATE_OLD: self._inflated,
            images.LZW: self._by_library,
            images.PACKBITS: self._by_library,
            images.LZMA: self._lzma,
            images.ZSTD: self._zstd,
        }[self._image.compression]
        return lambda payload: self._unpredicted(inflate(payload))

    def _inflated(self, payload: bytes) -> bytes:
        return isal_zlib.decompressobj().decompress(payload, self._size + 1)

    def _lzma(self, payload: bytes) -> bytes:
        decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ, _LZMA_MEMORY)
        return decompressor.decompress(payload, self._size + 1)

    def _zstd(self, payload: bytes) -> bytes:
        return _zstd(payload, self._size)

    def _by_library(self, payload: bytes) -> bytes:
        # The compression sees bytes only: a grey image of the same bytes.
        header = tiff_header(
            *(self._row, self._image.tile_height, 1, 8, images.UINT),
            *(self._image.compression, images.BLACK_IS_ZERO, len(payload)),
        )
        with Pictures.open(io.BytesIO(header + payload), formats=("TIFF",)) as picture:
            return picture.tobytes()

    def _unpredicted(self, data: bytes) -> Samples:
        if len(data) != self._size:
            raise SlabFormatError(f"a tile has {len(data)} bytes of samples, not {self._size}")
        rows, columns, _bands = self._shape
        bits = self._image.bits
        if bits < 8:
            return _unpacked(np.frombuffer(data, np.uint8).reshape(rows, -1), bits, columns)
        if self._image.predictor == 3:
            return self._unshuffled(np.frombuffer(data, np.uint8))
        found = np.frombuffer(data, self.dtype).reshape(self._shape)
        if self._image.predictor == 2:
            unsigned = np.dtype(f"{self.dtype.byteorder}u{self.dtype.itemsize}")
            values = found.view(unsigned).astype(unsigned.newbyteorder("="), copy=False)
            summed = np.cumsum(values, axis=1, dtype=values.dtype)
            return summed.view(self.dtype.newbyteorder("="))
        return found.astype(self.dtype.newbyteorder("="), copy=False)

    def _unshuffled(self, data: npt.NDArray[np.uint8]) -> Samples:
        """Return floats whose bytes were sorted by significance, and then subtracted."""
        rows, columns, bands = self._shape
        size = self.dtype.itemsize
        # The distance is the number of bands.
        summed = np.cumsum(data.reshape(rows, -1, bands), axis=1, dtype=np.uint8)
        planes = summed.reshape(rows, size, columns * bands).transpose(0, 2, 1)
        big = np.ascontiguousarray(planes).view(f">f{size}").reshape(self._shape)
        return big.astype(self.dtype.newbyteorder("="))

    def _jpeg(self, payload: bytes) -> Samples:
        height, width, components = frame_of_jpeg(payload)
        # Checked first, because a small JPEG can declare gigabytes of pixels.
        if (height, width, components) != self._shape:
            raise SlabFormatError(f"a tile is a JPEG of {width} × {height} × {components}")
        if components in (1, 3):
            space = "GRAY" if components == 1 else "RGB"
            return simplejpeg.decode_jpeg(payload, space, fastdct=False)  # type: ignore[no-any-return]
        # Taken for CMYK, which the library inverts; the components are not converted otherwise.
        with Pictures.open(io.BytesIO(payload), formats=("JPEG",)) as picture:
            inverted: Samples = np.subtract(np.uint8(255), np.asarray(picture))
            return inverted

    def _webp(self, payload: bytes) -> Samples:
        width, height = size_of_webp(payload)
        if (height, width) != self._shape[:2]:
            raise SlabFormatError(f"a tile is a WebP of {width} × {height} pixels")
        with Pictures.open(io.BytesIO(payload), formats=("WEBP",)) as picture:
            # A writer may leave out an alpha that is opaque everywhere.
            return np.asarray(picture.convert(_MODES[self._bands]))

    def _lerc(self, payload: bytes) -> Samples:
        added = self._image.lerc[1] if len(self._image.lerc) > 1 else 0
        # A blob is never much larger than the samples.
        limit = 2 * self._size + 65536
        if added == _LERC_DEFLATE:
            payload = isal_zlib.decompressobj().decompress(payload, limit)
        elif added == _LERC_ZSTD:
            payload = _zstd(payload, limit, is_exact=False)
        bands, is_split = self._check_lerc(payload)
        found, mask = _imagecodecs().lerc_decode(payload, masks=True)
        samples: Samples = np.asarray(found)
        valid = None if mask is None else np.asarray(mask, np.bool_)
        if is_split:
            samples = np.moveaxis(samples, 0, 2)
            valid = valid if valid is None or valid.ndim == 2 else np.moveaxis(valid, 0, 2)
        samples = samples.reshape(*self._shape[:2], bands)
        if samples.dtype != self.dtype.newbyteorder("="):
            raise SlabFormatError(f"a tile contains {samples.dtype} instead of {self.dtype}")
        if valid is not None:
            valid = valid.reshape(*self._shape[:2], -1)
        if bands < self._bands:
            alpha = np.full((*self._shape[:2], 1), 255, samples.dtype)
            if valid is not None:
                alpha *= valid
            return np.concatenate([samples, alpha], axis=2)
        if valid is not None and self.dtype.kind == "f":
            samples = np.where(valid, samples, samples.dtype.type(np.nan))
        return samples

    def _check_lerc(self, payload: bytes) -> tuple[int, bool]:
        """Return the bands in a tile, and whether each is a blob; alpha may be in its mask instead.

        Tiles that claim another size are refused: a few bytes may stand for gigabytes. There is one
        blob, or one for each band, because the library makes room for each.
        """
        start, count, depth = 0, 0, 0
        while start < len(payload) and count < self._bands:
            rows, columns, depth, size = _lerc_size(payload, start)
            if (rows, columns) != self._shape[:2]:
                raise SlabFormatError(f"a tile is LERC of {columns} × {rows} samples")
            count, start = count + 1, start + size
        if start != len(payload):
            raise SlabFormatError(f"a tile is {len(payload)} bytes of LERC instead of {start}")
        bands = count * depth
        has_mask = self.dtype == np.uint8 and bool(self._image.extra)
        if (count > 1 and depth > 1) or bands not in (self._bands, self._bands - has_mask):
            raise SlabFormatError(f"a tile is LERC of {bands} bands, not {self._bands}")
        return bands, count > 1


def _lerc_size(payload: bytes, start: int) -> tuple[int, int, int, int]:
    """Return rows, columns, samples of a pixel, and bytes that a blob of LERC claims."""
    if payload[start : start + 6] != b"Lerc2 ":
        raise SlabFormatError("a tile is not LERC version 2")
    (version,) = struct.unpack_from("<i", payload, start + 6)
    place = start + (14 if version >= 3 else 10)
    rows, columns = struct.unpack_from("<ii", payload, place)
    depth = struct.unpack_from("<i", payload, place + 8)[0] if version >= 4 else 1
    (size,) = struct.unpack_from("<i", payload, place + 8 + 4 * (version >= 4) + 8)
    if size <= 0 or depth <= 0:
        raise SlabFormatError(f"a tile is LERC of {depth} bands in {size} bytes")
    return rows, columns, depth, size


def _same(payload: bytes) -> bytes:
    return payload


def _zstd(payload: bytes, size: int, *, is_exact: bool = True) -> bytes:
    """Return the contents of a frame of at most ``size`` bytes, whatever its header claims."""
    buffer = bytearray(size)
    found = _imagecodecs().zstd_decode(payload, out=buffer)
    if is_exact and len(found) != size:
        raise SlabFormatError(f"a tile has {len(found)} bytes of samples, not {size}")
    return bytes(found)


def _unpacked(rows: npt.NDArray[np.uint8], bits: int, columns: int) -> Samples:
    """Return samples of 1, 2 or 4 bits, the first one in the highest bits."""
    shifts = np.arange(8 - bits, -1, -bits, dtype=np.uint8)
    values = (rows[:, :, np.newaxis] >> shifts) & np.uint8((1 << bits) - 1)
    return np.ascontiguousarray(values.reshape(len(rows), -1)[:, :columns])[:, :, np.newaxis]


def _imagecodecs() -> Any:
    try:
        import imagecodecs
    except ImportError:
        raise CogError(
            "its compression needs the package imagecodecs", "install mastaba-cog[codecs]"
        ) from None
    return imagecodecs
