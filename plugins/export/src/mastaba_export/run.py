"""Running an export: reading ahead, writing, checkpoints, and resuming after a kill."""

from __future__ import annotations

import shutil
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from mastaba.errors import ObjectChangedError
from mastaba_export.errors import (
    DataChangedError,
    DestinationError,
    EmptyExportError,
    ExportTooLargeError,
    InterruptedExportError,
    InvalidRequestError,
    WriteError,
)
from mastaba_export.journal import Journal
from mastaba_export.object_store import Upload, is_uploaded
from mastaba_export.output import Output, discard
from mastaba_export.sources import UNKNOWN, StoredTiles
from mastaba_server.threads.pace import Pace

if TYPE_CHECKING:
    from mastaba_export.object_store import ObjectTarget
    from mastaba_export.plan import ExportPlan, Unit
    from mastaba_export.sources import Batch
    from mastaba_export.writers.base import Writer

_REPEATED: Final = 64 * 1024 * 1024
"""Bytes that are read again after a kill at most, if units are not larger."""
_CHECKPOINT_BYTES: Final = 32 * 1024 * 1024
"""Bytes that are written after a checkpoint at most; the rest of these is read ahead."""
_CHECKPOINT_SECONDS: Final = 5.0
_HORIZON: Final = 1024
"""Units that are written after a checkpoint at most."""
_MOST_AHEAD: Final = 3
"""Units that are read while one is written."""
_FURTHER: Final = 4
"""Times as many are read from a storage behind a network, as long as they are small."""
_READING: Final = 32 * 1024 * 1024
"""Bytes of units that are being read, as expected from the largest tiles before: about three times
as much memory is held meanwhile."""
_FEW: Final = 4
"""Tiles; a unit with fewer says almost nothing of others."""
_LEAST_FREE: Final = 256 * 1024 * 1024
"""Bytes of the file system that stay free."""
_STATS: Final = 16

_WRITERS: Final = {
    "pmtiles": "pmtiles:PMTilesWriter",
    "mbtiles": "mbtiles:MBTilesWriter",
    "gpkg": "geopackage:GeoPackageWriter",
    "dir": "directory:DirectoryWriter",
    "pyramid": "pyramid:PyramidWriter",
    "tif": "coverage:coverage_writer",
    "cog": "coverage:coverage_writer",
}


class Progress(NamedTuple):
    """How far an export is.

    Attributes:
        units: slabs, also of masks, or blocks done.
        of_units: all of them.
        tiles: tiles written.
        bytes: bytes of their payloads, and of those of masks.
    """

    units: int
    of_units: int
    tiles: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Result:
    """What an export has written.

    Attributes:
        path: of the output; while it is not complete, where it will be.
        tiles: number of tiles.
        payload_bytes: bytes of their payloads, and of those of masks; equal ones may be written
            once.
        bytes: of the output.
        seconds: of this run.
        is_complete: whether all is written; if not, the export can be resumed.
        changed: slabs that were replaced after some of their tiles had been written.
    """

    path: Path
    tiles: int
    payload_bytes: int
    bytes: int
    seconds: float
    is_complete: bool = True
    changed: tuple[str, ...] = ()


def run(
    plan: ExportPlan,
    destination: str | Path,
    *,
    resume: bool = False,
    progress: Callable[[Progress], object] | None = None,
    should_stop: Callable[[], bool] | None = None,
    rate: float | None = None,
    threads: int = 4,
    allow_changes: bool = False,
    target: ObjectTarget | None = None,
) -> Result:
    """Write an export to OUT.part, and rename it to OUT when all of it is there.

    Args:
        destination: path of the output.
        resume: go on with an interrupted export; if there is none, begin.
        progress: called after each unit.
        should_stop: asked before each unit; if it returns true, the export stops and can be
            resumed.
        rate: bytes that are read per second; None for no limit.
        threads: units that are read at a time.
        allow_changes: go on if slabs were replaced after some of their tiles had been written.
        target: object that the output becomes, instead of a file; its parts are uploaded while
            others are written.

    Raises:
        DataChangedError: slabs were replaced.
        DestinationError: the output exists, cannot be written, or belongs to another export.
        InvalidRequestError: what was requested cannot be made of these tiles.
        SlabFormatError, StorageError: the layer cannot be read. What is written can be resumed.
    """
    out = Output.of(plan, destination)
    if target is not None and plan.format in ("dir", "pyramid"):
        raise DestinationError(
            f"{plan.format} is many files: write it to a directory; mastaba pyramid copy copies "
            "pyramids to object stores"
        )
    out.prepare(resume=resume)
    with ExitStack() as stack:
        journal = stack.enter_context(Journal(out.journal))
        state = journal.state()
        if state.get("digest", plan.digest) != plan.digest:
            raise DestinationError(
                f"{out.part.name} belongs to an export with other inputs, or of other data or "
                "styles; remove it and its journal, or give the same options"
            )
        if target is None and is_uploaded(state):
            # Parts that were uploaded are no longer in the file.
            raise DestinationError(
                f"{out.part.name} belongs to an export to an object store; give the same output, "
                "or remove it and its journal"
            )
        upload = None if target is None else Upload(target, out.part, journal)
        if upload is not None:
            stack.enter_context(closing(upload))
            upload.restore(state)
        how: dict[str, Any] = {"threads": threads, "rate": rate, "allow_changes": allow_changes}
        try:
            runner = _Run(plan, out, journal, upload, **how)
            result = runner.run(state, progress, should_stop)
        except (EmptyExportError, ExportTooLargeError):
            if upload is not None:
                upload.abandon()
            discard(out.path)
            raise
        except (DestinationError, InvalidRequestError):
            if not journal.state():
                # Nothing was begun.
                discard(out.path)
            raise
        except OSError as error:
            raise WriteError(f"the output cannot be written: {error}") from error
    if result.is_complete:
        out.journal.unlink(missing_ok=True)
    return result


class _Run:
    def __init__(
        self,
        plan: ExportPlan,
        out: Output,
        journal: Journal,
        upload: Upload | None,
        *,
        threads: int,
        rate: float | None,
        allow_changes: bool,
    ) -> None:
        self._plan = plan
        self._out = out
        self._journal = journal
        self._upload = upload
        self._threads = max(threads, 1)
        self._pace = Pace(rate)
        self._allow_changes = allow_changes
        module, _, name = _WRITERS[plan.format].partition(":")
        make: Any = getattr(import_module(f"mastaba_export.writers.{module}"), name)
        self._writer: Writer = make(plan, out.part, journal)
        self._next = self._tiles = self._payload = 0
        self._since, self._committed = 0, time.monotonic()
        self._begin = time.monotonic()

    def run(
        self,
        state: dict[str, Any],
        progress: Callable[[Progress], object] | None,
        should_stop: Callable[[], bool] | None,
    ) -> Result:
        if "finished" in state and (self._upload is not None or self._is_published()):
            self._load(state)
            return self._published(tuple(state["finished"]))
        with closing(self._writer):
            if self._upload is not None and not is_uploaded(state):
                self._upload.start(int(self._plan.estimate()["bytes"]))
            if "writer" in state:
                self._restore(state)
            else:
                self._writer.start()
                self._commit()
            changed = self._changed(resumed=True) if "writer" in state else ()
            is_stopped = self._write(progress, should_stop)
            if is_stopped:
                self._commit()
                return self._result((), is_complete=False)
            self._commit()
            if not self._tiles:
                raise EmptyExportError("no tile is stored in the area")
            changed = tuple(dict.fromkeys((*changed, *self._changed(resumed=False))))
            self._writer.should_stop = should_stop
            try:
                self._writer.finish(changed)
            except InterruptedExportError:
                return self._result((), is_complete=False)
            self._journal.commit({"finished": list(changed)})
        return self._published(changed)

    def _is_published(self) -> bool:
        return not self._out.part.exists() and self._out.path.exists()

    def _published(self, changed: tuple[str, ...]) -> Result:
        """Give the output its name, or complete its object."""
        if self._upload is not None:
            size = self._upload.complete()
            self._out.part.unlink(missing_ok=True)
        else:
            if not self._is_published():
                self._out.publish()
            size = self._writer.size(self._out.path)
        self._writer.clean()
        return self._result(changed, size)

    def _result(
        self, changed: tuple[str, ...], size: int = 0, *, is_complete: bool = True
    ) -> Result:
        return Result(
            self._out.path,
            self._tiles,
            self._payload,
            size,
            round(time.monotonic() - self._begin, 3),
            is_complete,
            changed,
        )

    def _load(self, state: dict[str, Any]) -> None:
        self._next, self._tiles = state["next"], state["tiles"]
        self._payload = state["payload"]

    def _restore(self, state: dict[str, Any]) -> None:
        self._load(state)
        if self._upload is not None:
            self._writer.kept_from = self._upload.kept_from
        self._writer.restore(state["writer"])
        self._writer.undo(islice(self._units(self._next), _HORIZON))

    def _units(self, first: int) -> Iterator[Unit]:
        return map(self._writer.unit, range(first, self._writer.count))

    def _commit(self) -> None:
        state = self._writer.sync()
        self._journal.commit(
            {
                "digest": self._plan.digest,
                "next": self._next,
                "tiles": self._tiles,
                "payload": self._payload,
                "writer": state,
            }
        )
        if self._upload is not None:
            self._upload.advance(*self._writer.final())
        self._since, self._committed = 0, time.monotonic()

    def _write(
        self,
        progress: Callable[[Progress], object] | None,
        should_stop: Callable[[], bool] | None,
    ) -> bool:
        """Write all units from the next one on; return whether the export was stopped."""
        count, first = self._writer.count, self._next
        self._check_space()
        for number, (unit, batch) in enumerate(self._batches(first), first):
            if should_stop is not None and should_stop():
                return True
            self._pace.spend(batch.read, should_stop)
            size = batch.payload if batch.whole is None else len(batch.whole)
            size = max(size, batch.read)
            if self._since and self._since + size > _CHECKPOINT_BYTES:
                self._commit()
            self._writer.add(unit, batch)
            self._journal.note_slab(number, batch.version)
            self._next = number + 1
            self._tiles += batch.count
            self._payload += batch.payload
            self._since += size
            if progress is not None:
                progress(Progress(self._next, count, self._tiles, self._payload))
            if (
                self._since >= _CHECKPOINT_BYTES
                or time.monotonic() - self._committed >= _CHECKPOINT_SECONDS
                or (self._next - first) % _HORIZON == 0
            ):
                self._commit()
                self._check_space()
        return False

    def _batches(self, first: int) -> Iterator[tuple[Unit, Batch]]:
        """Yield units and what was read of them; some are read ahead."""
        units = self._units(first)
        most = min(self._threads, _MOST_AHEAD)
        if any(_is_distant(level.source) for level in self._plan.levels):
            most = self._threads * _FURTHER
        # The first ones may be smaller than the others.
        ahead, largest, sizes = 1, 1, _TileSizes()
        waiting: deque[tuple[Unit, int, Future[Batch]]] = deque()
        pool = ThreadPoolExecutor(max(self._threads, most), "mastaba-export")
        try:
            following = next(units, None)
            while True:
                reading = sum(tiles for _, tiles, future in waiting if not future.done())
                while following is not None and len(waiting) < ahead:
                    tiles = self._writer.tiles_of(following)
                    if reading and (reading + tiles) * sizes.largest > _READING:
                        break
                    reading += tiles
                    future = pool.submit(self._writer.fetch, following)
                    waiting.append((following, tiles, future))
                    following = next(units, None)
                if not waiting:
                    return
                unit, tiles, future = waiting.popleft()
                batch = future.result()
                largest = max(largest, batch.read)
                sizes.add(batch, tiles)
                left = max(_REPEATED - max(_CHECKPOINT_BYTES, largest), 0)
                ahead = min(1 + left // largest, 2 * ahead, most)
                yield unit, batch
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _check_space(self) -> None:
        if shutil.disk_usage(self._out.path.parent).free < _LEAST_FREE:
            raise WriteError("the file system is nearly full: make room")

    def _changed(self, *, resumed: bool) -> tuple[str, ...]:
        """Return the slabs that were replaced since their tiles were written.

        Raises:
            DataChangedError: there are some, and that is not allowed.
        """
        written = [(unit, version) for unit, version in self._journal.slabs() if version != UNKNOWN]

        def name_if_changed(entry: tuple[int, str]) -> str | None:
            unit = self._plan.unit(entry[0])
            level = self._plan.levels[unit.level]
            source = level.source
            if not isinstance(source, StoredTiles):
                return None
            try:
                # Of many slabs, most indices are no longer known.
                if source.has_version(unit.row, unit.column, entry[1]):
                    return None
                if resumed:
                    source.forget(unit.row, unit.column)
                now = source.current_version(unit.row, unit.column)
            except ObjectChangedError:
                now = None
            if now == entry[1]:
                return None
            return f"{level.matrix.id}/{unit.column}/{unit.row}"

        with ThreadPoolExecutor(_STATS) as pool:
            found = tuple(name for name in pool.map(name_if_changed, written) if name is not None)
        if found and not self._allow_changes:
            listed = ", ".join(found[:3]) + (", …" if len(found) > 3 else "")
            raise DataChangedError(
                f"the data changed while it was exported (slabs {listed}); remove the output and "
                "export it again, or add --allow-changes"
            )
        return found


class _TileSizes:
    """The largest mean size of the tiles of a unit, for how much further units may be.

    Units with very few tiles, as those of the coarsest levels, count only until others are known.

    Attributes:
        largest: bytes; 0 at first.
    """

    def __init__(self) -> None:
        self.largest = 0.0
        self._are_few = True

    def add(self, batch: Batch, tiles: int) -> None:
        """Note what was read of a unit, which may have so many tiles."""
        are_few = min(batch.count, tiles) < _FEW
        if not batch.read or (are_few and not self._are_few):
            return
        mean = batch.read / max(min(batch.count or tiles, tiles), 1)
        self.largest = mean if self._are_few and not are_few else max(self.largest, mean)
        self._are_few = are_few


def _is_distant(source: object) -> bool:
    """Return whether tiles are read through a network, and nothing else takes time."""
    return isinstance(source, StoredTiles) and source.reader.storage.is_remote
