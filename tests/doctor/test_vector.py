"""Vector tiles, valid and damaged."""

from __future__ import annotations

import gzip

import pytest

from mastaba.errors import SlabFormatError
from mastaba_conformance.tiny_installation import tiny_vector_tile
from mastaba_doctor.vector import check_vector_tile

TILE = tiny_vector_tile("4", 3, 2)


def test_layers_are_counted() -> None:
    assert check_vector_tile(TILE) == 2
    assert check_vector_tile(gzip.compress(TILE)) == 2


def test_unknown_fields_are_passed_over() -> None:
    others = b"\x08\x96\x01" + b"\x11" + bytes(8) + b"\x1d" + bytes(4)
    assert check_vector_tile(others + TILE) == 2


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        TILE[:-1],
        TILE + b"\x1a",
        TILE + b"\xff" * 11,
        b"<html></html>",
        b"\x1f\x8b" + bytes(20),
        b"\x08\x01",
        b"\x1c",
    ],
)
def test_other_bytes_are_refused(payload: bytes) -> None:
    with pytest.raises(SlabFormatError):
        check_vector_tile(payload)


@pytest.mark.parametrize(
    "payload", [gzip.compress(TILE) + b"\0", gzip.compress(TILE)[:-1], b"\x1f\x8b\x08" + bytes(20)]
)
def test_what_is_not_one_stream_of_gzip_is_refused(payload: bytes) -> None:
    with pytest.raises(SlabFormatError, match=r"^a vector tile cannot be read: the data is not"):
        check_vector_tile(payload)
