"""What runs in a worker, wherever it is: one slab at a time, and the probe before the first."""

from __future__ import annotations

import gc
import pickle
import threading
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import rasterio

from mastaba.tooling.memory import keep_freed_memory
from mastaba_build.config.access import Access
from mastaba_build.errors import BuildError, SourceError
from mastaba_build.harvest.drawing import HarvestDrawer
from mastaba_build.harvest.plan import HarvestPlan
from mastaba_build.output.storage import OutputStore
from mastaba_build.pixels.task import SlabBuilder, SlabResult
from mastaba_build.plan.plan import Plan, SlabKey
from mastaba_build.plan.software import installed
from mastaba_build.pyramid.heads import HeadPlan
from mastaba_build.pyramid.joining import JoinDrawer, JoinPlan
from mastaba_build.sources.inventory import identity_of, open_source
from mastaba_build.sources.source import Source
from mastaba_build.vector.formats import open_archive
from mastaba_build.vector.plan import VectorPlan
from mastaba_build.vector.task import VectorSlabBuilder

GDAL_OPTIONS = {"GDAL_NUM_THREADS": "1", "GDAL_CACHEMAX": 64}
"""They do not change what a source is: the plan is made without them."""
_PLAN = "plan.pickle"
_PROBED_SOURCES = 16


@dataclass(frozen=True, slots=True)
class Job:
    """A build as its workers know it; small, because every task contains it.

    Attributes:
        work: work directory, which contains the plan. Every worker must see it.
        identity: of the plan and its root.
    """

    work: Path
    identity: str


class _Thread(threading.local):
    """State of a thread: GDAL's datasets and options belong to one thread."""

    job: Job | None = None
    builder: SlabBuilder | VectorSlabBuilder | None = None
    has_options = False


_thread = _Thread()


def start() -> None:
    """Prepare this thread for builders."""
    if not _thread.has_options:
        keep_freed_memory()
        gc.freeze()  # what has been imported stays
        rasterio.env.Env(**GDAL_OPTIONS).__enter__()
        _thread.has_options = True


def save_plan(plan: Plan) -> Job:
    """Write the plan where the workers read it.

    Raises:
        OutputError: it cannot be written.
    """
    work = plan.configuration.work_directory.absolute()
    OutputStore.of_directory(work).write(_PLAN, pickle.dumps(plan))
    return Job(work, f"{plan.identity} {plan.root}")


def run(job: Job, slab: SlabKey, children: Sequence[SlabKey]) -> SlabResult:
    """Build a slab.

    Raises:
        BuildError: as in `SlabBuilder.build`; or this worker does not fit the build.
    """
    try:
        return _builder(job).build(slab, children)
    except MemoryError:
        raise BuildError(
            "not enough memory for a slab; use smaller slabs or fewer workers"
        ) from None


def prepare(job: Job, source: int) -> None:
    """Prepare a source; see `SlabBuilder.prepare`.

    Raises:
        BuildError: the source cannot be read, or this worker does not fit the build.
    """
    builder = _builder(job)
    assert isinstance(builder, SlabBuilder)
    builder.prepare(source)


def restore(job: Job, slab: SlabKey, holder: str, expected: str) -> bool:
    """Make the quarter image of an unchanged slab; see `SlabBuilder.restore`.

    Raises:
        BuildError: the slab cannot be read, or this worker does not fit the build.
    """
    builder = _builder(job)
    assert isinstance(builder, SlabBuilder)
    return builder.restore(slab, holder, expected)


def probe(job: Job, name: str) -> None:
    """Check that this worker can take part in a build.

    It reads the file ``name`` in the work directory, opens sources, and writes a file of that name
    into the pyramid.

    Raises:
        BuildError: it cannot; the message says why.
    """
    _builder(job)
    plan = _load(job)
    if OutputStore.of_directory(job.work).read_if_exists(name) is None:
        raise BuildError(
            f"cannot read {job.work / name}; the work directory must be shared by all workers: "
            "choose it with --work"
        )
    if isinstance(plan, VectorPlan):
        open_archive(plan.archive).close()
    elif not isinstance(plan, JoinPlan | HeadPlan | HarvestPlan):
        _check_sources(plan.sources, plan.configuration.access)
    with closing(plan.configuration.output.open()) as store:
        store.below(plan.root).write(name, b"probe")


def _check_sources(sources: Sequence[Source], access: Access) -> None:
    step = max(1, -(-len(sources) // _PROBED_SOURCES))
    for source in sources[::step]:
        try:
            with closing(open_source(source, access)) as dataset:
                identity = identity_of(source.path, dataset, source.remote)
        except (SourceError, OSError) as error:
            raise BuildError(f"source {error}") from None
        if identity != source.identity:
            raise BuildError(f"source {source.path}: is not the file that the plan describes")


def builder_of(plan: Plan, *, stored: bool = True) -> SlabBuilder | VectorSlabBuilder:
    """Return the builder of a plan; unless ``stored``, it computes only."""
    if isinstance(plan, VectorPlan):
        return VectorSlabBuilder.for_output(plan) if stored else VectorSlabBuilder(plan)
    if isinstance(plan, JoinPlan):
        return SlabBuilder.for_output(plan, JoinDrawer(plan))
    drawer = HarvestDrawer(plan) if isinstance(plan, HarvestPlan) else None
    if not stored:
        return SlabBuilder(plan, drawer=drawer)
    return SlabBuilder.for_output(plan, drawer)


def _builder(job: Job) -> SlabBuilder | VectorSlabBuilder:
    """Return the builder of this thread."""
    if _thread.builder is None or _thread.job != job:
        start()
        plan = _load(job)
        _check_software(plan)
        _thread.job, _thread.builder = job, builder_of(plan)
    return _thread.builder


def _load(job: Job) -> Plan:
    try:
        plan = pickle.loads((job.work / _PLAN).read_bytes())  # noqa: S301 - written by the builder
    except OSError as error:
        raise BuildError(
            f"cannot read {job.work / _PLAN} ({error.strerror}); the work directory must be shared "
            "by all workers: choose it with --work"
        ) from None
    except Exception as error:  # noqa: BLE001 - pickle raises anything
        raise BuildError(f"{job.work / _PLAN} is damaged: {error}") from None
    if not isinstance(plan, Plan) or f"{plan.identity} {plan.root}" != job.identity:
        raise BuildError(f"{job.work / _PLAN} belongs to another build")
    plugins = plan.configuration.access.plugins
    if plugins.directory is not None:
        plugins.load()  # now the writer of the output can be imported
    return plan


def _check_software(plan: Plan) -> None:
    wrong = [
        f"{name} {found or '(missing)'} instead of {plan.software[name]}"
        for name, found in installed(plan.software).items()
        if found != plan.software[name]
    ]
    if wrong:
        raise BuildError(f"has {', '.join(wrong)}; install the versions of this machine")
