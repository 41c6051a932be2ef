"""Which files name sources, and which sources they name."""

from __future__ import annotations

import json
import warnings
from types import SimpleNamespace
from typing import Any

import pytest

from mastaba.api.catalogue import CRS, BoundingBox
from mastaba_render.api.geotiff import UNKNOWN, Origin, Origins

LAYER: Any = SimpleNamespace(key="A", generation="1")


@pytest.mark.parametrize(
    ("code", "edges", "is_across"),
    [
        # New Zealand: meridians converge, so only one edge crosses the antimeridian.
        ("EPSG:2193", (1.9e6, 4.0e6, 2.15e6, 6.2e6), True),
        ("EPSG:2193", (1.0e6, 4.5e6, 2.13e6, 6.2e6), True),
        ("EPSG:2193", (1.5e6, 4.7e6, 2.12e6, 5.9e6), False),
        # Around a pole. Longitudes descend with x on its upper side.
        ("EPSG:3031", (1e6, 1e6, 2e6, 2e6), False),
        ("EPSG:3031", (1e6, -2e6, 2e6, -1e6), False),
        ("EPSG:3031", (-1e6, -2e6, 1.5e6, -1e6), True),
        ("EPSG:3031", (-1e6, -1e6, 1.5e6, 1e6), True),
        ("EPSG:3573", (-2.2e6, 2e5, -1.2e6, 6e5), False),
        # The antimeridian goes through the left and the right edge.
        ("EPSG:3573", (-2e6, -8e5, -1e6, 9e5), True),
        ("EPSG:3857", (-20037508.342789244, -2e7, 20037508.342789244, 2e7), False),
        ("CRS:84", (-180, -90, 180, 90), False),
        ("CRS:84", (170, 48, 190, 49), True),
    ],
)
def test_files_across_the_antimeridian_name_none(
    code: str, edges: tuple[float, float, float, float], is_across: bool
) -> None:
    asked = []

    def sources_in(_layer: Any, box: BoundingBox) -> Any:
        asked.append(box)
        return [{"number": 1}]

    origins, box, crs = Origins(sources_in), BoundingBox(*edges), CRS.from_code(code)
    for found in (origins.of(LAYER, box, crs), origins.of_map([LAYER], box, crs)):
        assert (found == UNKNOWN) == is_across
    assert len(asked) == (not is_across)


@pytest.mark.parametrize("edges", [(-1e9, -1e9, 1e9, 1e9), (1e30, 1e30, 2e30, 2e30)])
def test_a_box_far_outside_of_its_crs_is_no_fault(
    edges: tuple[float, float, float, float],
) -> None:
    origins = Origins(lambda _layer, _box: [{"number": 1}])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for code in ("EPSG:2154", "EPSG:3035", "EPSG:2193"):
            origins.of_map([LAYER], BoundingBox(*edges), CRS.from_code(code))


def test_a_source_that_has_no_room_is_left_out_alone() -> None:
    found = Origin.of([{"number": 1, "title": "a" * 9000}, {"number": 2}])
    assert json.loads(found.sources) == [{"number": 2}]
