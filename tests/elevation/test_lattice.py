"""Heights at the nodes of a lattice are those of points, bit for bit (elevation.md 5.3)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.elevation.world import HALF
from werkzeug.test import Client

from mastaba.api.catalogue import CRS
from mastaba_elevation.queries import lattice as tested
from mastaba_elevation.queries.lattice import lattice, levels_for
from mastaba_elevation.queries.levels import Budget
from mastaba_elevation.queries.sampling import SamplingOptions, sample

STACK = {"id": "stack", "layers": ["alps", "merc", "world"]}


@pytest.fixture(scope="module")
def client(terrain: Callable[..., Client]) -> Client:
    return terrain({"terrain": {"datasets": [STACK]}})


@pytest.mark.sampled(one_in=4)
@pytest.mark.parametrize("dataset", ["world", "merc", "alps", "stack"])
@pytest.mark.parametrize("code", ["CRS:84", "EPSG:3857"])
@pytest.mark.parametrize("step", [0.3, 0.02, 0.0001])
def test_nodes_are_points(client: Client, dataset: str, code: str, step: float) -> None:
    site: Any = client.application.site  # type: ignore[attr-defined]
    found = site.services["terrain"]._datasets[dataset]
    equal = site.catalogue.settings.equivalences
    box, crs = found.box, CRS.from_code(code)
    degrees = 1.0 if crs.is_geographic else HALF / 180
    filled = 0
    for west, south in (
        (box.xmin - 5 * step, box.ymin - 5 * step),
        ((box.xmin + box.xmax) / 2, (box.ymin + box.ymax) / 2),
        (box.xmax - 20 * step, box.ymax - 20 * step),
    ):
        start = south
        if not crs.is_geographic:
            turned = math.radians(min(max(south, -85), 85))
            start = math.degrees(math.asinh(math.tan(turned)))
        x = (west + np.arange(41) * step) * degrees
        y = (start + np.arange(37) * step) * degrees
        levels = levels_for(found, step * degrees, crs)
        nodes = lattice(found, x, y, crs, levels, Budget(10**6, 10**12), equal)
        column, row = np.meshgrid(x, y)
        options = SamplingOptions("bilinear", levels=levels)
        given = column.ravel(), row.ravel()
        points = sample(found, *given, crs, options, Budget(10**6, 10**12), equal)
        assert np.array_equal(nodes.heights.ravel(), points.heights, equal_nan=True)
        assert np.array_equal(nodes.layers.ravel(), points.layers)
        filled += int((points.layers >= 0).sum())
    assert filled


def test_windows_are_used_where_axes_are_parallel(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Points are sampled one by one only for layers of another projection."""
    counts: list[int] = []

    def counted(dataset: Any, x: Any, *arguments: Any) -> Any:
        counts.append(len(x))
        return sample(dataset, x, *arguments)

    monkeypatch.setattr(tested, "sample", counted)
    site: Any = client.application.site  # type: ignore[attr-defined]
    equal = site.catalogue.settings.equivalences
    crs = CRS.from_code("CRS:84")
    for name, most in (("world", 0.2), ("merc", 0.2), ("alps", 1.0)):
        counts.clear()
        found = site.services["terrain"]._datasets[name]
        box = found.box
        x, y = (
            np.linspace(box.xmin, box.xmax, 60)[20:40],
            np.linspace(box.ymin, box.ymax, 60)[20:40],
        )
        levels = levels_for(found, float(x[1] - x[0]), crs)
        lattice(found, x, y, crs, levels, Budget(10**6, 10**12), equal)
        assert sum(counts) <= most * 400
        assert (sum(counts) == 400) == (name == "alps")
