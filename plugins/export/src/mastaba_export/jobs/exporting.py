"""The work of a job: an export into its directory."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mastaba.errors import StorageUnavailableError
from mastaba_export.errors import (
    DestinationError,
    ExportTooLargeError,
    InvalidRequestError,
    RemovedUploadError,
    UploadError,
)
from mastaba_export.formats import file_name
from mastaba_export.jobs.job import Job, ResultFile
from mastaba_export.jobs.packing import pack
from mastaba_export.jobs.refusals import DiskFullError
from mastaba_export.jobs.settings import SWITCH, JobSettings, is_offered
from mastaba_export.jobs.worker import LostError, Perform, Report, StoppedError
from mastaba_export.journal import Journal
from mastaba_export.object_store import is_completing, is_uploaded, upload
from mastaba_export.output import discard
from mastaba_export.plan import plan
from mastaba_export.request import ExportRequest
from mastaba_export.run import run

if TYPE_CHECKING:
    from mastaba.api.services import Site
    from mastaba_export.jobs.remote import RemoteResults
    from mastaba_export.object_store import ObjectTarget
    from mastaba_export.plan import ExportPlan
    from mastaba_export.run import Progress


FILE_TYPES: Final[Mapping[str, str]] = {
    "cog": "image/tiff; application=geotiff; profile=cloud-optimized",
    "tif": "image/tiff; application=geotiff",
    "pmtiles": "application/vnd.pmtiles",
    "mbtiles": "application/vnd.mapbox-mbtiles",
    "gpkg": "application/geopackage+sqlite3",
    "dir": "application/zip",
    "pyramid": "application/zip",
}
"""Media types of the results of jobs by format. Each is one file."""

PACKED: Final = frozenset({"dir", "pyramid"})
"""Formats of many files, which become a ZIP file."""


def remote_results(site: Site, settings: JobSettings) -> RemoteResults | None:
    """Return where results are objects; None if they are files.

    Raises:
        DestinationError: the setting cannot be used.
    """
    if not settings.results:
        return None
    from mastaba_export.jobs.remote import RemoteResults

    return RemoteResults(settings.results, site.catalogue.storages.driver)


def exporting(site: Site, settings: JobSettings) -> Perform:
    """Return what exports the layers of a site.

    Args:
        site: gives the layers.
        settings: limits. An export whose estimate was too low ends at the limit.
    """
    remote = remote_results(site, settings)

    @_tried_again(UploadError)
    def perform(job: Job, folder: str, report: Report) -> Sequence[ResultFile]:
        layer = site.catalogue.layers.get(job.order.layer)
        if layer is None or SWITCH in layer.hidden_from or not is_offered(layer):
            raise InvalidRequestError("the layer is no longer offered", "layer")
        wanted = ExportRequest.from_inputs(job.order.inputs)
        planned = plan(wanted, site, names_sources=job.order.names_sources)
        is_packed = planned.format in PACKED
        name = result_name(planned.layer.key, planned.format)
        path = Path(folder, name)
        store = remote if settings.is_object(job.order) else None
        target = None if store is None else store.target(job.id, name)
        if not is_packed:
            _begin_anew_elsewhere(path, job, remote, is_object=store is not None)
        _begin_anew_if_lost(path, job, store, is_packed=is_packed)
        size = _size(path, job, store)
        if size is None:
            watched = _Watched(report, settings.limits.max_bytes, job)
            with _begins_anew(path, target):
                if is_packed:
                    size = _packed(planned, path, target, watched, settings.rate)
                    return [ResultFile(name, FILE_TYPES[planned.format], size)]
                if planned.digest != job.order.plan:
                    # The layer changed since, so what was written before cannot be continued.
                    discard(path, target)
                result = run(
                    planned,
                    path,
                    resume=True,
                    progress=watched.note,
                    should_stop=watched.should_stop,
                    rate=settings.rate,
                    target=target,
                )
            if not result.is_complete:
                raise watched.reason or StoppedError("the export was stopped")
            size = result.bytes
        return [ResultFile(name, FILE_TYPES[planned.format], size)]

    return perform


def result_name(layer: str, format: str) -> str:
    """Return the name of the file of a job."""
    return f"{file_name(layer, 'dir')}.zip" if format in PACKED else file_name(layer, format)


def _packed(
    planned: ExportPlan,
    path: Path,
    target: ObjectTarget | None,
    watched: _Watched,
    rate: float | None,
) -> int:
    """Write a result of many files; return the bytes of its ZIP file."""
    tree = path.with_name("tree")
    if not path.exists():
        shutil.rmtree(tree, ignore_errors=True)
        tree.mkdir()
        stem = path.stem
        out = tree / (stem if planned.is_directory else f"{stem}.json")
        result = run(
            planned, out, progress=watched.note, should_stop=watched.should_stop, rate=rate
        )
        if not result.is_complete:
            raise watched.reason or StoppedError("the export was stopped")
        pack(tree, path, watched.check)
        shutil.rmtree(tree)
    if target is None:
        return path.stat().st_size
    size = upload(target, path)
    path.unlink()
    return size


def _begin_anew_elsewhere(
    path: Path, job: Job, remote: RemoteResults | None, *, is_object: bool
) -> None:
    """Remove what cannot be continued because the settings have changed since.

    Parts that were uploaded are no longer in the file here, and a file that is complete is not
    that of an object.
    """
    known = path.with_name(f"{path.name}.journal")
    if known.exists() and not is_object:
        with Journal(known) as journal:
            was_object = is_uploaded(journal.state())
        if was_object:
            discard(path, None if remote is None else remote.target(job.id, path.name))
    elif is_object and not known.exists():
        path.unlink(missing_ok=True)


def _begin_anew_if_lost(
    path: Path, job: Job, remote: RemoteResults | None, *, is_packed: bool
) -> None:
    """Remove what an earlier attempt has uploaded if its file here was removed to make room.

    Raises:
        StorageError: the object store cannot be used now.
    """
    known = path.with_name(f"{path.name}.journal")
    part = path if is_packed else path.with_name(f"{path.name}.part")
    if part.exists() or not known.exists():
        return
    with Journal(known) as journal:
        state = journal.state()
    with _tried_again():
        if remote is None:
            is_complete = path.exists()
        else:
            is_complete = is_completing(state) and remote.size(job.id, path.name) is not None
        if is_complete and is_packed:
            # Nothing is left to do, so `_size` finds the object.
            known.unlink()
        if not is_complete and state:
            discard(path, None if remote is None else remote.target(job.id, path.name))


@contextmanager
def _begins_anew(path: Path, target: ObjectTarget | None) -> Iterator[None]:
    """Let the next attempt begin anew if the store has removed the unfinished upload.

    Raises:
        UploadError: instead of RemovedUploadError.
    """
    try:
        yield
    except RemovedUploadError as error:
        discard(path, target)
        # What was uploaded of it has left the disk.
        path.unlink(missing_ok=True)
        raise UploadError(str(error)) from error


@contextmanager
def _tried_again(kind: type[DestinationError] = DestinationError) -> Iterator[None]:
    """Let a job be tried again if its object store cannot be used, as if that were its data.

    Raises:
        StorageUnavailableError: instead of errors of a kind.
    """
    try:
        yield
    except kind as error:
        raise StorageUnavailableError(str(error)) from error


def _size(path: Path, job: Job, remote: RemoteResults | None) -> int | None:
    """Return the bytes of a result that is complete: its worker died before it noted that.

    Raises:
        StorageError: the object store cannot be used now.
    """
    if remote is None:
        return path.stat().st_size if path.exists() else None
    is_begun = path.with_name(f"{path.name}.journal").exists()
    with _tried_again():
        return None if is_begun else remote.size(job.id, path.name)


class _Watched:
    """Watches the progress of one export.

    Attributes:
        reason: why it must stop; None while it need not.
    """

    def __init__(self, report: Report, most_bytes: int, job: Job) -> None:
        self._report = report
        self._most_bytes = most_bytes
        # Of an earlier attempt, until the export says how far it is.
        self._written, self._share = job.checkpoint, job.progress / 100
        self.reason: Exception | None = None

    def note(self, progress: Progress) -> None:
        """Note how far the export is."""
        self._written = progress.bytes
        self._share = progress.units / max(progress.of_units, 1)

    def check(self) -> None:
        """Raise the reason if the work must stop."""
        if self.should_stop():
            raise self.reason or StoppedError("the export was stopped")

    def should_stop(self) -> bool:
        """Return whether the export must stop."""
        try:
            self._report(self._written, self._share)
            if self._written > self._most_bytes:
                text = f"the result is larger than estimated, and the limit is {self._most_bytes}"
                raise ExportTooLargeError(text, self._written, self._most_bytes)
        except (StoppedError, LostError, DiskFullError, ExportTooLargeError) as error:
            self.reason = error
        return self.reason is not None
