"""One build: lock, journal, slabs, verification of what is stored, publication."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace as changed
from itertools import chain
from typing import TYPE_CHECKING

from mastaba_build.errors import PlanError
from mastaba_build.output.history import INJECTED, History, Note, version_entry
from mastaba_build.output.lock import Lock, locked
from mastaba_build.output.records import Record
from mastaba_build.output.source_records import read_source_record
from mastaba_build.output.storage import OutputStore
from mastaba_build.output.versions import (
    DOCUMENTS,
    FURTHER,
    Version,
    check_own,
    keep_documents,
    open_history,
    publish_version,
    published,
    read_record,
    read_roots,
    read_versions,
    write_versions,
)
from mastaba_build.pixels.task import SlabResult
from mastaba_build.plan.names import SOURCE, kinds, slab_key
from mastaba_build.plan.plan import Plan, SlabKey
from mastaba_build.plan.sizes import largest_slab_of
from mastaba_build.pyramid.changes import changes_of, update_of
from mastaba_build.pyramid.journal import Journal, Row, recorded_rows
from mastaba_build.pyramid.pins import require_unpinned
from mastaba_build.pyramid.provenance import numbered_rows, with_provenance
from mastaba_build.pyramid.publication import write_documents, write_layer
from mastaba_build.work.coordinator import Coordinator, Order
from mastaba_build.work.engines import opened
from mastaba_build.work.worker import save_plan

if TYPE_CHECKING:
    from mastaba_build.work.engine import Engine
    from mastaba_build.work.reports import Reports

_OF_HISTORY = ("history", "pins", "changes")
"""Documents that old versions have too."""
_LINKS = 16
"""Links that are made at a time."""


def build(
    plan: Plan,
    reports: Reports,
    *,
    replace: bool = False,
    update: str | None = None,
    message: str = "",
    engine: Engine | None = None,
    order: Order | None = None,
) -> bool:
    """Build and publish a pyramid, or resume an interrupted build.

    Args:
        replace: remove a published pyramid of the same name first.
        update: ``new`` to publish a further version that links to unchanged slabs, ``inject`` to
            replace slabs of the published version.
        message: of the publication, for people.
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
        note = Note(update or "build", message)
        if record is None:
            if replace:
                require_unpinned(store, name)
                _remove(store, name)
            return make_version(plan, reports, store, lock, note, engine=engine, order=order)
        if update == "inject":
            check_single(store, name)
            plan = changed(plan, root=record.root)
        else:
            note = note._replace(by="update")
            if publish_existing(plan, reports, store, versions, note):
                return True
            plan = changed(plan, root=f"{name}_{versions[-1].number + 1}")
        return make_version(
            plan,
            reports,
            store,
            lock,
            note,
            record=record,
            versions=versions,
            previous=_previous(plan, store, record),
            engine=engine,
            order=order,
        )


def publish_existing(
    plan: Plan, reports: Reports, store: OutputStore, versions: Sequence[Version], note: Note
) -> bool:
    """Publish the version that was built from the same plan; return whether there is one.

    Of several, it is the latest one: its facts of sources were corrected.
    """
    for version in reversed(versions):
        if version.plan == plan.identity:
            name = plan.configuration.name
            history = open_history(store, name, versions)
            publish_version(store, name, version.number, note, history)
            clear(plan)
            reports.complete(plan.configuration.name)
            return True
    return False


def make_version(
    plan: Plan,
    reports: Reports,
    store: OutputStore,
    lock: Lock,
    note: Note,
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
        note: of its publication.
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
    number = int(plan.root.rpartition("_")[2]) if is_new_version else 1
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
        of_name = (f".{one}.json" for one in ("layer", "versions", *_OF_HISTORY))
        for end in (*FURTHER, *DOCUMENTS, *of_name):
            for stem in (name, f"{name}_{number}"):
                store.remove_leftovers_of(f"{stem}{end}")
        if not is_new_version:
            check_own(store, name, number)
            if record is not None:
                _mark_injected(store, name, versions)
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
        _publish(plan, store, rows, note, record, versions, outcome.inexact)
        write_layer(plan, store)
    finally:
        journal.close()
    clear(plan)
    return True


def _publish(
    plan: Plan,
    store: OutputStore,
    rows: list[Row],
    note: Note,
    record: Record | None,
    versions: Sequence[Version],
    inexact: int,
) -> None:
    """Write the documents of a version whose slabs are stored, and publish it."""
    name = plan.configuration.name
    number, bbox, more, changes = 1, None, {}, None
    history = open_history(store, name, versions)
    history.retention = dict(plan.configuration.retention) or history.retention
    if record is not None and plan.root != record.root:
        number = int(plan.root.rpartition("_")[2])
        if store.stat(f"{name}.versions.json") is None:
            keep_documents(store, name, versions[0].number)
        changes = changes_of(plan, store, rows, record)
        update = update_of(plan, store, rows, record)
        bbox = update["bbox"] if update else None if changes is None else []
        more = {"update": update} if update else {}
    elif record is not None:
        descriptor = json.loads(store.read(f"{name}.json"))
        more = {"revision": descriptor.get("revision", 0) + 1}
    write_documents(plan, store, rows, f"{name}_{number}", inexact, more)
    if changes is not None:
        text = json.dumps(changes, separators=(",", ":"))
        store.write(f"{name}_{number}.changes.json", text.encode())
    written = read_record(store, f"{name}_{number}")
    assert written is not None
    entry = version_entry(
        json.loads(store.read(f"{name}_{number}.json")),
        written,
        record,
        bbox=bbox,
        since=changes["since"] if changes else None,
        message=note.message,
    )
    history.set_version(number, entry)
    if number > 1:
        added = Version(number, plan.root, plan.identity)
        write_versions(store, name, [*versions, added], read_roots(store, name))
    publish_version(store, name, number, note, history)
    if record is not None and number == 1:
        _remove_old(plan, store, record, rows)


def _mark_injected(store: OutputStore, name: str, versions: Sequence[Version]) -> None:
    """Note that the slabs of the published generation are being replaced."""
    history = open_history(store, name, versions)
    history.versions[str(versions[0].number)]["state"] = INJECTED
    history.write(store, name)


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
    largest = store.largest_object
    needed = largest_slab_of(plan.configuration, plan.pixel_type, plan.levels)
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
        if row.result.size and slab_key(plan, slab) not in kept:
            for kind in kinds(plan):
                store.delete(f"{plan.root}/{slab_key(plan, slab, kind)}")
    numbered = {
        f"{plan.root}/{slab_key(plan, row.result.slab, SOURCE)}"
        for row in rows
        if row.result.numbers is not None
    }
    for key in list(store.list(f"{plan.root}/{SOURCE}")):
        if key not in numbered:
            store.delete(key)
    if plan.provenance is None:
        for end in FURTHER:
            for stem in (plan.configuration.name, f"{plan.configuration.name}_1"):
                store.delete(f"{stem}{end}")


def _remove(store: OutputStore, name: str) -> None:
    """Remove all versions of a pyramid and its history, the descriptor first."""
    history = History.read(store, name) or History()
    versions = []
    if store.stat(f"{name}.versions.json") is not None:
        versions = read_versions(store, name)
    elif history.versions:
        versions = [Version(1, name, "")]
    roots = [name, *read_roots(store, name), *(version.root for version in versions)]
    store.delete(f"{name}.json")
    for version in versions:
        for end in (*DOCUMENTS, *FURTHER):
            store.delete(f"{name}_{version.number}{end}")
    for end in FURTHER:
        store.delete(f"{name}{end}")
    for number in history.versions:
        store.delete(f"{name}_{number}.changes.json")
    for end in ("history", "pins", "versions"):
        store.delete(f"{name}.{end}.json")
    for root in dict.fromkeys(roots):
        store.delete_all(f"{root}/")
