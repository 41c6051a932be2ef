"""One build: lock, journal, slabs, verification of what is stored, publication."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace as changed
from itertools import chain
from typing import TYPE_CHECKING

from mastaba_build.errors import PlanError
from mastaba_build.output.lock import Lock, locked
from mastaba_build.output.records import Record
from mastaba_build.output.source_records import read_source_record
from mastaba_build.output.storage import OutputStore
from mastaba_build.output.versions import (
    DOCUMENTS,
    FURTHER,
    Version,
    keep_documents,
    publish_version,
    published,
    read_record,
    read_roots,
    read_versions,
    write_versions,
)
from mastaba_build.pixels.task import SlabResult
from mastaba_build.plan.names import SOURCE, kinds, slab_key
from mastaba_build.plan.plan import Plan, SlabKey, largest_slab
from mastaba_build.pyramid.changes import update_of
from mastaba_build.pyramid.journal import Journal, Row, recorded_rows
from mastaba_build.pyramid.provenance import numbered_rows, with_provenance
from mastaba_build.pyramid.publication import write_documents, write_layer
from mastaba_build.work.coordinator import Coordinator, Order
from mastaba_build.work.engines import opened
from mastaba_build.work.worker import save_plan

if TYPE_CHECKING:
    from mastaba_build.work.engine import Engine
    from mastaba_build.work.reports import Reports

_LINKS = 16
"""Links that are made at a time."""


def build(
    plan: Plan,
    reports: Reports,
    *,
    replace: bool = False,
    update: str | None = None,
    engine: Engine | None = None,
    order: Order | None = None,
) -> bool:
    """Build and publish a pyramid, or resume an interrupted build.

    Args:
        replace: remove a published pyramid of the same name first.
        update: ``new`` to publish a further version that links to unchanged slabs, ``inject`` to
            replace slabs of the published version.
        engine: that of the configuration by default; a given one is not closed.
        order: as in `Coordinator.run`.

    Returns:
        whether it is published; otherwise slabs have failed, and nothing is published.

    Raises:
        BuildError: the build cannot start or go on.
    """
    configuration = plan.configuration
    name = configuration.name
    with ExitStack() as stack:
        store = configuration.output.open()
        stack.callback(store.close)
        check_size(plan, store)
        lock = stack.enter_context(locked(store, f"{name}.lock"))
        exists = store.stat(f"{name}.json") is not None
        versions: list[Version] = []
        record = read_record(store, name) if exists and not replace else None
        if record is not None:
            versions = read_versions(store, name)
            current = published(store, name, versions)
        plan = with_provenance(plan, store, record, versions)
        if (
            record is not None
            and current.plan == plan.identity == record.plan
            and record.root == current.root
        ):
            reports.complete(name)
            return True
        if exists and not replace and (update is None or record is None):
            raise PlanError(
                f"{configuration.output.path(f'{name}.json')} exists and has other sources or "
                "options; update it with --update, choose another name with --name, or use "
                "--replace"
            )
        if record is None:
            if replace:
                _remove(store, name)
            return make_version(plan, reports, store, lock, engine=engine, order=order)
        if update == "inject":
            check_single(store, name)
            plan = changed(plan, root=record.root)
        else:
            if publish_existing(plan, reports, store, versions):
                return True
            plan = changed(plan, root=f"{name}_{versions[-1].number + 1}")
        return make_version(
            plan,
            reports,
            store,
            lock,
            record=record,
            versions=versions,
            previous=_previous(plan, store, record),
            engine=engine,
            order=order,
        )


def publish_existing(
    plan: Plan, reports: Reports, store: OutputStore, versions: Sequence[Version]
) -> bool:
    """Publish the version that was built from the same plan; return whether there is one."""
    for version in versions:
        if version.plan == plan.identity:
            publish_version(store, plan.configuration.name, version.number)
            clear(plan)
            reports.complete(plan.configuration.name)
            return True
    return False


def make_version(
    plan: Plan,
    reports: Reports,
    store: OutputStore,
    lock: Lock,
    *,
    record: Record | None = None,
    versions: Sequence[Version] = (),
    previous: Mapping[SlabKey, Row] | None = None,
    recorded: Callable[[list[Row]], list[Row]] = list,
    engine: Engine | None = None,
    order: Order | None = None,
) -> bool:
    """Build the slabs of a version and publish it.

    Args:
        store: the output, opened.
        lock: of the pyramid, taken.
        record: of the published version, if there is one.
        versions: all versions, if another one is made.
        previous: stored slabs that are kept if they would not change.
        recorded: returns what is published, from the slabs that were built or kept.
        engine, order: as in `build`.

    Returns:
        whether it is published, as in `build`.

    Raises:
        BuildError: the build cannot start or go on.
    """
    configuration = plan.configuration
    name, work = configuration.name, configuration.work_directory
    is_new_version = record is not None and plan.root != record.root
    identity = f"{plan.identity} {plan.root}"
    journal = Journal(work)
    try:
        if journal.plan != identity:
            if record is None or is_new_version:
                has_slabs = store.has(f"{plan.root}/")
                has_descriptor = store.stat(f"{plan.root}.json") is not None
                if has_descriptor or (has_slabs and journal.plan is None):
                    raise PlanError(
                        f"{configuration.output.path(plan.root)} exists and is not an unfinished "
                        "build of this work directory; choose another name"
                    )
                if has_slabs:
                    store.delete_all(f"{plan.root}/")
            if not configuration.keep_work:
                shutil.rmtree(work / "quarters", ignore_errors=True)
            journal.begin(identity)
        store.remove_leftovers(plan.root)
        for end in (*FURTHER, *DOCUMENTS, ".layer.json", ".versions.json"):
            for stem in {name, plan.root}:
                store.remove_leftovers_of(f"{stem}{end}")
        OutputStore.of_directory(work).remove_leftovers("")
        coordinator = Coordinator(
            plan,
            journal,
            store.below(plan.root),
            OutputStore.of_directory(work),
            previous,
        )

        def observe(result: SlabResult, done: int, total: int) -> None:
            if lock.is_lost:
                lock.check()
            reports.slab(plan, result, done, total)

        job = save_plan(plan)
        with opened(engine, plan) as workers:
            workers.check(plan, job)
            outcome = coordinator.run(observe, workers, job, order)
        reports.built(plan, outcome)
        if outcome.failures:
            return False
        rows = recorded(list(journal.rows()))
        lock.check()
        _link(plan, store, rows)
        if is_new_version:
            number = int(plan.root.rpartition("_")[2])
            if store.stat(f"{name}.versions.json") is None:
                keep_documents(store, name, versions[0].number)
            update = update_of(plan, store, rows, record) if record else None
            write_documents(plan, store, rows, plan.root, outcome.inexact, update)
            added = Version(number, plan.root, plan.identity)
            write_versions(store, name, [*versions, added], read_roots(store, name))
            publish_version(store, name, number)
        else:
            write_documents(plan, store, rows, name, outcome.inexact)
            if record is not None:
                _remove_old(plan, store, record, rows)
        write_layer(plan, store)
    finally:
        journal.close()
    clear(plan)
    return True


def clear(plan: Plan) -> None:
    """Remove the work directory, or what is not kept of it."""
    work = plan.configuration.work_directory
    if not plan.configuration.keep_work:
        shutil.rmtree(work, ignore_errors=True)
    for path in (*work.glob("journal.sqlite*"), *work.glob("plan.pickle")):
        path.unlink()


def check_single(store: OutputStore, name: str) -> None:
    """Check that a pyramid has one version, so that its slabs may be replaced."""
    if store.stat(f"{name}.versions.json") is not None:
        raise PlanError(
            f"{name} has several versions, which may link to its slabs; make a further one, "
            "without --inject"
        )


def check_size(plan: Plan, store: OutputStore) -> None:
    """Check that the output can hold the slabs of a plan."""
    largest, needed = store.largest_object, largest_slab(plan)
    if largest is not None and needed > largest:
        raise PlanError(
            f"{plan.configuration.output}: holds objects of at most {largest} bytes, and slabs may "
            f"have {needed}; use smaller slabs"
        )


def _previous(plan: Plan, store: OutputStore, record: Record) -> Mapping[SlabKey, Row]:
    """Return the slabs of the published version as rows of a journal."""
    rows = recorded_rows(
        record, {level.matrix.id: number for number, level in enumerate(plan.levels)}
    )
    numbers = read_source_record(store, plan.configuration.name)
    return numbered_rows(plan, rows, numbers)


def _link(plan: Plan, store: OutputStore, rows: list[Row]) -> None:
    """Make the links to the slabs of other versions and pyramids."""

    def link(row: Row) -> None:
        for kind in kinds(plan):
            key = slab_key(plan, row.result.slab, kind)
            store.link(f"{plan.root}/{key}", f"{row.holder}/{key}")

    def link_numbers(row: Row) -> None:
        numbers = row.result.numbers
        if numbers is not None and numbers.holder not in (None, plan.root):
            key = slab_key(plan, row.result.slab, SOURCE)
            store.link(f"{plan.root}/{key}", f"{numbers.holder}/{key}")

    linked = [row for row in rows if row.holder not in (None, plan.root) and row.result.size]
    with ThreadPoolExecutor(_LINKS) as threads:
        for _ in chain(threads.map(link, linked), threads.map(link_numbers, linked)):
            pass


def _remove_old(plan: Plan, store: OutputStore, record: Record, rows: list[Row]) -> None:
    """Remove the slabs of the version before that the injected one does not have."""
    kept = {slab_key(plan, row.result.slab) for row in rows if row.result.size}
    levels = {level.matrix.id: number for number, level in enumerate(plan.levels)}
    for slab, row in recorded_rows(record, levels).items():
        key = slab_key(plan, slab)
        if row.result.size and key not in kept:
            for kind in (*kinds(plan), SOURCE):
                store.delete(f"{plan.root}/{slab_key(plan, slab, kind)}")


def _remove(store: OutputStore, name: str) -> None:
    """Remove all versions of a pyramid, the descriptor first."""
    store.delete(f"{name}.json")
    roots = [name]
    if store.stat(f"{name}.versions.json") is not None:
        roots += read_roots(store, name)
        for version in read_versions(store, name):
            roots.append(version.root)
            for end in (*DOCUMENTS, *FURTHER):
                store.delete(f"{name}_{version.number}{end}")
        store.delete(f"{name}.versions.json")
    for end in FURTHER:
        store.delete(f"{name}{end}")
    for root in dict.fromkeys(roots):
        store.delete_all(f"{root}/")
