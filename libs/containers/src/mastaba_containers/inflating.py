"""Decompression with a limit: what strangers have compressed may inflate to any size."""

from __future__ import annotations

import zlib
from typing import Any, Final

from mastaba.errors import ContainerFormatError

GZIP: Final = "gzip"
ZLIB: Final = "deflate"
ZSTD: Final = "zstd"
BROTLI: Final = "br"

_SIGNATURES: Final = ((b"\x1f\x8b\x08", GZIP), (b"\x28\xb5\x2f\xfd", ZSTD))
_WINDOWS: Final = {GZIP: zlib.MAX_WBITS + 16, ZLIB: zlib.MAX_WBITS}
_LARGEST_WINDOW: Final = 128 * 1024 * 1024
"""Bytes that a decompressor of zstd may hold; the format allows 3.75 TiB."""


def coding_of(data: bytes) -> str | None:
    """Return the coding that the first bytes show: gzip or zstd. None for anything else."""
    return next((coding for magic, coding in _SIGNATURES if data.startswith(magic)), None)


def can_inflate(coding: str) -> bool:
    """Return whether a coding can be decompressed in this installation."""
    try:
        return coding in _WINDOWS or _decompressor(coding) is not None
    except ContainerFormatError:
        return False


def inflated(data: bytes, limit: int, coding: str = GZIP) -> bytes:
    """Return decompressed data.

    Args:
        limit: bytes; no more is allocated for the result.
        coding: one of the HTTP content codings ``gzip``, ``deflate``, ``zstd`` and ``br``.

    Raises:
        ContainerFormatError: the data is damaged, or the result is larger than ``limit``; or
            nothing installed decompresses this coding, and the message says what does.
    """
    if coding in _WINDOWS:
        return _inflated(data, limit, coding)
    try:
        result: bytes = _decompressor(coding)(data, limit)
    except ContainerFormatError:
        raise
    # The libraries have an error class of their own each, of which only the name is public.
    except Exception as error:
        raise ContainerFormatError(f"the data is not valid {coding}") from error
    return result


def _inflated(data: bytes, limit: int, coding: str) -> bytes:
    inflater = zlib.decompressobj(_WINDOWS[coding])
    try:
        result = inflater.decompress(data, limit + 1)
    except zlib.error as error:
        raise ContainerFormatError(f"the data is not valid {coding}") from error
    if len(result) > limit:
        raise _too_large(limit)
    if not inflater.eof or inflater.unused_data:
        raise ContainerFormatError(f"the data is not one complete stream of {coding}")
    return result


def _decompressor(coding: str) -> Any:
    """Return a function (data, limit) -> bytes."""
    if coding == ZSTD:
        try:
            import zstandard  # noqa: F401
        except ImportError:
            raise _missing(coding, "zstandard") from None
        return _zstd
    if coding == BROTLI:
        try:
            import brotli
        except ImportError:
            raise _missing(coding, "brotli") from None
        if not hasattr(brotli.Decompressor, "can_accept_more_data"):
            # Older versions have no limit.
            raise _missing(coding, "brotli>=1.2")
        return _brotli
    raise ContainerFormatError(f"the compression {coding!r} is unknown")


def _zstd(data: bytes, limit: int) -> bytes:
    import zstandard

    decompressor = zstandard.ZstdDecompressor(max_window_size=_LARGEST_WINDOW)
    with decompressor.stream_reader(data) as stream:
        result: bytes = stream.read(limit + 1)
    if len(result) > limit:
        raise _too_large(limit)
    sizes = zstandard.get_frame_parameters(data)
    if sizes.content_size not in (len(result), zstandard.CONTENTSIZE_UNKNOWN):
        raise ContainerFormatError("the data is not one complete stream of zstd")
    return result


def _brotli(data: bytes, limit: int) -> bytes:
    import brotli

    decompressor = brotli.Decompressor()
    pieces = [decompressor.process(data, output_buffer_limit=limit + 1)]
    size = len(pieces[0])
    while size <= limit and not decompressor.can_accept_more_data():
        pieces.append(decompressor.process(b"", output_buffer_limit=limit + 1 - size))
        size += len(pieces[-1])
    if size > limit:
        raise _too_large(limit)
    if not decompressor.is_finished():
        raise ContainerFormatError("the data is not one complete stream of br")
    return b"".join(pieces)


def _missing(coding: str, library: str) -> ContainerFormatError:
    return ContainerFormatError(
        f"the data is compressed with {coding}, for which nothing is installed: install {library}"
    )


def _too_large(limit: int) -> ContainerFormatError:
    return ContainerFormatError(f"the data inflates to more than {limit} bytes")
