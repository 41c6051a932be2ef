"""CPU microseconds per tile and stage of ``mastaba build``: ``python -m benchmarks.build_stages``.

The fullest slab of the finest level is built several times in this process, and the quickest time
of each stage counts. A busy machine changes these figures less than those of `benchmarks.build`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.build import CASES, make_sources
from mastaba_build.config.configuration import configuration_of
from mastaba_build.output.storage import FileWriter
from mastaba_build.pixels import drawing, quarters, reading, task
from mastaba_build.pixels.placement import Placer
from mastaba_build.pixels.task import SlabBuilder
from mastaba_build.plan.plan import make_plan
from mastaba_build.work.worker import start

_STAGES = ("read", "place", "resample", "decimate", "encode", "store", "rest")

_spent: defaultdict[str, float] = defaultdict(float)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=6000, help="width and height of the input")
    parser.add_argument("--times", type=int, default=3, help="builds of each slab")
    options = parser.parse_args(argv)
    _watch()
    print(f"{'case':26}" + "".join(f"{stage:>10}" for stage in (*_STAGES, "all", "tiles/s")))
    with tempfile.TemporaryDirectory(prefix="mastaba-build-") as name:
        sources = make_sources(Path(name), options.size)
        for case, (kind, words) in CASES.items():
            times = _slab(sources[kind], Path(name) / "out", words, options.times)
            total = sum(times.values())
            cells = [*(times[stage] for stage in _STAGES), total, 1e6 / total]
            print(f"{case:26}" + "".join(f"{cell:10.0f}" for cell in cells), flush=True)
    return 0


def _slab(source: Path, output: Path, words: list[str], times: int) -> dict[str, float]:
    """Return microseconds per tile of each stage."""
    values = dict(zip((word.lstrip("-") for word in words[::2]), words[1::2], strict=True))
    document = {"name": "x", "output": str(output), "sources": [str(source)], "workers": 1}
    plan = make_plan(configuration_of(document | values, "benchmark"))
    builder = SlabBuilder.for_output(plan)
    start()
    results = [builder.build(slab) for slab in plan.slabs(0)]
    fullest = max(results, key=lambda result: result.tiles)
    best = dict.fromkeys(_STAGES, float("inf"))
    for _ in range(times):
        _spent.clear()
        started = time.process_time()
        builder.build(fullest.slab)
        _spent["rest"] = time.process_time() - started - sum(_spent.values())
        best = {stage: min(best[stage], _spent[stage]) for stage in _STAGES}
    return {stage: seconds / fullest.tiles * 1e6 for stage, seconds in best.items()}


def _watch() -> None:
    """Measure the functions that make up the stages."""
    _timed(reading.Reader, "read", "read")
    _timed(drawing, "resampled", "resample")
    _timed(task, "decimate", "decimate")
    _timed(task, "encode_tile", "encode")
    _timed(FileWriter, "write", "store")
    _timed(quarters, "_pack", "store")
    _timed(Placer, "row", "place")


def _timed(owner: Any, name: str, stage: str) -> None:
    function: Callable[..., Any] = getattr(owner, name)

    def timed(*arguments: Any, **named: Any) -> Any:
        started = time.process_time()
        result = function(*arguments, **named)
        _spent[stage] += time.process_time() - started
        return result

    setattr(owner, name, timed)


if __name__ == "__main__":
    sys.exit(main())
