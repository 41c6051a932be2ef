"""Index packs: the indices of up to 4096 slabs in one object, for servers."""

from __future__ import annotations

import json
import posixpath
from collections import defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, NamedTuple

from mastaba.api.slabs import HEADER_SIZE, SIGNATURE, index_length
from mastaba_build.destination import Destination
from mastaba_build.errors import PlanError
from mastaba_build.lock import locked
from mastaba_build.pyramid_versions import publish_version, published, read_versions
from mastaba_build.storage import Place
from mastaba_writer.index_packs import IndexRecord, PackLayout, encode_record, make_pack

_REQUESTS = 32
"""Slabs that are read at a time."""
_TIFF = b"II*\0"


class Packed(NamedTuple):
    """Numbers of packs that were written, and of slabs in them."""

    packs: int
    slabs: int


def pack_pyramid(place: Place, output: Destination, name: str) -> Packed:
    """Write the index packs of the published version of a pyramid; its descriptor names them.

    Args:
        place: the output, opened.
        output: the same.

    Raises:
        BuildError: the pyramid does not exist or is not in an object store, a document is damaged,
            or the output cannot be used.
    """
    if output.is_local:
        raise PlanError("index packs are for object stores; a server reads the slabs of files")
    if place.stat(f"{name}.json") is None:
        raise PlanError(f"{output.path(f'{name}.json')} does not exist")
    with locked(place, f"{name}.lock"):
        number = None
        if place.stat(f"{name}.versions.json") is not None:
            number = published(place, name, read_versions(place, name)).number
        key = f"{name}.json" if number is None else f"{name}_{number}.json"
        try:
            descriptor = json.loads(place.read(key))
            found = write_packs(place, output, descriptor)
        except (ValueError, KeyError, TypeError) as error:
            raise PlanError(f"{output.path(key)} is not a pyramid descriptor: {error}") from None
        place.write(key, (json.dumps(descriptor, indent=2, ensure_ascii=False) + "\n").encode())
        if number is not None:
            publish_version(place, name, number)
        return found


def write_packs(place: Place, output: Destination, descriptor: Mapping[str, Any]) -> Packed:
    """Write the index packs of all levels, and name them in the descriptor.

    Slabs in other containers, and those of stores without versions, are left out: a server reads
    their index from the slab.

    Raises:
        OutputError: a slab cannot be read, or a pack written.
        KeyError, TypeError: the descriptor is incomplete.
    """
    total = Packed(0, 0)
    with ThreadPoolExecutor(_REQUESTS) as threads:
        for level in descriptor["levels"]:
            images = level["storage"]["image_prefix"]
            prefix = posixpath.join(posixpath.dirname(images), f"INDEX_{level['id']}")
            count = level["tiles_per_width"] * level["tiles_per_height"]
            written = _Level(place, output, images, count).write(prefix, threads)
            level["storage"]["index_prefix"] = prefix
            total = Packed(total.packs + written.packs, total.slabs + written.slabs)
    return total


def has_packs(place: Place, key: str) -> bool:
    """Return whether a descriptor exists and names index packs. Raises OutputError."""
    with suppress(ValueError, KeyError, TypeError):
        levels = json.loads(place.read_if_exists(key) or b"{}").get("levels", ())
        return any("index_prefix" in level["storage"] for level in levels)
    return False


def _relative(output: Destination, key: str) -> str:
    """Return a key of the container relative to the output."""
    return posixpath.relpath(key, output.prefix) if output.prefix else key


class _Level:
    """The slabs of one level.

    Args:
        images: start of their keys in the container.
        tile_count: tiles of a slab.
    """

    def __init__(self, place: Place, output: Destination, images: str, tile_count: int) -> None:
        self._place = place
        self._output = output
        self._images = _relative(output, images)
        self._layout = PackLayout.of(tile_count)
        self._length = index_length(tile_count)

    def write(self, prefix: str, threads: ThreadPoolExecutor) -> Packed:
        """Write the packs, and delete those from earlier that have no slabs any more."""
        start = f"{_relative(self._output, prefix)}_"
        outdated = set(self._place.list(start))
        groups: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
        for slab in self._slabs():
            groups[self._layout.pack_of(*slab)].append(slab)
        packs = slabs = 0
        for pack, members in groups.items():
            encoded = zip(members, threads.map(self._record, members), strict=True)
            records = {slab: record for slab, record in encoded if record is not None}
            if records:
                key = f"{start}{pack[0]}_{pack[1]}"
                self._place.write(key, make_pack(self._layout, pack, records))
                outdated.discard(key)
                packs, slabs = packs + 1, slabs + len(records)
        for key in outdated:
            self._place.delete(key)
        return Packed(packs, slabs)

    def _slabs(self) -> Iterator[tuple[int, int]]:
        """Yield column and row of the objects whose keys are those of slabs."""
        for key in self._place.list(f"{self._images}_"):
            column, _, row = key.removeprefix(f"{self._images}_").partition("_")
            if column.isdecimal() and row.isdecimal():
                yield int(column), int(row)

    def _record(self, slab: tuple[int, int]) -> bytes | None:
        """Return the record of a slab; None if a server must read the slab itself."""
        try:
            read = self._place.read_start(f"{self._images}_{slab[0]}_{slab[1]}", self._length)
            target = link_version = ""
            if read.data.startswith(SIGNATURE):
                link_version = read.version or ""
                target = read.data[len(SIGNATURE) :].decode()
                container, _, key = target.partition("/")
                if not link_version or container != self._output.container.partition("@")[0]:
                    return None
                read = self._place.read_start(_relative(self._output, key), self._length)
        except (FileNotFoundError, ValueError):
            return None
        if read.version is None or len(read.data) < self._length:
            return None
        if not read.data.startswith(_TIFF):
            return None
        index = read.data[HEADER_SIZE:]
        return encode_record(
            *slab, IndexRecord(read.version, read.modified, index, target, link_version)
        )
