"""LZW by another library: the writer's, which is in Python, takes a hundred times as long.

`tests/writer` tests that of the writer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import pytest

from mastaba_writer import tile_encoder

OWN = tile_encoder._lzw


def _by_library(image: Any) -> bytes:
    import imagecodecs

    return bytes(imagecodecs.lzw_encode(image.tobytes()))


@contextmanager
def lzw_by_writer() -> Iterator[None]:
    """Let the writer compress by itself, as users do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tile_encoder, "_lzw", OWN)
        yield


@contextmanager
def lzw_by_library() -> Iterator[None]:
    """Let the writer compress with the library, if it is installed."""
    with pytest.MonkeyPatch.context() as patch:
        if find_spec("imagecodecs") is not None:
            patch.setattr(tile_encoder, "_lzw", _by_library)
        yield
