"""What can be done with the versions of a pyramid: show, compare, publish and remove them."""

from __future__ import annotations

import datetime
import json
import posixpath
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from mastaba.api.catalogue import digest_of
from mastaba_build.errors import OutputError, PlanError, VerificationError
from mastaba_build.output.history import (
    INJECTED,
    KEPT,
    PRUNED,
    WITHDRAWN,
    History,
    Note,
    instant,
    read_pins,
    source_changes,
    write_pins,
)
from mastaba_build.output.lock import locked
from mastaba_build.output.records import Record
from mastaba_build.output.source_records import read_source_record
from mastaba_build.output.storage import OutputStore
from mastaba_build.output.versions import (
    DOCUMENTS,
    FURTHER,
    Version,
    open_history,
    publish_version,
    published,
    read_record,
    read_roots,
    read_versions,
    write_versions,
)
from mastaba_build.plan.names import SOURCE, kinds_of, placed_key, recorded_key
from mastaba_documents.times import parse_day

_LINKED_DAYS: Final = 365
"""Days for which a cache may hold an address of a version that is no longer published."""
_NUMBERED: Final = re.compile(r"(.+)_(\d+)")
_LINKS: Final = "it links to slabs of this version"
"""Reason of the pins of other pyramids."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A version, and facts from its record.

    Attributes:
        published: whether its descriptor is the published one.
        time: when it was built, in UTC.
        sources: number of sources.
        written, linked: slabs that it contains, and slabs of other versions to which it links.
        bytes: of all its slabs.
        generation: of its descriptor.
        message: of the command that made it.
        pinned: what needs it, and why.
    """

    number: int
    published: bool
    time: str
    sources: int
    written: int
    linked: int
    bytes: int
    generation: str = ""
    message: str = ""
    pinned: list[str] = field(default_factory=list)


class Pruned(NamedTuple):
    """What `prune` has done.

    Attributes:
        versions, objects: numbers of what was removed.
        kept: why versions stay that are neither published nor among the latest, by number.
    """

    versions: int
    objects: int
    kept: dict[int, str]


@dataclass(frozen=True, slots=True)
class Difference:
    """How a version differs from an earlier one.

    Attributes:
        added, removed, changed: paths of sources.
        slabs: numbers of slabs that were added, removed and changed, by level, the coarsest first.
    """

    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    slabs: dict[str, dict[str, int]] = field(default_factory=dict)


def log(store: OutputStore, name: str) -> list[Entry]:
    """Return the versions of a pyramid, the oldest first.

    Raises:
        BuildError: the pyramid does not exist, or a document is damaged.
    """
    versions = read_versions(store, name)
    current = published(store, name, versions)
    history = open_history(store, name, versions)
    pins = read_pins(store, name)
    entries = []
    for version in versions:
        record = _record_of(store, name, version)
        known = history.versions[str(version.number)]
        stored = list(record.stored())
        linked = sum(slab.holder is not None for slab in stored)
        entries.append(
            Entry(
                version.number,
                version == current,
                str(record.facts["time"]),
                len(record.facts["sources"]),
                len(stored) - linked,
                linked,
                sum(slab.size for slab in stored),
                known["generation"],
                known.get("message", ""),
                [_pinner(pin) for pin in pins if pin["generation"] in _generations(known)],
            )
        )
    return entries


def diff(
    store: OutputStore, name: str, old: int | None = None, new: int | None = None
) -> Difference:
    """Return how two versions differ: by default the published one and the one before it.

    Raises:
        BuildError: as in `log`, or there is no such version.
    """
    versions = read_versions(store, name)
    later = _find(name, versions, new) if new else published(store, name, versions)
    earlier = _find(name, versions, old) if old else _before(name, versions, later)
    before, after = (_record_of(store, name, version) for version in (earlier, later))
    result = Difference(*source_changes(before, after))
    slabs = [
        {(slab.level, slab.column, slab.row): slab.md5 for slab in record.stored()}
        for record in (before, after)
    ]
    for place_ in sorted(slabs[0].keys() | slabs[1].keys(), key=lambda one: _order(one[0])):
        md5 = [one.get(place_) for one in slabs]
        if md5[0] != md5[1]:
            what = "added" if md5[0] is None else "removed" if md5[1] is None else "changed"
            counts = result.slabs.setdefault(place_[0], {})
            counts[what] = counts.get(what, 0) + 1
    return result


def rollback(store: OutputStore, name: str, number: int | None = None, message: str = "") -> int:
    """Publish a version, by default the one before the published one; return its number.

    Args:
        message: for people.

    Raises:
        BuildError: as in `log`, or there is no such version; nothing has changed then.
    """
    read_versions(store, name)  # nothing is written if the pyramid does not exist
    with locked(store, f"{name}.lock"):
        versions = read_versions(store, name)
        if number is not None:
            wanted = _find(name, versions, number)
        else:
            wanted = _before(name, versions, published(store, name, versions))
        if store.stat(f"{name}.versions.json") is not None:
            history = open_history(store, name, versions)
            publish_version(store, name, wanted.number, Note("rollback", message), history)
        return wanted.number


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
        linked_days: versions published in so many days stay, likewise.

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
            reasons.setdefault(pin["generation"], f"pinned by {_pinner(pin)}")
        why: dict[int, str] = {}
        for one in versions:
            for generation in _generations(history.versions[str(one.number)]):
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
            _find(name, versions, number)  # raises
            raise VerificationError(f"{name}.history.json has no version {number}")
        removed = [one for one in versions if one.number == number]
        if removed and removed[0] == published(store, name, versions):
            raise PlanError(f"version {number} of {name} is published; publish another one first")
        for pin in read_pins(store, name):
            if pin["generation"] in _generations(entry):
                raise PlanError(f"version {number} of {name} is pinned by {_pinner(pin)}; unpin it")
        entry["state"] = WITHDRAWN
        # What it shows, and what is said about it, may be the reason.
        entry.pop("message", None)
        for row in history.published:
            if row["number"] == number:
                row["message"] = ""
        return entry["generation"], _remove(store, name, history, versions, removed)


def pin(
    store: OutputStore, name: str, number: int, by: str, reason: str = "", until: str | None = None
) -> None:
    """Keep a version from being removed.

    Args:
        by: who or what needs it.
        until: last day, ``yyyy-mm-dd``; None for ever.

    Raises:
        BuildError: as in `log`, or there is no such version.
    """
    if until is not None and parse_day(until) is None:
        raise PlanError(f"--until {until!r} is not a date of the form yyyy-mm-dd")
    read_versions(store, name)
    with locked(store, f"{name}.lock"):
        generation = _generation_of(store, name, number)
        _add_pin(
            store, name, {"generation": generation, "by": by, "reason": reason, "until": until}
        )


def unpin(
    store: OutputStore, name: str, number: int, by: str | None = None
) -> tuple[int, list[str]]:
    """Remove the pins of a version, or those of one pinner.

    Args:
        by: the pinner. None for all but pyramids that link to the version: without its slabs, they
            would have holes. Their pins are removed by name only.

    Returns:
        the number of removed pins, and the pyramids that link to the version, if their pins stay.

    Raises:
        BuildError: as in `log`, or there is no such version.
    """
    read_versions(store, name)
    with locked(store, f"{name}.lock"):
        versions = read_versions(store, name)
        _find(name, versions, number)
        entry = open_history(store, name, versions).versions[str(number)]
        pins = read_pins(store, name)
        of_version = [one for one in pins if one["generation"] in _generations(entry)]
        if by is None:
            removed = [one for one in of_version if one["reason"] != _LINKS]
        else:
            removed = [one for one in of_version if one["by"] == by]
        if removed:
            write_pins(store, name, [one for one in pins if one not in removed])
        linking = [one["by"] for one in of_version if one["reason"] == _LINKS]
        return len(removed), linking if by is None else []


def pin_source(store: OutputStore, key: str, by: str, warn: Callable[[str], object]) -> None:
    """Pin the version whose descriptor another pyramid links to.

    Pyramids of other tools have no versions, and are left out.

    Args:
        store: that contains the descriptor.
        key: of the descriptor.
        by: path of the pyramid that links.
        warn: called with a text if the pin cannot be written.

    Raises:
        LockedError: a builder is changing the pyramid.
        BuildError: a document is damaged.
    """
    stem = key.removesuffix(".json")
    folder, base = posixpath.split(stem)
    numbered = _NUMBERED.fullmatch(base)
    name = stem
    if numbered and store.stat(f"{stem}.history.json") is None:
        former = posixpath.join(folder, numbered[1])
        if store.stat(f"{former}.history.json") is not None:
            name = former
    if read_record(store, stem) is None:
        return
    try:
        with locked(store, f"{name}.lock"):
            generation = digest_of(json.loads(store.read(key)))
            _add_pin(
                store, name, {"generation": generation, "by": by, "reason": _LINKS, "until": None}
            )
    except OutputError as error:
        warn(
            f"{name}.pins.json cannot be written: {error}; do not prune this version while {by} is "
            "in use"
        )


def require_unpinned(store: OutputStore, name: str) -> None:
    """Check that nothing needs a pyramid that is to be replaced.

    Raises:
        PlanError: a version is pinned.
        VerificationError: the pins are damaged.
    """
    for one in read_pins(store, name):
        raise PlanError(f"a version of {name} is pinned by {_pinner(one)}; unpin it first")


def _add_pin(store: OutputStore, name: str, pin: dict[str, Any]) -> None:
    same = pin["generation"], pin["by"]
    others = [one for one in read_pins(store, name) if (one["generation"], one["by"]) != same]
    write_pins(store, name, [*others, pin])


def _pinner(pin: dict[str, Any]) -> str:
    text = str(pin["by"])
    if pin["reason"]:
        text += f" ({pin['reason']})"
    return text + (f" until {pin['until']}" if pin["until"] else "")


def _generation_of(store: OutputStore, name: str, number: int) -> str:
    versions = read_versions(store, name)
    _find(name, versions, number)
    return str(open_history(store, name, versions).versions[str(number)]["generation"])


def _generations(entry: dict[str, Any]) -> list[str]:
    """Return the generations under which the slabs of a version are addressed."""
    former = [one["generation"] for one in entry.get("former", ()) if one["state"] != INJECTED]
    return [entry["generation"], *former]


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
    # an earlier one. The start of the names of their documents stands for an empty root then.
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


def _order(level: str) -> tuple[int, str]:
    """Return the key of a level in the order of levels: their identifiers are numbers, or names."""
    return (int(level), "") if level.isdecimal() else (sys.maxsize, level)


def _needed(store: OutputStore, name: str, versions: list[Version]) -> set[str]:
    """Return the keys of all slabs, links and index packs of some versions."""
    needed: set[str] = set()
    for version in versions:
        record = _record_of(store, name, version)
        try:
            descriptor: dict[str, Any] = json.loads(store.read(f"{name}_{version.number}.json"))
        except (FileNotFoundError, ValueError) as error:
            raise VerificationError(f"{name}_{version.number}.json: {error}") from None
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


def _record_of(store: OutputStore, name: str, version: Version) -> Record:
    own = store.stat(f"{name}.versions.json") is not None
    record = read_record(store, f"{name}_{version.number}" if own else name)
    if record is None:
        raise VerificationError(f"version {version.number} of {name} has no build record")
    return record


def _find(name: str, versions: list[Version], number: int) -> Version:
    for version in versions:
        if version.number == number:
            return version
    known = ", ".join(str(version.number) for version in versions)
    raise PlanError(f"{name} has no version {number}; its versions are {known}")


def _before(name: str, versions: list[Version], version: Version) -> Version:
    earlier = versions[: versions.index(version)]
    if not earlier:
        raise PlanError(f"{name} has no version before version {version.number}")
    return earlier[-1]
