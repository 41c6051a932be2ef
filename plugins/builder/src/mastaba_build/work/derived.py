"""Pyramids and versions made from stored slabs: `join` and `head`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace as changed
from typing import TYPE_CHECKING

from mastaba_build.errors import PlanError
from mastaba_build.output.history import Note
from mastaba_build.output.lock import locked
from mastaba_build.output.versions import published, read_record, read_versions
from mastaba_build.pyramid.heads import HeadPlan, make_head_plan
from mastaba_build.pyramid.joined_sources import joined_sources, rewritten
from mastaba_build.pyramid.joining import make_join_plan
from mastaba_build.pyramid.pins import pin_source
from mastaba_build.pyramid.provenance import numbered_rows, provenance_of_documents
from mastaba_build.pyramid.stored import place_of, read_pyramid
from mastaba_build.work.build import check_single, check_size, make_version, publish_existing

if TYPE_CHECKING:
    from mastaba_build.config.configuration import Configuration
    from mastaba_build.output.storage import OutputStore
    from mastaba_build.pyramid.journal import Row
    from mastaba_build.work.reports import Reports


def join(
    configuration: Configuration,
    store: OutputStore,
    reports: Reports,
    sources: Sequence[str],
    message: str = "",
) -> bool:
    """Make a pyramid that links to slabs of others, and publish it, or resume that.

    Slabs that several sources have are composed: valid pixels of later ones replace those of
    earlier ones; with alpha, translucent pixels are blended.

    Args:
        configuration: name, output, and options that no pixel depends on.
        store: the output, opened.
        sources: paths of descriptors, the lowest first. Their versions are pinned.
        message: of the publication, for people.

    Returns:
        whether it is published; otherwise slabs have failed, and nothing is published.

    Raises:
        BuildError: the pyramids cannot be joined, or the output exists or cannot be used.
    """
    name, output = configuration.name, configuration.output
    pyramids = [read_pyramid(store, output, path, configuration.access.plugins) for path in sources]
    plan = make_join_plan(configuration, pyramids)
    numbers = joined_sources(store, output, pyramids)
    if numbers is not None:
        plan = changed(plan, provenance=numbers[0], numbered=numbers[1])
    check_size(plan, store)
    exists = f"{output.path(f'{name}.json')} exists; choose another name with --name"
    if store.stat(f"{name}.json") is not None:
        raise PlanError(exists)
    reports.planned(plan)
    with locked(store, f"{name}.lock") as lock:
        if store.stat(f"{name}.json") is not None:
            raise PlanError(exists)

        for one in pyramids:
            place, key = place_of(store, output, one.key)
            pin_source(place, key, output.path(f"{name}.json"), reports.warned)

        def recorded(rows: list[Row]) -> list[Row]:
            # No build from sources has these pixels.
            numbered = rewritten(plan, store, rows, plan.of_alone())
            return [changed(row, fingerprint="") for row in numbered]

        note = Note("join", message)
        linked = plan.linked()
        if not make_version(plan, reports, store, lock, note, previous=linked, recorded=recorded):
            return False
    reports.done(plan)
    return True


def head(
    configuration: Configuration,
    store: OutputStore,
    reports: Reports,
    base: str,
    top: str | None = None,
    decimation: str | None = None,
    *,
    inject: bool = False,
    message: str = "",
) -> bool:
    """Compute the levels above one level from its slabs, and publish them.

    Args:
        configuration: as in `join`.
        base: identifier of the level that stays, with all finer ones.
        top: the coarsest level; None for that of the pyramid.
        decimation: as in a build; None for that of the build record.
        inject: replace the slabs of the published version; otherwise they are a further version.
        message: of the publication, for people.

    Returns:
        whether it is published; otherwise slabs have failed, and nothing is published.

    Raises:
        BuildError: the pyramid does not exist, a level cannot be computed, or the output cannot be
            used.
    """
    name, output = configuration.name, configuration.output
    read_versions(store, name)  # nothing is written if the pyramid does not exist
    with locked(store, f"{name}.lock") as lock:
        versions = read_versions(store, name)
        current = published(store, name, versions)
        record = read_record(store, name)
        if record is None:
            raise PlanError(f"{name} has no build record {name}.build.json")
        path = output.path(f"{name}.json")
        pyramid = read_pyramid(store, output, path, configuration.access.plugins)
        plan = make_head_plan(
            changed(
                configuration,
                # The work directory of builds may contain images that are kept.
                work=output.directory / f".{name}.head.work",
                title=_title(store, name),
            ),
            pyramid,
            record,
            base,
            top,
            decimation,
        )
        plan = _with_numbers(plan, store)
        if current.plan == plan.identity == record.plan:
            reports.complete(name)
            return True
        note = Note("inject" if inject else "head", message)
        if publish_existing(plan, reports, store, versions, note):
            return True
        if inject:
            check_single(store, name)
        root = record.root if inject else f"{name}_{versions[-1].number + 1}"
        plan = changed(plan, root=root)
        reports.planned(plan)

        def recorded(rows: list[Row]) -> list[Row]:
            above = [
                changed(row, fingerprint="") for row in rows if row.result.slab not in plan.kept
            ]
            return sorted([*plan.kept.values(), *above], key=_place_of)

        if not make_version(
            plan,
            reports,
            store,
            lock,
            note,
            record=record,
            versions=versions,
            previous=plan.previous(),
            recorded=recorded,
        ):
            return False
    reports.done(plan)
    return True


def _with_numbers(plan: HeadPlan, store: OutputStore) -> HeadPlan:
    """Return a plan that keeps the source numbers of the levels that stay."""
    levels = [level.matrix.id for level in plan.levels[: plan.base + 1]]
    found = provenance_of_documents(store, plan.configuration.name, levels)
    if found is None:
        return plan
    plan = changed(plan, provenance=found[0])
    # Polygons leave slabs without numbers.
    return changed(plan, kept={**plan.kept, **numbered_rows(plan, plan.kept, found[1])})


def _place_of(row: Row) -> tuple[int, int, int]:
    """Return the key of the order in lists: from the coarsest level, by row and column."""
    slab = row.result.slab
    return -slab.level, slab.row, slab.column


def _title(store: OutputStore, name: str) -> str | None:
    """Return the title in the layer descriptor, which the new version keeps."""
    data = store.read_if_exists(f"{name}.layer.json")
    try:
        return None if data is None else str(json.loads(data)["title"])
    except (ValueError, KeyError, TypeError):
        return None
