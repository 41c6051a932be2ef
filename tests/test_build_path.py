"""The paths of a build through the code stay short: from the options to a plan, and of a slab."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.build.ground import grid, noise, write_raster
from tests.test_tile_path import noted_calls

from mastaba_build.config.configuration import configuration_of
from mastaba_build.pixels.task import SlabBuilder
from mastaba_build.plan.plan import SlabKey
from mastaba_build.work.plans import plan_of

MOST_CHANGES_OF_PLAN = 79
MOST_CHANGES_OF_SLAB = 300

CELL = 156543.033928041 / 2**11
SLAB = 16 * 256


def options(folder: Path) -> dict[str, Any]:
    """Return the options of a build whose source covers the slab 4, 2 of level 11."""
    half = 20037508.3427892
    left, top = -half + (4 * SLAB - 100.3) * CELL, half - (2 * SLAB - 100.2) * CELL
    size = SLAB + 200
    pixels = noise(1, size // 4, size // 4).repeat(4, 1).repeat(4, 2)
    source = write_raster(folder / "a.tif", pixels, grid(left, top, CELL), "EPSG:3857")
    return {
        "name": "a",
        "output": str(folder / "out"),
        "sources": [str(source)],
        "format": "raw",
        "bottom": "11",
    }


def test_a_plan_seldom_changes_the_module(tmp_path: Path) -> None:
    document = options(tmp_path)
    plan_of(configuration_of(document, "the options"))  # the plugins are loaded from here on
    with noted_calls() as calls:
        plan_of(configuration_of(document, "the options"))
    assert len(changes_of(calls)) <= MOST_CHANGES_OF_PLAN, changes_of(calls)


def test_a_slab_seldom_changes_the_module(tmp_path: Path) -> None:
    plan = plan_of(configuration_of(options(tmp_path), "the options"))
    builder = SlabBuilder.for_output(plan)
    with noted_calls() as calls:
        result = builder.build(SlabKey(0, 4, 2))
    assert result.tiles == 256
    assert "mastaba_render.native:resample" in calls
    assert len(changes_of(calls)) <= MOST_CHANGES_OF_SLAB, changes_of(calls)


def changes_of(calls: list[str]) -> list[tuple[str, str]]:
    """Return each module and the next one, where they differ."""
    modules = [call.partition(":")[0] for call in calls]
    return [pair for pair in pairwise(modules) if pair[0] != pair[1]]
