"""Tiles that are computed from many samples, and compressed."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mastaba.api.web import accepts_coding, content_disposition
from mastaba_elevation.terrain.resource import Context, caching
from mastaba_render.api.maps import Sources, drawn_response

if TYPE_CHECKING:
    from mastaba.api.web import Request, Response
    from mastaba_elevation.queries.datasets import Dataset

_GZIP: Final = 16 + zlib.MAX_WBITS
_LEVEL: Final = 5
_WORTH: Final = 64
"""Bytes from which compression saves some."""


@dataclass(frozen=True, slots=True)
class ComputedTile:
    """A tile before it is computed.

    Attributes:
        dataset: where its heights come from.
        identity: everything else that affects its bytes, with a stable ``repr``.
        media_type: of the tile.
        varies: request headers on which it depends, in addition to Accept-Encoding.
        memory: bytes that it needs while it is computed.
        encode: returns its bytes, not compressed.
    """

    dataset: Dataset
    identity: object
    media_type: str
    varies: tuple[str, ...]
    memory: int
    encode: Callable[[], bytes]

    def respond(self, request: Request, context: Context) -> Response:
        """Return the tile, or 304. Its ETag is that of its bytes.

        Raises:
            OverloadedError: too many other requests are waiting.
            MastabaError: as in ``encode``.
        """
        dataset = self.dataset
        is_compressed = accepts_coding(request.environ, "gzip")
        is_small = False

        def packed() -> bytes:
            nonlocal is_small
            tile = self.encode()
            is_small = len(tile) < _WORTH
            if is_small or not is_compressed:
                return tile
            packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
            return packer.compress(tile) + packer.flush()

        response = drawn_response(
            request,
            context.site.renderer.admission,
            [_Unversioned()],
            (
                (dataset.id, dataset.valid_range, dataset.nodata_height),
                [item.layer for item in dataset.layers],
                (self.identity, self.media_type, is_compressed),
            ),
            self.memory,
            packed,
            always=[
                *caching(dataset),
                ("Vary", ", ".join((*self.varies, "Accept-Encoding"))),
            ],
            content=[
                ("Content-Type", self.media_type),
                ("Content-Disposition", content_disposition(self.media_type)),
            ],
        )
        if response.status == 200 and is_compressed and not is_small:
            response.headers.append(("Content-Encoding", "gzip"))
        return response


class _Unversioned:
    """The stored tiles behind a computed tile, which are known only when it is computed."""

    def sources(self) -> Sources:
        return Sources(None, None)
