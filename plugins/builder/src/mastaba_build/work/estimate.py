"""What a build will cost, from a few slabs that are computed and thrown away."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import rasterio

from mastaba_build.pixels.stored import HEADER
from mastaba_build.pixels.task import SlabBuilder
from mastaba_build.plan.plan import Plan
from mastaba_build.work.local_engine import processes
from mastaba_build.work.worker import GDAL_OPTIONS, builder_of

_UPPER = {"JPG": 1.10, "JPG90": 1.10}
_PER_SAMPLE = 50
_UPPER_OTHER = 1.30
"""Cost of the levels above, relative to the slabs made from sources (generation.md 5.3)."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What was extrapolated from a sample.

    Attributes:
        sampled: slabs that were computed.
        bytes: of all slabs.
        cpu_seconds: of all workers together.
        seconds: on this machine.
    """

    sampled: int
    bytes: int
    cpu_seconds: float
    seconds: float


def samples_of(plan: Plan) -> int:
    """Return how many slabs to sample before a build: 2 % of the finest level, at most 8.

    A small build does not take longer than its estimate would. Of a service, nothing is requested
    twice.
    """
    if plan.terms is not None:
        return 0
    bottom = sum(1 for _ in plan.slabs(0))
    return min(8, bottom // _PER_SAMPLE)


def estimate(plan: Plan, samples: int = 8) -> Estimate:
    """Compute slabs spread over the finest level in memory and extrapolate.

    Raises:
        BuildError: a source cannot be read.
    """
    bottom = list(plan.slabs(0))
    step = max(1, len(bottom) // samples)
    chosen = bottom[step // 2 :: step][:samples]
    with rasterio.env.Env(**GDAL_OPTIONS):
        builder = builder_of(plan, stored=False)
        started, size, tiles = time.process_time(), 0, 0
        for slab in chosen:
            result = builder.build(slab)
            size, tiles = size + result.size, tiles + result.tiles
        seconds = time.process_time() - started
    found = [len(list(plan.slabs(level))) for level in range(len(plan.levels))]
    from_sources = sum(
        number for number, level in zip(found, plan.levels, strict=True) if level.from_sources
    )
    share = from_sources / len(chosen)
    if plan.is_vector:  # no level is made from another
        cpu, total = seconds * share, size * share
    else:
        upper = _UPPER.get(plan.pixel_type.format.split("_")[1], _UPPER_OTHER)
        cpu = seconds * share * upper
        assert isinstance(builder, SlabBuilder)
        empty = builder.empty_tile_size(plan.levels[0])
        total = _bytes(plan, found, size / len(chosen), tiles / len(chosen), empty)
    workers = processes(plan.configuration, plan)
    return Estimate(len(chosen), int(total), cpu, cpu / workers)


def _bytes(plan: Plan, slabs: Sequence[int], size: float, tiles: float, empty: int) -> float:
    """Return the bytes of all slabs of a plan of images.

    Args:
        slabs: slabs of each level.
        size, tiles: bytes and tiles with data of a mean slab of the finest level.
        empty: bytes of a tile without data.
    """
    width, height = plan.configuration.slab
    count = width * height
    head = HEADER + 8 * count
    tile = (size - head - (count - tiles) * empty) / tiles if tiles else 0.0
    total, data = 0.0, 0.0
    for level, number in zip(plan.levels, slabs, strict=True):
        # A level has the tiles of the finer one, but at least one in each slab.
        data = max(number, number * tiles if level.from_sources else data / level.factor**2)
        total += number * head + data * tile + (number * count - data) * empty
    return total
