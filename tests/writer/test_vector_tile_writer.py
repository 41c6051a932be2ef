from typing import Any

import mapbox_vector_tile  # type: ignore[import-untyped]
import pytest

from mastaba_writer.vector_tile_writer import Feature, Value, encode_vector_tile


def decode(tile: bytes) -> dict[str, Any]:
    options = {"y_coord_down": True}
    layers: dict[str, Any] = mapbox_vector_tile.decode(tile, default_options=options)
    return layers


def test_geometries_and_attributes_can_be_decoded() -> None:
    attributes: dict[str, Value] = {
        "text": "é",
        "yes": True,
        "small": -3,
        "large": 2**40,
        "real": 1.5,
        "one": 1,
    }
    lines = [[(0, 0), (10, -5), (4096, 4100)], [(7, 7), (8, 8)]]
    tile = encode_vector_tile(
        {
            "points": [
                Feature("POINT", [[(1, 2), (3, 4)]], {"one": 1.0}, identifier=300),
                Feature("POINT", [[(5, 6)]]),
            ],
            "lines": [Feature("LINESTRING", lines, attributes)],
            "areas": [Feature("POLYGON", [[(0, 0), (10, 0), (10, 10)]])],
            "nothing": [],
        }
    )
    layers = decode(tile)
    assert list(layers) == ["points", "lines", "areas"]
    first, second = layers["points"]["features"]
    assert first["geometry"] == {"type": "MultiPoint", "coordinates": [[1, 2], [3, 4]]}
    assert first["id"] == 300
    assert second["geometry"] == {"type": "Point", "coordinates": [5, 6]}
    (line,) = layers["lines"]["features"]
    assert line["geometry"]["coordinates"] == [[list(point) for point in part] for part in lines]
    assert line["properties"] == attributes
    assert line["properties"]["yes"] is True
    (area,) = layers["areas"]["features"]
    assert area["geometry"]["coordinates"] == [[[0, 0], [10, 0], [10, 10], [0, 0]]]
    assert {layer["extent"] for layer in layers.values()} == {4096}


@pytest.mark.parametrize("tables", [{}, {"nothing": []}])
def test_a_tile_without_features_is_empty(tables: dict[str, list[Feature]]) -> None:
    assert encode_vector_tile(tables) == b""
