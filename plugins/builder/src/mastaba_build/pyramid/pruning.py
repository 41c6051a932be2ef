"""Removal of versions of a pyramid, and of the slabs that no other version needs."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from mastaba_build.errors import PlanError, VerificationError
from mastaba_build.output.history import KEPT, PRUNED, WITHDRAWN, History, instant, read_pins
from mastaba_build.output.lock import locked
from mastaba_build.output.source_records import read_source_record
from mastaba_build.output.storage import OutputStore
from mastaba_build.output.versions import (
    DOCUMENTS,
    FURTHER,
    Version,
    descriptor_of,
    find_version,
    open_history,
    published,
    read_roots,
    read_versions,
    record_of,
    write_versions,
)
from mastaba_build.plan.names import SOURCE, kinds_of, placed_key, recorded_key
from mastaba_build.pyramid.pins import addressed, pinner_of

_LINKED_DAYS: Final = 365
"""Days for which a cache may hold an address of a version that is no longer published."""


class Pruned(NamedTuple):
    """What `prune` has done.

    Attributes:
        versions, objects: numbers of what was removed.
        kept: why versions stay that are neither published nor among the latest, by number.
    """

    versions: int
    objects: int
    kept: dict[int, str]


def prune(
    store: OutputStore,
    name: str,
    keep: int,
    *,
    days: int | None = None,
    linked_days: int | None = None,
) -> Pruned:
    """Remove old versions, and the slabs that no other version needs (time.md section 4.6).

    These stay: the published version, the latest ones, pinned ones, those built lately, and those
    published lately, whose addresses caches may hold.

    Args:
        keep: number of latest versions to keep, at least 1.
        days: versions built in so many days stay; None for ``retention.days`` of the last build.
        linked_days: the same for versions published in so many days.

    Raises:
        BuildError: as in `log`.
    """
    read_versions(store, name)  # nothing is written if the pyramid does not exist
    with locked(store, f"{name}.lock"):
        versions = read_versions(store, name)
        if store.stat(f"{name}.versions.json") is None:
            return Pruned(0, 0, {})
        current = published(store, name, versions)
        history = open_history(store, name, versions)
        if days is None:
            days = history.retention.get("days", 0)
        if linked_days is None:
            linked_days = history.retention.get("linked_days", _LINKED_DAYS)
        reasons = _reasons(history, days, linked_days)
        for pin in read_pins(store, name):
            reasons.setdefault(pin["generation"], f"pinned by {pinner_of(pin)}")
        why: dict[int, str] = {}
        for one in versions:
            for generation in addressed(history.versions[str(one.number)]):
                if generation in reasons and one != current and one not in versions[-keep:]:
                    why[one.number] = reasons[generation]
        removed = [
            one
            for one in versions
            if one != current and one not in versions[-keep:] and one.number not in why
        ]
        for one in versions:
            entry = history.versions[str(one.number)]
            if one in removed:
                entry["state"] = PRUNED
            elif entry["state"] == PRUNED:  # an interrupted call wanted to remove it
                entry["state"] = KEPT
        count = _remove(store, name, history, versions, removed)
        return Pruned(len(removed), count, why)


def withdraw(store: OutputStore, name: str, number: int) -> tuple[str, int]:
    """Remove a version at once, for legal reasons; its addresses are answered with 410.

    Slabs that other versions need stay.

    Returns:
        the generation, and the number of removed objects.

    Raises:
        PlanError: there is no such version, it is published, or it is pinned.
        BuildError: as in `log`.
    """
    read_versions(store, name)
    with locked(store, f"{name}.lock"):
        versions = read_versions(store, name)
        history = open_history(store, name, versions)
        entry = history.versions.get(str(number))
        if entry is None:
            find_version(name, versions, number)  # raises
            raise VerificationError(f"{name}.history.json has no version {number}")
        removed = [one for one in versions if one.number == number]
        if removed and removed[0] == published(store, name, versions):
            raise PlanError(f"version {number} of {name} is published; publish another one first")
        for pin in read_pins(store, name):
            if pin["generation"] in addressed(entry):
                raise PlanError(
                    f"version {number} of {name} is pinned by {pinner_of(pin)}; unpin it"
                )
        entry["state"] = WITHDRAWN
        # What it shows, and what is said about it, may be the reason.
        entry.pop("message", None)
        for row in history.published:
            if row["number"] == number:
                row["message"] = ""
        return entry["generation"], _remove(store, name, history, versions, removed)


def _reasons(history: History, days: int, linked_days: int) -> dict[str, str]:
    """Return why generations stay because of their age."""
    today = datetime.datetime.now(datetime.UTC)
    reasons = {}
    since = instant(today - datetime.timedelta(days=linked_days))
    for generation, end in history.ends().items():
        if linked_days and (end is None or end >= since):
            reasons[generation] = f"published in the last {linked_days} days"
    since = instant(today - datetime.timedelta(days=days))
    for entry in history.versions.values():
        if days and entry["built"] >= since[: len(entry["built"]) - 1]:
            reasons[entry["generation"]] = f"built in the last {days} days"
    return reasons


def _remove(
    store: OutputStore,
    name: str,
    history: History,
    versions: list[Version],
    removed: Iterable[Version],
) -> int:
    """Remove versions, and all slabs that others do not need; return the number of objects.

    The history and the list of versions are written first: a call that is killed is completed by
    the next one.
    """
    gone = list(removed)
    kept = [one for one in versions if one not in gone]
    # Versions that differ in what they say of their sources only have the slabs, and the root, of
    # an earlier one. The start of the names of their documents represents an empty root then.
    own = (f"{name}_{one.number}" for one in gone if one.number > 1)
    roots = list(dict.fromkeys([*read_roots(store, name), *(one.root for one in gone), *own]))
    needed = _needed(store, name, kept) if roots else set()
    history.write(store, name)
    if not roots:
        return 0
    write_versions(store, name, kept, roots)
    # Those of an interrupted call too; the first version has the name of the pyramid.
    stems = {f"{name}_1" if root == name else root for root in roots}
    for stem in stems - {f"{name}_{version.number}" for version in kept}:
        for end in (*DOCUMENTS, *FURTHER):
            store.delete(f"{stem}{end}")
    count = 0
    remaining = []
    for root in roots:
        unneeded = [key for key in store.list(f"{root}/") if key not in needed]
        for key in unneeded:
            store.delete(key)
        count += len(unneeded)
        if store.has(f"{root}/"):
            remaining.append(root)
        store.remove_empty(root)
    write_versions(store, name, kept, remaining)
    return count


def _needed(store: OutputStore, name: str, versions: list[Version]) -> set[str]:
    """Return the keys of all slabs, links and index packs of some versions."""
    needed: set[str] = set()
    for version in versions:
        record = record_of(store, name, version)
        descriptor = descriptor_of(store, f"{name}_{version.number}")
        for slab in record.stored():
            for kind in kinds_of(descriptor):
                key = recorded_key(descriptor, slab, kind)
                needed.update((f"{record.root}/{key}", f"{slab.holder or record.root}/{key}"))
        needed.update(store.list(f"{record.root}/INDEX_"))
        needed.update(_source_slabs(store, f"{name}_{version.number}", descriptor))
    return needed


def _source_slabs(store: OutputStore, stem: str, descriptor: dict[str, Any]) -> Iterator[str]:
    """Yield the keys of the slabs of source numbers of a version, and of links to them."""
    record = read_source_record(store, stem)
    if record is None:
        return
    for place, slab in record.slabs.items():
        key = placed_key(descriptor, *place, SOURCE)
        yield f"{record.root}/{key}"
        yield f"{slab.holder or record.root}/{key}"
