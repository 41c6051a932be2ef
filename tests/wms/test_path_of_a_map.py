"""The path of a GetMap through the code stays short, for those who read it and those who run it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import pairwise
from types import FrameType
from typing import Any

from werkzeug.test import Client


def test_a_map_passes_through_few_files(
    client: Client, map_query: Callable[..., dict[str, str]]
) -> None:
    """Of one layer of 16 tiles, in the CRS of its pyramid, when all of them are cached."""
    bbox = "120000,5100000,4900000,9900000"
    query = map_query(
        LAYERS="ground", CRS="EPSG:3857", BBOX=bbox, WIDTH="512", HEIGHT="512", FORMAT="image/jpeg"
    )
    expected = client.get("/wms", query_string=query)
    assert expected.status_code == 200
    modules: list[str] = []

    def note(frame: FrameType, event: str, argument: Any) -> None:
        module = frame.f_globals.get("__name__", "")
        if event == "call" and module.startswith("mastaba"):
            modules.append(module)

    sys.setprofile(note)
    try:
        answer = client.get("/wms", query_string=query)
    finally:
        sys.setprofile(None)
    assert (answer.status_code, answer.data) == (200, expected.data)
    changes = sum(one != other for one, other in pairwise(modules))
    # One of them says which client it is, for all limits.
    assert len(set(modules)) <= 31
    assert changes <= 76
    assert len(modules) <= 385
