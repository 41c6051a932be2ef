"""The distribution with nothing but its requirements."""

from __future__ import annotations

import struct

import mastaba_cog
from mastaba_cog.directories import read_tiff
from mastaba_cog.images import BLACK_IS_ZERO, DEFLATE, UINT
from mastaba_cog.splices import tiff_header


def test_container_is_offered() -> None:
    one, many = mastaba_cog.register_containers()
    assert "cog" in repr(one)
    assert "mosaic" in repr(many)


def test_spliced_header_is_read_again() -> None:
    head = tiff_header(64, 32, 3, 8, UINT, DEFLATE, BLACK_IS_ZERO, 7, ((317, "H", (2,)),))
    tiff = read_tiff(head, lambda offset, length: b"", {256, 273}, 1024)
    (directory,) = tiff.directories
    assert tiff.numbers(directory[256]) == (64,)
    assert tiff.numbers(directory[273]) == (len(head),)
    assert tiff.numbers(directory[317]) == (2,)
    assert struct.unpack_from("<H", head, 2) == (42,)
