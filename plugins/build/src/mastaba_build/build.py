"""One build: lock, journal, slabs, verification of what is stored, publication."""

from __future__ import annotations

import json
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mastaba_build.coordinator import Coordinator
from mastaba_build.engines import engine_of
from mastaba_build.errors import PlanError, VerificationError
from mastaba_build.journal import Journal
from mastaba_build.lock import locked
from mastaba_build.plan import Plan, SlabKey, slab_directory
from mastaba_build.publication import publish
from mastaba_build.storage import FileWriter
from mastaba_build.task import slab_key
from mastaba_build.worker import save_plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mastaba_build.configuration import Configuration
    from mastaba_build.engine import Engine
    from mastaba_build.reports import Reports


def build(
    plan: Plan,
    reports: Reports,
    *,
    replace: bool = False,
    engine: Engine | None = None,
    order: Callable[[SlabKey], bytes] | None = None,
) -> bool:
    """Build and publish a pyramid, or resume an interrupted build.

    Args:
        replace: remove a published pyramid of the same name first.
        engine: that of the configuration by default; a given one is not closed.
        order: as in `Coordinator.run`.

    Returns:
        whether it is published; otherwise slabs have failed, and nothing is published.

    Raises:
        BuildError: the build cannot start or go on.
        OSError: a document cannot be written.
    """
    configuration = plan.configuration
    name, output, work = configuration.name, configuration.output, configuration.work_directory
    with locked(output / f"{name}.lock"):
        published = _published_plan(output / f"{name}.build.json")
        if (output / f"{name}.json").exists():
            if published == plan.identity:
                reports.complete(name)
                return True
            if not replace:
                raise PlanError(
                    f"{output / name}.json exists and has other sources or options; choose another "
                    "name with --name, or use --replace"
                )
            (output / f"{name}.json").unlink()
        journal = Journal(work)
        try:
            if journal.plan != plan.identity:
                if slab_directory(plan).exists() and journal.plan is None and published is None:
                    raise PlanError(
                        f"{output / name} exists and is not an unfinished build; "
                        "choose another name"
                    )
                shutil.rmtree(slab_directory(plan), ignore_errors=True)
                shutil.rmtree(work / "quarters", ignore_errors=True)
                journal.begin(plan.identity)
            for folder in (slab_directory(plan), work):
                _remove_leftovers(folder)
            target = FileWriter(slab_directory(plan))
            coordinator = Coordinator(plan, journal, target, FileWriter(work))
            job = save_plan(plan)
            with _opened(engine, configuration) as workers:
                workers.check(plan, job)
                outcome = coordinator.run(reports.slab, workers, job, order)
            reports.built(outcome)
            if outcome.failures:
                return False
            results = list(journal.results())
            for result in results:
                if result.size and target.size(slab_key(plan, result.slab)) != result.size:
                    raise VerificationError(f"{slab_key(plan, result.slab)}: has the wrong size")
            publish(plan, results)
        finally:
            journal.close()
        shutil.rmtree(work, ignore_errors=True)
    return True


@contextmanager
def _opened(engine: Engine | None, configuration: Configuration) -> Iterator[Engine]:
    if engine is not None:
        yield engine
        return
    engine = engine_of(configuration)
    try:
        yield engine
    finally:
        engine.close()


def _published_plan(record: Path) -> str | None:
    try:
        return str(json.loads(record.read_text("utf-8"))["plan"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _remove_leftovers(folder: Path) -> None:
    """Remove the temporary files of a killed build."""
    for path in folder.rglob(".*.tmp"):
        path.unlink(missing_ok=True)
