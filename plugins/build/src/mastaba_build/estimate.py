"""What a build will cost, from a few slabs that are computed and thrown away."""

from __future__ import annotations

import time
from dataclasses import dataclass

import rasterio

from mastaba_build.local_engine import processes
from mastaba_build.plan import Plan
from mastaba_build.worker import GDAL_OPTIONS, builder_of

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

    A small build does not take longer than its estimate would.
    """
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
        started, size = time.process_time(), 0
        for slab in chosen:
            size += builder.build(slab).size
        seconds = time.process_time() - started
    from_sources = sum(
        len(list(plan.slabs(level))) for level, one in enumerate(plan.levels) if one.from_sources
    )
    share = from_sources / len(chosen)
    if plan.is_vector:  # no level is made from another
        cpu, total = seconds * share, size * share
    else:
        upper = _UPPER.get(plan.pixel_type.format.split("_")[1], _UPPER_OTHER)
        cpu, total = seconds * share * upper, size * share * 4 / 3
    workers = processes(plan.configuration)
    return Estimate(len(chosen), int(total), cpu, cpu / workers)
