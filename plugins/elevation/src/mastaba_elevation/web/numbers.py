"""Numbers and documents in answers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import orjson

from mastaba.api.web import Document
from mastaba_elevation.queries.ground import Floats
from mastaba_ows.links import JSON
from mastaba_server import body
from mastaba_server.web.large import large_response
from mastaba_server.web.pieces import in_pieces

if TYPE_CHECKING:
    from mastaba.api.web import Request, Response


_OPTIONS: Final = orjson.OPT_SERIALIZE_NUMPY


def rounded(heights: Floats, decimals: int) -> list[float | None]:
    """Return heights for JSON; None for NaN.

    Args:
        decimals: places; -1 for the shortest number that is the same in single precision.
    """
    if decimals < 0:
        # JSON holds the shortest texts of the numbers, and null for NaN.
        found: list[float | None] = orjson.loads(heights_json(heights, decimals))
        return found
    # Adding zero avoids -0.0.
    values = (np.round(heights, decimals) + 0.0).tolist()
    if not np.isnan(heights).any():
        return list(values)
    return [None if math.isnan(value) else value for value in values]


def heights_json(heights: Floats, decimals: int) -> bytes:
    """Return a list of heights as JSON; see `rounded`."""
    if decimals < 0:
        return to_json(np.ascontiguousarray(heights, np.float32))
    # Adding zero avoids -0.0.
    return to_json(np.ascontiguousarray(np.round(heights, decimals) + 0.0))


def number(value: float, decimals: int) -> float | None:
    """Return one height for JSON; see `rounded`."""
    return rounded(np.array([value]), decimals)[0]


def to_json(content: Any) -> bytes:
    """Return compact JSON; numbers that are not finite become null."""
    return orjson.dumps(content, option=_OPTIONS)


def json_response(request: Request, content: Any, media_type: str = JSON) -> Response:
    """Return an answer of JSON that grows with the request; errors of `large_response`."""
    data = to_json(content)
    if len(data) <= body.IN_MEMORY:
        return Document(data, media_type).respond(request)
    return large_response(request, in_pieces(data), media_type)


def json_document(content: Any, media_type: str = JSON) -> Document:
    """Return a document of JSON."""
    return Document(to_json(content), media_type)
