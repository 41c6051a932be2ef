"""Copies of pyramids from one storage to another (coverages.md section 8a)."""

from __future__ import annotations

import hashlib
import os
import posixpath
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from mastaba.api.storages import ObjectStat
from mastaba_build.errors import OutputError, PlanError, VerificationError
from mastaba_build.output.destination import Destination
from mastaba_build.output.lock import locked
from mastaba_build.output.storage import OutputStore
from mastaba_build.plan.names import SOURCE
from mastaba_build.pyramid.copied_documents import DocumentCopier
from mastaba_build.pyramid.copied_versions import Slab, Version, slab_key, versions_of
from mastaba_build.pyramid.copy_journal import CopiedSlab, CopyJournal
from mastaba_server.threads.pace import Pace

_TOGETHER: Final = 1024
"""Slabs that wait for a thread: each takes memory."""
_LINK: Final = b"SYMLINK#"
_LONGEST_LINK: Final = 2047
_OBJECT: Final = re.compile(r"_(\d+)_(\d+)")
_FILE: Final = re.compile(r"([0-9A-Z]{2,}(?:/[0-9A-Z]{2})*)\.tif")


@dataclass(frozen=True, slots=True)
class Options:
    """How a pyramid is copied.

    Attributes:
        threads: slabs at a time.
        rate: bytes per second; None for no limit.
        verify: also read every slab from the target again.
        resume: leave out the slabs that an interrupted copy has written.
    """

    threads: int = 4
    rate: float | None = None
    verify: bool = False
    resume: bool = True


class Copied(NamedTuple):
    """Numbers of slabs copied now, of slabs that were there, and of the bytes copied now."""

    slabs: int
    before: int
    bytes: int


def copy_pyramid(
    source: Destination,
    name: str,
    target: Destination,
    options: Options = Options(),
    report: Callable[[int, int], object] = lambda _done, _of: None,
) -> Copied:
    """Copy a pyramid with all its versions; servers see it when all of it is there.

    Slabs are copied as they are. Links inside the pyramid stay links, others become slabs. An
    interrupted copy is resumed by the same call.

    Args:
        source: directory or prefix of the descriptor.
        name: of the pyramid; its descriptor is NAME.json.
        report: called with the number of slabs done, and of all slabs.

    Raises:
        PlanError: there is no such pyramid, or the target has one of this name.
        VerificationError: a slab differs from its build record or was changed, or a document is
            damaged.
        OutputError: a storage cannot be used.
    """
    with closing(source.open()) as origin, closing(target.open()) as store:
        versions = versions_of(origin, source, name)
        journal_path = _journal(target, name)
        if store.stat(f"{name}.json") is not None and not journal_path.exists():
            raise PlanError(f"{target.path(f'{name}.json')} exists; remove it, or copy elsewhere")
        with locked(store, f"{name}.lock"), closing(CopyJournal(journal_path)) as journal:
            if not options.resume:
                journal.clear()
            copier = _Copier(source, target, store, versions, journal, options)
            copied = copier.run(report)
            if [one.descriptor for one in versions_of(origin, source, name)] != [
                one.descriptor for one in versions
            ]:
                raise VerificationError(f"{name} was changed while it was copied; copy it again")
            DocumentCopier(target, store, versions, copier.keys, journal).write(origin, name)
        journal_path.unlink()
        return copied


def _journal(target: Destination, name: str) -> Path:
    digest = hashlib.sha256(str(target).encode()).hexdigest()[:8]
    return target.directory / f".{name}-{digest}.copy"


class _Copier:
    """Copies the slabs of all versions.

    Attributes:
        keys: of these slabs in the source, once they are listed.
    """

    def __init__(
        self,
        source: Destination,
        target: Destination,
        store: OutputStore,
        versions: list[Version],
        journal: CopyJournal,
        options: Options,
    ) -> None:
        # Levels name their slabs by the container, not by the directory of the descriptor.
        self._whole = replace(source, prefix="")
        self._source = source
        self._target = target
        self._store = store
        self._versions = versions
        self._journal = journal
        self._options = options
        self._pace = Pace(options.rate)
        self.keys: dict[Slab, str] = {}
        self._slabs: dict[str, Slab] = {}

    def run(self, report: Callable[[int, int], object]) -> Copied:
        """Copy all slabs that the journal does not have."""
        with closing(self._whole.open()) as origin:
            for version in {one.root: one for one in self._versions}.values():
                for slab, key in self._listed(origin, version):
                    self.keys[slab] = key
                    if not self._source.is_local:
                        self._slabs[key] = slab
                    elif not os.path.islink(key):
                        self._slabs[os.path.realpath(key)] = slab
            count = size = before = 0
            slabs = iter(self.keys)
            with ThreadPoolExecutor(self._options.threads) as threads:
                try:
                    while group := list(islice(slabs, _TOGETHER)):
                        running = [threads.submit(self._copy, origin, slab) for slab in group]
                        for future in as_completed(running):
                            done = future.result()
                            before += done is None
                            count += done is not None
                            size += done or 0
                            report(before + count, len(self.keys))
                except BaseException:
                    threads.shutdown(wait=True, cancel_futures=True)
                    raise
            return Copied(count, before, size)

    def _listed(self, origin: OutputStore, version: Version) -> Iterator[tuple[Slab, str]]:
        """Yield the slabs of a version, and their keys."""
        numbered = [] if version.numbers is None else version.numbers["levels"]
        for level in [*version.descriptor["levels"], *numbered]:
            storage = level["storage"]
            fields = (("DATA", "image"), ("MASK", "mask"))
            for kind, field in ((SOURCE, "image"),) if level in numbered else fields:
                if self._source.is_local:
                    if f"{field}_directory" not in storage:
                        continue
                    folder = posixpath.join(self._source.prefix, storage[f"{field}_directory"])
                    start = f"{posixpath.normpath(folder)}/"
                else:
                    if f"{field}_prefix" not in storage:
                        continue
                    self._require_container(storage)
                    start = storage[f"{field}_prefix"]
                for key in origin.list(start):
                    place = self._column_and_row(key.removeprefix(start))
                    if place is not None:
                        yield Slab(version.root, kind, level["id"], *place), key

    def _require_container(self, storage: dict[str, Any]) -> None:
        named = storage.get(self._source.container_field or "")
        if named not in (None, self._source.container.partition("@")[0]):
            raise PlanError(f"the slabs are in another container, {named}; copy from there")

    def _column_and_row(self, name: str) -> tuple[int, int] | None:
        if not self._source.is_local:
            found = _OBJECT.fullmatch(name)
            return (int(found[1]), int(found[2])) if found else None
        found = _FILE.fullmatch(name)
        digits = found[1].replace("/", "") if found else ""
        if not digits or len(digits) % 2:
            return None
        return int(digits[0::2], 36), int(digits[1::2], 36)

    def _copy(self, origin: OutputStore, slab: Slab) -> int | None:
        """Copy one slab; return its bytes, or None if it was there."""
        key, name = self.keys[slab], slab_key(self._target, slab)
        facts = origin.stat(key)
        version = "" if facts is None else facts.version or ""
        known = self._journal.get(name)
        if known is not None and known.version == version != "" and self._is_there(name, known):
            return None
        holder = self._linked(key)
        try:
            data = b"" if holder is not None else _read(origin, key, facts)
            if data.startswith(_LINK) and len(data) <= _LONGEST_LINK:
                container, _, wanted = data.removeprefix(_LINK).decode().partition("/")
                holder = self._slabs.get(wanted)
                if holder is None:
                    data = self._elsewhere(origin, container, wanted)
        except (FileNotFoundError, UnicodeDecodeError) as error:
            raise OutputError(f"the slab {key} cannot be read: {error}") from None
        if holder is not None:
            self._store.link(name, slab_key(self._target, holder))
            self._journal.put(name, CopiedSlab(version, 0, "", holder.root))
            return 0
        self._pace.spend(len(data))
        md5 = self._store.write(name, data).md5
        self._check(name, len(data), md5)
        self._journal.put(name, CopiedSlab(version, len(data), md5, slab.root))
        return len(data)

    def _linked(self, key: str) -> Slab | None:
        """Return the slab of the pyramid to which a symbolic link leads."""
        if not self._source.is_local or not os.path.islink(key):
            return None
        return self._slabs.get(os.path.realpath(key))

    def _elsewhere(self, origin: OutputStore, container: str, key: str) -> bytes:
        """Return the slab outside of the pyramid to which a symbolic object leads."""
        if container == self._source.container.partition("@")[0]:
            return _read(origin, key, origin.stat(key))
        cluster = self._source.container.partition("@")[2]
        other = replace(self._whole, container=f"{container}@{cluster}" if cluster else container)
        with closing(other.open()) as store:
            return _read(store, key, store.stat(key))

    def _is_there(self, name: str, known: CopiedSlab) -> bool:
        """Return whether the target still has a slab, or a link, as the journal says."""
        facts = self._store.stat(name)
        if facts is None or not known.md5:
            return facts is not None
        return facts.size == known.size and (
            not self._options.verify or self._md5(name) == known.md5
        )

    def _md5(self, name: str) -> str:
        return hashlib.md5(self._store.read(name), usedforsecurity=False).hexdigest()

    def _check(self, name: str, size: int, md5: str) -> None:
        facts = self._store.stat(name)
        if facts is None or facts.size != size:
            raise OutputError(f"{self._target.path(name)} does not have the {size} bytes written")
        if self._options.verify and self._md5(name) != md5:
            raise OutputError(f"{self._target.path(name)} differs from what was written")


def _read(store: OutputStore, key: str, facts: ObjectStat | None) -> bytes:
    """Return a slab.

    Raises:
        FileNotFoundError: it does not exist.
        OutputError: it cannot be read, or is not as large as its facts say.
    """
    data = store.read(key)
    if facts is not None and len(data) != facts.size:
        raise OutputError(f"the slab {key} was replaced, or not read whole; copy again")
    return data
