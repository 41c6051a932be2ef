"""Copies of pyramids from one storage to another (coverages.md section 8a)."""

from __future__ import annotations

import hashlib
import json
import os
import posixpath
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from mastaba.api.catalogue import digest_of
from mastaba_build.errors import OutputError, PlanError, VerificationError
from mastaba_build.output.destination import Destination
from mastaba_build.output.history import History
from mastaba_build.output.lock import locked
from mastaba_build.output.packs import write_packs
from mastaba_build.output.records import Record
from mastaba_build.output.source_records import SUMS, read_source_record
from mastaba_build.output.stacks import renew_stacks
from mastaba_build.output.storage import OutputStore
from mastaba_build.plan.names import SOURCE
from mastaba_build.pyramid.copy_journal import CopiedSlab, CopyJournal
from mastaba_build.pyramid.provenance import LIST, PYRAMID, TABLE
from mastaba_writer.descriptor import slab_list
from mastaba_writer.slab_names import slab_object, slab_path

_PATH_DEPTH: Final = 2
_NAMES: Final = {"image": "DATA", "mask": "MASK"}
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


class _Slab(NamedTuple):
    root: str
    kind: str
    level: str
    column: int
    row: int


@dataclass(frozen=True, slots=True)
class _Version:
    """Documents of one version of a pyramid: the start of their names, and its descriptor.

    Attributes:
        numbers: descriptor of its pyramid of source numbers, if it has one.
    """

    stem: str
    descriptor: dict[str, Any]
    root: str
    numbers: dict[str, Any] | None


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
        versions = _versions(origin, source, name)
        journal_path = _journal(target, name)
        if store.stat(f"{name}.json") is not None and not journal_path.exists():
            raise PlanError(f"{target.path(f'{name}.json')} exists; remove it, or copy elsewhere")
        with locked(store, f"{name}.lock"), closing(CopyJournal(journal_path)) as journal:
            if not options.resume:
                journal.clear()
            copier = _Copier(source, target, store, versions, journal, options)
            copied = copier.run(report)
            if [one.descriptor for one in _versions(origin, source, name)] != [
                one.descriptor for one in versions
            ]:
                raise VerificationError(f"{name} was changed while it was copied; copy it again")
            copier.write_documents(origin, name)
        journal_path.unlink()
        return copied


def _journal(target: Destination, name: str) -> Path:
    digest = hashlib.sha256(str(target).encode()).hexdigest()[:8]
    return target.directory / f".{name}-{digest}.copy"


def _versions(store: OutputStore, output: Destination, name: str) -> list[_Version]:
    """Return the versions of a pyramid, the published one last."""
    listed = store.read_if_exists(f"{name}.versions.json")
    try:
        numbers = [one["number"] for one in json.loads(listed)["versions"]] if listed else []
        if not listed and store.stat(f"{name}.history.json") is not None:
            numbers = [1]
        stems = [*(f"{name}_{number}" for number in numbers), name]
        descriptors = [json.loads(store.read(f"{stem}.json")) for stem in stems]
        return [
            _Version(stem, one, _root_of(one, name), _numbers(store, stem))
            for stem, one in zip(stems, descriptors, strict=True)
        ]
    except FileNotFoundError as error:
        raise PlanError(f"{output.path(f'{name}.json')}: {error}") from None
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise VerificationError(f"the documents of {name} cannot be used: {error}") from None


def _numbers(store: OutputStore, stem: str) -> dict[str, Any] | None:
    """Return the descriptor of the pyramid of source numbers of a version, if it has one."""
    data = store.read_if_exists(f"{stem}{PYRAMID}")
    if data is None or store.stat(f"{stem}{SUMS}") is None:
        return None
    document: dict[str, Any] = json.loads(data)
    return document


def _root_of(descriptor: dict[str, Any], name: str) -> str:
    """Return the name of the directory or prefix of all slabs of a version."""
    level = descriptor["levels"][0]
    storage = level["storage"]
    images = storage.get("image_directory") or posixpath.dirname(storage["image_prefix"])
    if not images.endswith(f"/DATA/{level['id']}") and "image_directory" in storage:
        return name  # as of a pyramid of source numbers
    images = images.removesuffix(f"/DATA/{level['id']}")
    return posixpath.basename(posixpath.normpath(images)) or name


class _Copier:
    def __init__(
        self,
        source: Destination,
        target: Destination,
        store: OutputStore,
        versions: list[_Version],
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
        self._pace = _Pace(options.rate)
        self._keys: dict[_Slab, str] = {}
        self._slabs: dict[str, _Slab] = {}

    def run(self, report: Callable[[int, int], object]) -> Copied:
        """Copy all slabs that the journal does not have."""
        with closing(self._whole.open()) as origin:
            for version in {one.root: one for one in self._versions}.values():
                for slab, key in self._listed(origin, version):
                    self._keys[slab] = key
                    if not self._source.is_local:
                        self._slabs[key] = slab
                    elif not os.path.islink(key):
                        self._slabs[os.path.realpath(key)] = slab
            count = size = before = 0
            with ThreadPoolExecutor(self._options.threads) as threads:
                running = [threads.submit(self._copy, origin, slab) for slab in self._keys]
                try:
                    for number, future in enumerate(as_completed(running), 1):
                        done = future.result()
                        before += done is None
                        count += done is not None
                        size += done or 0
                        report(number, len(running))
                except BaseException:
                    threads.shutdown(wait=True, cancel_futures=True)
                    raise
            return Copied(count, before, size)

    def _listed(self, origin: OutputStore, version: _Version) -> Iterator[tuple[_Slab, str]]:
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
                        yield _Slab(version.root, kind, level["id"], *place), key

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

    def _key(self, slab: _Slab) -> str:
        """Return the key of a slab in the target."""
        if self._target.is_local:
            path = slab_path(slab.column, slab.row, _PATH_DEPTH)
            return f"{slab.root}/{slab.kind}/{slab.level}/{path}"
        return slab_object(f"{slab.root}/{slab.kind}_{slab.level}", slab.column, slab.row)

    def _copy(self, origin: OutputStore, slab: _Slab) -> int | None:
        """Copy one slab; return its bytes, or None if it was there."""
        key, name = self._keys[slab], self._key(slab)
        facts = origin.stat(key)
        version = "" if facts is None else facts.version or ""
        known = self._journal.get(name)
        if known is not None and known.version == version != "" and self._is_there(name, known):
            return None
        holder = self._linked(key)
        try:
            data = b"" if holder is not None else origin.read(key)
            if data.startswith(_LINK) and len(data) <= _LONGEST_LINK:
                container, _, wanted = data.removeprefix(_LINK).decode().partition("/")
                holder = self._slabs.get(wanted)
                if holder is None:
                    data = self._elsewhere(origin, container, wanted)
        except (FileNotFoundError, UnicodeDecodeError) as error:
            raise OutputError(f"the slab {key} cannot be read: {error}") from None
        if holder is not None:
            self._store.link(name, self._key(holder))
            self._journal.put(name, CopiedSlab(version, 0, "", holder.root))
            return 0
        self._pace.spend(len(data))
        md5 = self._store.write(name, data).md5
        self._check(name, len(data), md5)
        self._journal.put(name, CopiedSlab(version, len(data), md5, slab.root))
        return len(data)

    def _linked(self, key: str) -> _Slab | None:
        """Return the slab of the pyramid to which a symbolic link leads."""
        if not self._source.is_local or not os.path.islink(key):
            return None
        return self._slabs.get(os.path.realpath(key))

    def _elsewhere(self, origin: OutputStore, container: str, key: str) -> bytes:
        """Return the slab outside of the pyramid to which a symbolic object leads."""
        if container == self._source.container.partition("@")[0]:
            return origin.read(key)
        cluster = self._source.container.partition("@")[2]
        other = replace(self._whole, container=f"{container}@{cluster}" if cluster else container)
        with closing(other.open()) as store:
            return store.read(key)

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

    def write_documents(self, origin: OutputStore, name: str) -> None:
        """Write all documents, the published descriptor and the layer last."""
        *earlier, last = self._versions
        history = History.read(origin, name)
        for version in earlier:
            generation = self._write_version(origin, version)
            number = version.stem.removeprefix(f"{name}_")
            if history is not None and number in history.versions:
                history.move(number, generation)
                changes = origin.read_if_exists(f"{version.stem}.changes.json")
                if changes is not None:
                    self._store.write(f"{version.stem}.changes.json", changes)
        data = origin.read_if_exists(f"{name}.versions.json")
        if data is not None:
            self._store.write(f"{name}.versions.json", data)
        if history is not None:
            history.write(self._store, name)
        self._write_version(origin, last)
        set_key = f"tilematrixsets/{last.descriptor['tile_matrix_set']}.json"
        data = origin.read_if_exists(set_key)
        if data is not None:
            self._store.write(set_key, data)
        data = origin.read_if_exists(f"{name}.layer.json")
        if data is not None:
            layer = json.loads(data)
            for pyramid in layer.get("pyramids", ()):
                if posixpath.basename(pyramid.get("path", "")) == f"{name}.json":
                    pyramid["path"] = self._target.path(f"{name}.json")
            self._store.write(f"{name}.layer.json", _text(layer))
        renew_stacks(self._store, name)

    def _write_version(self, origin: OutputStore, version: _Version) -> str:
        """Write the documents of a version; return its generation in the target."""
        slabs = [one for one in self._keys if one.root == version.root]
        copied = {one: self._journal.get(self._key(one)) for one in slabs}
        data = origin.read_if_exists(f"{version.stem}.build.json")
        record = None if data is None else Record.parse(data, f"{version.stem}.build.json")
        if record is not None:
            self._compare(record, version, copied)
            roots = {one.root for one in self._versions}
            kept = [
                one._replace(holder=one.holder if one.holder in roots else None)
                for one in record.slabs
            ]
            record = Record({**record.facts, "root": version.root}, tuple(kept))
        self._write_numbers(origin, version, copied)
        copied = {one: slab for one, slab in copied.items() if one.kind != SOURCE}
        listed = origin.read_if_exists(f"{version.stem}.list")
        if listed is not None or not self._target.is_local:
            text = self._list(version, copied, with_md5=_has_md5(listed or b""))
            self._store.write(f"{version.stem}.list", text)
        if record is not None:
            self._store.write(f"{version.stem}.build.json", record.text())
        descriptor = json.loads(json.dumps(version.descriptor))
        packed = any("index_prefix" in level["storage"] for level in descriptor["levels"])
        for level in descriptor["levels"]:
            level["storage"] = self._level_storage(version.root, level)
        if packed and not self._target.is_local:
            write_packs(self._store, self._target, descriptor, {})
        self._store.write(f"{version.stem}.json", _text(descriptor))
        return digest_of(descriptor)

    def _write_numbers(
        self, origin: OutputStore, version: _Version, copied: dict[_Slab, CopiedSlab | None]
    ) -> None:
        """Write the documents about the sources of a version, if it has source numbers."""
        record = read_source_record(origin, version.stem)
        if version.numbers is None or record is None:
            return
        roots = {one.root for one in self._versions}
        slabs = {
            place: one._replace(holder=one.holder if one.holder in roots else None)
            for place, one in record.slabs.items()
        }
        for place, slab in slabs.items():
            one = copied.get(_Slab(version.root, SOURCE, *place))
            if one is None or (one.md5 and one.md5 != slab.md5):
                raise VerificationError(
                    f"the slab of source numbers {'/'.join(map(str, place))} is missing, or "
                    f"differs from {version.stem}{SUMS}"
                )
        text = replace(record, root=version.root, slabs=slabs).text()
        self._store.write(f"{version.stem}{SUMS}", text)
        of_numbers = {one: slab for one, slab in copied.items() if one.kind == SOURCE}
        self._store.write(f"{version.stem}{LIST}", self._list(version, of_numbers, with_md5=False))
        descriptor = json.loads(json.dumps(version.numbers))
        for level in descriptor["levels"]:
            level["storage"] = self._level_storage(version.root, level, {"image": SOURCE})
        self._store.write(f"{version.stem}{PYRAMID}", _text(descriptor))
        self._store.write(f"{version.stem}{TABLE}", origin.read(f"{version.stem}{TABLE}"))

    def _compare(
        self, record: Record, version: _Version, copied: dict[_Slab, CopiedSlab | None]
    ) -> None:
        for slab in record.stored():
            one = copied.get(_Slab(version.root, "DATA", slab.level, slab.column, slab.row))
            if one is None:
                raise VerificationError(
                    f"the slab {slab.level}/{slab.column}/{slab.row} of the build record is missing"
                )
            if one.md5 and slab.md5 and one.md5 != slab.md5:
                raise VerificationError(
                    f"the slab {slab.level}/{slab.column}/{slab.row} differs from the build record"
                )

    def _list(
        self, version: _Version, copied: dict[_Slab, CopiedSlab | None], *, with_md5: bool
    ) -> bytes:
        held = {one.holder for one in copied.values() if one is not None}
        roots = [version.root, *sorted(held - {version.root})]
        numbers = {root: number for number, root in enumerate(roots)}
        lines = []
        for slab in sorted(copied):
            one = copied[slab]
            assert one is not None
            line = self._key(slab).removeprefix(f"{slab.root}/")
            if with_md5 and one.md5 and slab.kind == "DATA":
                line += f" {one.md5}"
            lines.append((numbers[one.holder], line))
        return slab_list(list(map(self._target.listed, roots)), lines).encode()

    def _level_storage(
        self, root: str, level: dict[str, Any], names: Mapping[str, str] = _NAMES
    ) -> dict[str, Any]:
        """Return the object ``storage`` of a level in the target (pyramid.md section 2.4)."""
        kinds = ["image"]
        if {"mask_directory", "mask_prefix"} & level["storage"].keys():
            kinds.append("mask")
        storage: dict[str, Any] = {"type": self._target.storage.upper()}
        if self._target.is_local:
            storage["path_depth"] = _PATH_DEPTH
            for kind in kinds:
                storage[f"{kind}_directory"] = f"{root}/{names[kind]}/{level['id']}"
            return storage
        if self._target.container_field is not None:
            storage[self._target.container_field] = self._target.container.partition("@")[0]
        for kind in kinds:
            storage[f"{kind}_prefix"] = self._target.key(f"{root}/{names[kind]}_{level['id']}")
        return storage


class _Pace:
    """Slows a copy down to a number of bytes per second."""

    def __init__(self, rate: float | None) -> None:
        self._rate = rate
        self._lock = threading.Lock()
        self._free = time.monotonic()

    def spend(self, size: int) -> None:
        """Wait until some more bytes are within the rate."""
        if self._rate is None:
            return
        with self._lock:
            now = time.monotonic()
            begin = max(now, self._free)
            self._free = begin + size / self._rate
        time.sleep(begin - now)


def _has_md5(text: bytes) -> bool:
    lines = text.decode("utf-8", "replace").split("#\n", 1)
    return len(lines) == 2 and " " in lines[1].partition("\n")[0].strip()


def _text(document: dict[str, Any]) -> bytes:
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()
