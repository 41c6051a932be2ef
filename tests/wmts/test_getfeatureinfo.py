"""GetFeatureInfo, which no layer offers yet (wmts.md section 4)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from werkzeug.test import Client, TestResponse

Fault = Callable[[TestResponse], tuple[int, str, list[str | None]]]
TileQuery = Callable[..., dict[str, str]]


def test_layer_that_is_not_queryable_is_not_supported(
    tiny: Client, tile_query: TileQuery, fault: Fault
) -> None:
    # M-32
    query = tile_query(REQUEST="GetFeatureInfo", I="1", J="1", INFOFORMAT="text/plain")
    response = tiny.get("/wmts", query_string=query)
    assert fault(response) == (501, "OperationNotSupported", ["GetFeatureInfo"])


@pytest.mark.parametrize(
    ("layer", "code"),
    [
        (None, "MissingParameterValue"),
        ("", "MissingParameterValue"),
        ("x", "InvalidParameterValue"),
        ("VECTOR", "InvalidParameterValue"),
    ],
)
def test_layer_is_looked_at_first(
    tiny: Client, tile_query: TileQuery, fault: Fault, layer: str | None, code: str
) -> None:
    query = tile_query(REQUEST="GetFeatureInfo", LAYER=layer)
    assert fault(tiny.get("/wmts", query_string=query)) == (400, code, ["Layer"])
