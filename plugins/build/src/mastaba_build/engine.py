"""Worker processes: each has its own datasets, and GDAL uses one thread in it."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from typing import Any

import rasterio

from mastaba.api.tools import keep_freed_memory
from mastaba_build.errors import BuildError
from mastaba_build.plan import Plan, SlabKey
from mastaba_build.task import SlabBuilder, SlabResult

GDAL_OPTIONS = {"GDAL_NUM_THREADS": "1", "GDAL_CACHEMAX": 64, "GDAL_PAM_ENABLED": "NO"}
_LIBRARY_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

_builder: SlabBuilder | None = None  # of this worker process


def processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def local_engine(plan: Plan) -> Executor:
    """Return an executor on this machine; any executor of `concurrent.futures` can take its place.

    Processes are spawned: a fork after GDAL has run can block for ever.
    """
    workers = plan.configuration.workers or processors()
    if workers == 1:
        start(plan)
        return _InThisProcess()
    for name in _LIBRARY_THREADS:
        os.environ.setdefault(name, "1")
    return ProcessPoolExecutor(workers, get_context("spawn"), start, (plan,))


def start(plan: Plan) -> None:
    """Prepare a worker."""
    global _builder
    keep_freed_memory()
    gc.freeze()  # what has been imported stays
    rasterio.env.Env(**GDAL_OPTIONS).__enter__()
    _builder = SlabBuilder.for_output(plan)
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_exit_with, args=(parent.sentinel,), daemon=True).start()


def run(slab: SlabKey, children: Sequence[SlabKey]) -> SlabResult:
    """Build a slab in a worker.

    Raises:
        BuildError, OSError: as in `SlabBuilder.build`.
    """
    assert _builder is not None
    try:
        return _builder.build(slab, children)
    except MemoryError:
        raise BuildError(
            "not enough memory for a slab; use smaller slabs or fewer workers"
        ) from None


def restore(slab: SlabKey, holder: str, expected: str) -> bool:
    """Make the quarter image of an unchanged slab in a worker; see `SlabBuilder.restore`.

    Raises:
        BuildError: the slab cannot be read.
    """
    assert _builder is not None
    return _builder.restore(slab, holder, expected)


def _exit_with(sentinel: int) -> None:
    """Exit when the coordinator does, also if it is killed."""
    wait([sentinel])
    os._exit(1)


class _InThisProcess(Executor):
    def submit(self, function: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(function(*arguments, **named))
        except Exception as error:  # noqa: BLE001 - the future has it
            future.set_exception(error)
        return future
