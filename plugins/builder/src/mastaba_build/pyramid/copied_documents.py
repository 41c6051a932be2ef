"""The documents of a copied pyramid: descriptors, lists, build records, history and the layer."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterable, Sequence
from dataclasses import replace

from mastaba.api.catalogue import digest_of
from mastaba_build.errors import VerificationError
from mastaba_build.output.destination import Destination
from mastaba_build.output.history import History
from mastaba_build.output.packs import write_packs
from mastaba_build.output.records import Record
from mastaba_build.output.source_records import SUMS, read_source_record
from mastaba_build.output.stacks import renew_stacks
from mastaba_build.output.storage import OutputStore
from mastaba_build.plan.names import SOURCE
from mastaba_build.pyramid.copied_versions import Slab, Version, level_storage, slab_key
from mastaba_build.pyramid.copy_journal import CopiedSlab, CopyJournal
from mastaba_build.pyramid.provenance import LIST, PYRAMID, TABLE, text_of
from mastaba_writer.descriptor import slab_list


class DocumentCopier:
    """Writes the documents of a pyramid whose slabs are copied.

    Args:
        target: of the copy.
        store: its storage.
        versions: the published one last.
        slabs: of all versions.
        journal: what was copied.
    """

    def __init__(
        self,
        target: Destination,
        store: OutputStore,
        versions: Sequence[Version],
        slabs: Iterable[Slab],
        journal: CopyJournal,
    ) -> None:
        self._target = target
        self._store = store
        self._versions = versions
        self._slabs = slabs
        self._journal = journal

    def write(self, origin: OutputStore, name: str) -> None:
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
            self._store.write(f"{name}.layer.json", text_of(layer))
        renew_stacks(self._store, name)

    def _write_version(self, origin: OutputStore, version: Version) -> str:
        """Write the documents of a version; return its generation in the target."""
        slabs = [one for one in self._slabs if one.root == version.root]
        copied = {one: self._journal.get(slab_key(self._target, one)) for one in slabs}
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
            level["storage"] = level_storage(self._target, version.root, level)
        if packed and not self._target.is_local:
            write_packs(self._store, self._target, descriptor, {})
        self._store.write(f"{version.stem}.json", text_of(descriptor))
        return digest_of(descriptor)

    def _write_numbers(
        self, origin: OutputStore, version: Version, copied: dict[Slab, CopiedSlab | None]
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
            one = copied.get(Slab(version.root, SOURCE, *place))
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
            level["storage"] = level_storage(self._target, version.root, level, {"image": SOURCE})
        self._store.write(f"{version.stem}{PYRAMID}", text_of(descriptor))
        self._store.write(f"{version.stem}{TABLE}", origin.read(f"{version.stem}{TABLE}"))

    def _compare(
        self, record: Record, version: Version, copied: dict[Slab, CopiedSlab | None]
    ) -> None:
        for slab in record.stored():
            one = copied.get(Slab(version.root, "DATA", slab.level, slab.column, slab.row))
            if one is None:
                raise VerificationError(
                    f"the slab {slab.level}/{slab.column}/{slab.row} of the build record is missing"
                )
            if one.md5 and slab.md5 and one.md5 != slab.md5:
                raise VerificationError(
                    f"the slab {slab.level}/{slab.column}/{slab.row} differs from the build record"
                )

    def _list(
        self, version: Version, copied: dict[Slab, CopiedSlab | None], *, with_md5: bool
    ) -> bytes:
        held = {one.holder for one in copied.values() if one is not None}
        roots = [version.root, *sorted(held - {version.root})]
        numbers = {root: number for number, root in enumerate(roots)}
        lines = []
        for slab in sorted(copied):
            one = copied[slab]
            assert one is not None
            line = slab_key(self._target, slab).removeprefix(f"{slab.root}/")
            if with_md5 and one.md5 and slab.kind == "DATA":
                line += f" {one.md5}"
            lines.append((numbers[one.holder], line))
        return slab_list(list(map(self._target.listed, roots)), lines).encode()


def _has_md5(text: bytes) -> bool:
    lines = text.decode("utf-8", "replace").split("#\n", 1)
    return len(lines) == 2 and " " in lines[1].partition("\n")[0].strip()
