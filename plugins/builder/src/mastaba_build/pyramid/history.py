"""The versions of a pyramid: show, compare and publish them."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

from mastaba_build.errors import PlanError
from mastaba_build.output.history import Note, read_pins, source_changes
from mastaba_build.output.lock import locked
from mastaba_build.output.storage import OutputStore
from mastaba_build.output.versions import (
    Version,
    find_version,
    open_history,
    publish_version,
    published,
    read_versions,
    record_of,
)
from mastaba_build.pyramid.pins import addressed, pinner_of


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
        record = record_of(store, name, version)
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
                [pinner_of(pin) for pin in pins if pin["generation"] in addressed(known)],
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
    later = find_version(name, versions, new) if new else published(store, name, versions)
    earlier = find_version(name, versions, old) if old else _before(name, versions, later)
    before, after = (record_of(store, name, version) for version in (earlier, later))
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
            wanted = find_version(name, versions, number)
        else:
            wanted = _before(name, versions, published(store, name, versions))
        if store.stat(f"{name}.versions.json") is not None:
            history = open_history(store, name, versions)
            publish_version(store, name, wanted.number, Note("rollback", message), history)
        return wanted.number


def _order(level: str) -> tuple[int, str]:
    """Return the key of a level in the order of levels: their identifiers are numbers, or names."""
    return (int(level), "") if level.isdecimal() else (sys.maxsize, level)


def _before(name: str, versions: list[Version], version: Version) -> Version:
    earlier = versions[: versions.index(version)]
    if not earlier:
        raise PlanError(f"{name} has no version before version {version.number}")
    return earlier[-1]
