"""Index packs: the indices of up to 4096 slabs in one object, for servers."""

from __future__ import annotations

import json
import posixpath
from collections import defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, NamedTuple

from mastaba.api.catalogue import digest_of
from mastaba.api.slabs import HEADER_SIZE, SIGNATURE
from mastaba.tooling.slabs import index_length
from mastaba_build.errors import PlanError
from mastaba_build.output.destination import Destination
from mastaba_build.output.history import Note
from mastaba_build.output.lock import locked
from mastaba_build.output.stacks import renew_stacks
from mastaba_build.output.storage import OutputStore
from mastaba_build.output.versions import (
    keep_documents,
    open_history,
    publish_version,
    published,
    read_versions,
)
from mastaba_writer.index_packs import (
    IndexRecord,
    PackLayout,
    encode_index,
    join_record,
    make_pack,
    read_pack,
)

_REQUESTS = 32
"""Slabs that are read at a time."""
_TIFF = b"II*\0"

_Slab = tuple[int, int]


class Packed(NamedTuple):
    """Numbers of packs that were written, of slabs in them, and of slabs that were read."""

    packs: int
    slabs: int
    read: int


def pack_pyramid(store: OutputStore, output: Destination, name: str) -> Packed:
    """Write the index packs of the published version of a pyramid; its descriptor names them.

    Args:
        store: the output, opened.
        output: the same.

    Raises:
        BuildError: the pyramid does not exist or is not in an object store, a document is damaged,
            or the output cannot be used.
    """
    if output.is_local:
        raise PlanError("index packs are for object stores; a server reads the slabs of files")
    if store.stat(f"{name}.json") is None:
        raise PlanError(f"{output.path(f'{name}.json')} does not exist")
    with locked(store, f"{name}.lock"):
        number, history = None, None
        # Pyramids of other tools have no record, and no versions.
        if store.stat(f"{name}.build.json") is not None:
            versions = read_versions(store, name)
            number = published(store, name, versions).number
            keep_documents(store, name, number)
            history = open_history(store, name, versions)
        key = f"{name}.json" if number is None else f"{name}_{number}.json"
        try:
            descriptor = json.loads(store.read(key))
            found = write_packs(store, output, descriptor, {})
        except (ValueError, KeyError, TypeError) as error:
            raise PlanError(f"{output.path(key)} is not a pyramid descriptor: {error}") from None
        store.write(key, (json.dumps(descriptor, indent=2, ensure_ascii=False) + "\n").encode())
        if number is not None and history is not None:
            entry = {**history.versions[str(number)], "generation": digest_of(descriptor)}
            history.set_version(number, entry)
            publish_version(store, name, number, Note("pack"), history)
        else:
            renew_stacks(store, name)
        return found


def write_packs(
    store: OutputStore, output: Destination, descriptor: Mapping[str, Any], links: Mapping[str, str]
) -> Packed:
    """Write the index packs of all levels, and name them in the descriptor.

    Only slabs that have changed since they were last packed are read; storages that do not list
    versions have all of them read. Slabs in other containers, and those of stores without versions,
    are left out: a server reads their index from the slab.

    Args:
        links: keys of links and of their targets in the output, if they are known.

    Raises:
        OutputError: a slab cannot be read, or a pack written.
        KeyError, TypeError: the descriptor is incomplete.
    """
    total = Packed(0, 0, 0)
    with ThreadPoolExecutor(_REQUESTS) as threads:
        for level in descriptor["levels"]:
            images = level["storage"]["image_prefix"]
            prefix = posixpath.join(posixpath.dirname(images), f"INDEX_{level['id']}")
            count = level["tiles_per_width"] * level["tiles_per_height"]
            written = _Level(store, output, images, level["id"], count, links).write(threads)
            level["storage"]["index_prefix"] = prefix
            total = Packed(*map(sum, zip(total, written, strict=True)))
    return total


def has_packs(store: OutputStore, key: str) -> bool:
    """Return whether a descriptor exists and names index packs. Raises OutputError."""
    with suppress(ValueError, KeyError, TypeError):
        levels = json.loads(store.read_if_exists(key) or b"{}").get("levels", ())
        return any("index_prefix" in level["storage"] for level in levels)
    return False


def _relative(output: Destination, key: str) -> str:
    """Return a key of the container relative to the output."""
    return posixpath.relpath(key, output.prefix) if output.prefix else key


class _Level:
    """The slabs of one level.

    Args:
        images: start of their keys in the container.
        identifier: of the level.
        tile_count: tiles of a slab.
        links: as for `write_packs`.
    """

    def __init__(
        self,
        store: OutputStore,
        output: Destination,
        images: str,
        identifier: str,
        tile_count: int,
        links: Mapping[str, str],
    ) -> None:
        self._store = store
        self._output = output
        self._images = f"{_relative(output, images)}_"
        self._identifier = identifier
        self._links = links
        self._layout = PackLayout.of(tile_count)
        self._length = index_length(tile_count)
        self._listings: dict[str, dict[str, str | None]] = {}
        # The packs of one position at a time, by the start of the keys of their slabs.
        self._packs: dict[str, dict[_Slab, IndexRecord]] = {}

    def write(self, threads: ThreadPoolExecutor) -> Packed:
        """Write the packs, and delete those from earlier that have no slabs any more."""
        outdated = set(self._store.list(self._packs_of(self._images)))
        groups: dict[tuple[int, int], list[_Slab]] = defaultdict(list)
        for slab in self._slabs():
            groups[self._layout.pack_of(*slab)].append(slab)
        total = Packed(0, 0, 0)
        for pack, members in groups.items():
            self._packs.clear()
            found = {slab: self._packed(slab) for slab in members}
            changed = [slab for slab, record in found.items() if record is None]
            found.update(zip(changed, threads.map(self._read, changed), strict=True))
            records = {
                slab: data
                for slab, record in found.items()
                if record is not None and (data := join_record(*slab, record)) is not None
            }
            total = Packed(total.packs, total.slabs, total.read + len(changed))
            if records:
                key = f"{self._packs_of(self._images)}{pack[0]}_{pack[1]}"
                self._store.write(key, make_pack(self._layout, pack, records))
                outdated.discard(key)
                total = Packed(total.packs + 1, total.slabs + len(records), total.read)
        for key in outdated:
            self._store.delete(key)
        return total

    def _slabs(self) -> Iterator[_Slab]:
        """Yield column and row of the objects whose keys are those of slabs."""
        for key in self._versions(self._images):
            column, _, row = key.removeprefix(self._images).partition("_")
            if column.isdecimal() and row.isdecimal():
                yield int(column), int(row)

    def _packed(self, slab: _Slab) -> IndexRecord | None:
        """Return the record of a slab from packs; None if it has changed since, or is unknown."""
        key = f"{self._images}{slab[0]}_{slab[1]}"
        version = self._versions(self._images)[key]
        if version is None:
            return None
        own = self._records(self._images, slab).get(slab)
        target = self._links.get(key)
        if target is None and own is not None and own.link_version == version:
            target = self._relative_target(own.target)
        if target is None:
            return own if own is not None and not own.target and own.version == version else None
        end = f"{slab[0]}_{slab[1]}"
        if not target.endswith(f"_{end}"):
            return None
        images = target.removesuffix(end)
        current = self._versions(images).get(target)
        for record in (own, self._records(images, slab).get(slab)):
            if record is not None and record.version == current:
                return record._replace(target=self._full_target(target), link_version=version)
        return None

    def _versions(self, images: str) -> dict[str, str | None]:
        """Return the versions of all objects whose keys begin alike."""
        if images not in self._listings:
            self._listings[images] = dict(self._store.list_versions(images))
        return self._listings[images]

    def _records(self, images: str, slab: _Slab) -> dict[_Slab, IndexRecord]:
        """Return the records in the pack of a slab, which is beside the slabs of its level."""
        if images not in self._packs:
            pack = self._layout.pack_of(*slab)
            data = self._store.read_if_exists(f"{self._packs_of(images)}{pack[0]}_{pack[1]}")
            self._packs[images] = read_pack(data or b"", self._layout, pack)
        return self._packs[images]

    def _packs_of(self, images: str) -> str:
        return posixpath.join(posixpath.dirname(images), f"INDEX_{self._identifier}_")

    def _full_target(self, key: str) -> str:
        return f"{self._output.container.partition('@')[0]}/{self._output.key(key)}"

    def _relative_target(self, target: str) -> str | None:
        """Return the key of a target in the output; None if it is in another container."""
        container, _, key = target.partition("/")
        is_here = container == self._output.container.partition("@")[0]
        return _relative(self._output, key) if is_here else None

    def _read(self, slab: _Slab) -> IndexRecord | None:
        """Return the record of a slab, read from it; None if a server must read it itself."""
        try:
            read = self._store.read_start(f"{self._images}{slab[0]}_{slab[1]}", self._length)
            target = link_version = ""
            if read.data.startswith(SIGNATURE):
                link_version = read.version or ""
                target = read.data[len(SIGNATURE) :].decode()
                key = self._relative_target(target)
                if not link_version or key is None:
                    return None
                read = self._store.read_start(key, self._length)
        except (FileNotFoundError, ValueError):
            return None
        if read.version is None or len(read.data) < self._length:
            return None
        if not read.data.startswith(_TIFF):
            return None
        index = encode_index(read.data[HEADER_SIZE:])
        return IndexRecord(read.version, read.modified, index, target, link_version)
