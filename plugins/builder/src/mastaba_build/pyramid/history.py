"""What can be done with the versions of a pyramid: show, compare, publish and remove them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from mastaba_build.errors import PlanError, VerificationError
from mastaba_build.output.lock import locked
from mastaba_build.output.records import Record
from mastaba_build.output.source_records import read_source_record
from mastaba_build.output.storage import OutputStore
from mastaba_build.output.versions import (
    DOCUMENTS,
    FURTHER,
    Version,
    publish_version,
    published,
    read_record,
    read_roots,
    read_versions,
    write_versions,
)
from mastaba_build.plan.names import SOURCE, kinds_of, placed_key, recorded_key


@dataclass(frozen=True, slots=True)
class Entry:
    """A version, and facts from its record.

    Attributes:
        published: whether its descriptor is the published one.
        time: when it was built, in UTC.
        sources: number of sources.
        written, linked: slabs that it contains, and slabs of other versions to which it links.
        bytes: of all its slabs.
    """

    number: int
    published: bool
    time: str
    sources: int
    written: int
    linked: int
    bytes: int


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
    entries = []
    for version in versions:
        record = _record_of(store, name, version)
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
    sources = [
        {one["path"]: one["identity"] for one in record.facts["sources"]}
        for record in (before, after)
    ]
    result = Difference(
        sorted(sources[1].keys() - sources[0].keys()),
        sorted(sources[0].keys() - sources[1].keys()),
        sorted(
            path
            for path in sources[0].keys() & sources[1].keys()
            if sources[0][path] != sources[1][path]
        ),
    )
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


def rollback(store: OutputStore, name: str, number: int | None = None) -> int:
    """Publish a version, by default the one before the published one; return its number.

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
            publish_version(store, name, wanted.number)
        return wanted.number


def prune(store: OutputStore, name: str, keep: int) -> tuple[int, int]:
    """Remove old versions, and the slabs that no other version needs.

    Args:
        keep: number of versions to keep, at least 1: the latest ones. The published one is always
            kept.

    Returns:
        numbers of removed versions and objects.

    Raises:
        BuildError: as in `log`.
    """
    read_versions(store, name)  # nothing is written if the pyramid does not exist
    with locked(store, f"{name}.lock"):
        versions = read_versions(store, name)
        if store.stat(f"{name}.versions.json") is None:
            return 0, 0
        current = published(store, name, versions)
        kept = [one for one in versions if one == current or one in versions[-keep:]]
        removed = [one for one in versions if one not in kept]
        roots = list(dict.fromkeys([*read_roots(store, name), *(one.root for one in removed)]))
        needed = _needed(store, name, kept)
        write_versions(store, name, kept, roots)
        for version in removed:
            for end in (*DOCUMENTS, *FURTHER):
                store.delete(f"{name}_{version.number}{end}")
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
        return len(removed), count


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
