"""Check of vector tiles, by the structure of their protobuf message only."""

from __future__ import annotations

from typing import Final

from mastaba.errors import ContainerFormatError, SlabFormatError
from mastaba_containers.inflating import GZIP, coding_of, inflated
from mastaba_containers.protobuf import fields

_MAX_SIZE: Final = 256 * 1024 * 1024
_LAYERS: Final = 3


def check_vector_tile(payload: bytes) -> int:
    """Return the number of layers in a tile, which may be compressed with gzip.

    Raises:
        SlabFormatError: it is not a Mapbox Vector Tile, or is truncated.
    """
    try:
        if coding_of(payload) == GZIP:
            payload = inflated(payload, _MAX_SIZE)
        layers = sum(
            number == _LAYERS and type(value) is bytes for number, value in fields(payload)
        )
    except (ContainerFormatError, ValueError) as error:
        raise SlabFormatError(f"a vector tile cannot be read: {error}") from None
    if not layers:
        raise SlabFormatError("a vector tile has no layer")
    return layers
