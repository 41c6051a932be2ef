"""What runs in a worker, wherever it is: one slab at a time, and the probe before the first."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import rasterio

from mastaba_build.errors import BuildError, SourceError
from mastaba_build.plan import Plan, SlabKey, slab_directory
from mastaba_build.sources import Source, identity_of, open_dataset
from mastaba_build.storage import FileWriter
from mastaba_build.task import SlabBuilder, SlabResult
from mastaba_build.vector.formats import open_archive
from mastaba_build.vector.plan import VectorPlan
from mastaba_build.vector.task import VectorSlabBuilder
from mastaba_build.versions import versions

GDAL_OPTIONS = {"GDAL_NUM_THREADS": "1", "GDAL_CACHEMAX": 64, "GDAL_PAM_ENABLED": "NO"}
_PLAN = "plan.pickle"
_PROBED_SOURCES = 16


@dataclass(frozen=True, slots=True)
class Job:
    """A build as its workers know it; small, because every task contains it.

    Attributes:
        work: work directory, which contains the plan. Every worker must see it.
        identity: of the plan.
    """

    work: Path
    identity: str


class _Thread(threading.local):
    """State of a thread: GDAL's datasets and options belong to one thread."""

    job: Job | None = None
    builder: SlabBuilder | VectorSlabBuilder | None = None
    has_options = False


_thread = _Thread()


def save_plan(plan: Plan) -> Job:
    """Write the plan where the workers read it.

    Raises:
        OSError: it cannot be written.
    """
    work = plan.configuration.work_directory.absolute()
    FileWriter(work).write(_PLAN, pickle.dumps(plan))
    return Job(work, plan.identity)


def run(job: Job, slab: SlabKey, children: Sequence[SlabKey]) -> SlabResult:
    """Build a slab.

    Raises:
        BuildError, OSError: as in `SlabBuilder.build`; or this worker does not fit the build.
    """
    try:
        return _builder(job).build(slab, children)
    except MemoryError:
        raise BuildError(
            "not enough memory for a slab; use smaller slabs or fewer workers"
        ) from None


def probe(job: Job, name: str) -> None:
    """Check that this worker can take part in a build.

    It reads the file ``name`` in the work directory, opens sources, and writes a file of that name
    into the pyramid.

    Raises:
        BuildError: it cannot; the message says why.
    """
    _builder(job)
    plan = _load(job)
    try:
        FileWriter(job.work).read(name)
    except OSError as error:
        raise BuildError(
            f"cannot read {job.work / name} ({error.strerror}); the work directory must be shared "
            "by all workers: choose it with --work"
        ) from None
    if isinstance(plan, VectorPlan):
        open_archive(plan.archive).close()
    else:
        _check_sources(plan.sources)
    try:
        FileWriter(slab_directory(plan)).write(name, b"probe")
    except OSError as error:
        raise BuildError(f"cannot write to {slab_directory(plan)}: {error.strerror}") from None


def _check_sources(sources: Sequence[Source]) -> None:
    step = max(1, -(-len(sources) // _PROBED_SOURCES))
    for source in sources[::step]:
        try:
            with open_dataset(source.path) as dataset:
                files = dataset.files
        except SourceError as error:
            raise BuildError(f"source {error}") from None
        if identity_of(source.path, files) != source.identity:
            raise BuildError(f"source {source.path}: is not the file that the plan describes")


def builder_of(plan: Plan, *, stored: bool = True) -> SlabBuilder | VectorSlabBuilder:
    """Return the builder of a plan; unless ``stored``, it computes only."""
    if isinstance(plan, VectorPlan):
        return VectorSlabBuilder.for_files(plan) if stored else VectorSlabBuilder(plan)
    return SlabBuilder.for_files(plan) if stored else SlabBuilder(plan)


def _builder(job: Job) -> SlabBuilder | VectorSlabBuilder:
    """Return the builder of this thread."""
    if _thread.builder is None or _thread.job != job:
        if not _thread.has_options:
            rasterio.env.Env(**GDAL_OPTIONS).__enter__()
            _thread.has_options = True
        plan = _load(job)
        _check_software(plan)
        _thread.job, _thread.builder = job, builder_of(plan)
    return _thread.builder


def _load(job: Job) -> Plan:
    try:
        plan = pickle.loads(FileWriter(job.work).read(_PLAN))  # noqa: S301 - written by the builder
    except OSError as error:
        raise BuildError(
            f"cannot read {job.work / _PLAN} ({error.strerror}); the work directory must be shared "
            "by all workers: choose it with --work"
        ) from None
    except Exception as error:  # noqa: BLE001 - pickle raises anything
        raise BuildError(f"{job.work / _PLAN} is damaged: {error}") from None
    if not isinstance(plan, Plan) or plan.identity != job.identity:
        raise BuildError(f"{job.work / _PLAN} belongs to another build")
    return plan


def _check_software(plan: Plan) -> None:
    wrong = [
        f"{name} {found or '(missing)'} instead of {plan.software[name]}"
        for name, found in versions(plan.software).items()
        if found != plan.software[name]
    ]
    if wrong:
        raise BuildError(f"has {', '.join(wrong)}; install the versions of this machine")
