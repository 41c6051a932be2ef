"""From inputs to an accepted job: plan, estimate, limits, queue."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from mastaba.api.web import printable
from mastaba.errors import (
    InvalidParameterError,
    MissingParameterError,
    OverloadedError,
    RequestError,
)
from mastaba_export.errors import ExportTooLargeError, InvalidRequestError
from mastaba_export.formats import UPLOADED
from mastaba_export.jobs.exporting import PACKED
from mastaba_export.jobs.job import Order
from mastaba_export.jobs.owners import is_principal
from mastaba_export.jobs.refusals import TooLargeError
from mastaba_export.jobs.results import check_room, clean
from mastaba_export.plan import plan
from mastaba_export.request import ExportRequest
from mastaba_export.service.shown import check_open, is_whole, public_view, shows_sources
from mastaba_server.cancellation import aside

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mastaba.api.services import Site
    from mastaba_export.jobs.job import Job
    from mastaba_export.jobs.queue import Queue
    from mastaba_export.jobs.results import Results
    from mastaba_export.jobs.settings import Limits
    from mastaba_export.plan import ExportPlan
    from mastaba_export.service.processes import Process

_AT_A_TIME: Final = 2
"""Estimates that a process makes at a time: each reads many indices."""
_RETRY_AFTER: Final = 5


class Orders:
    """Makes estimates, and accepts jobs.

    Args:
        site: gives the layers.
        offered: layers that are offered, by process.
        queue: gets the jobs.
        results: their directories.
    """

    def __init__(
        self, site: Site, offered: Mapping[str, frozenset[str]], queue: Queue, results: Results
    ) -> None:
        self._site = site
        self._offered = offered
        self._queue = queue
        self._results = results
        self._places = threading.BoundedSemaphore(_AT_A_TIME)

    def order(self, process: Process, inputs: Mapping[str, Any], owner: str) -> Order:
        """Return what the inputs mean, with its estimate; nothing is queued.

        Raises:
            RequestError: an input is missing or invalid, or the export is too large.
            AccessError: the data of the layer need another credential.
            OverloadedError: too many estimates are being made.
            StorageError: the indices cannot be read.
        """
        for name in inputs:
            if name not in process.inputs:
                text = f"the process {process.id} has no input {printable(name)}"
                raise InvalidParameterError(text, printable(name))
        layer = inputs.get("layer")
        if layer is None:
            raise MissingParameterError("the input layer is missing", "layer")
        base = self._base(layer, process)
        check_open(str(layer), base, self._site)
        format = inputs.get("format", process.formats[0])
        if not isinstance(format, str) or format not in process.formats:
            text = f"format must be one of {', '.join(process.formats)}"
            raise InvalidParameterError(text, "format")
        with self._place(), _as_request_errors():
            wanted = ExportRequest.from_inputs({**inputs, "format": format})
            # The worker sees the whole site.
            names_sources = shows_sources(str(layer), base, self._site)
            planned = plan(wanted, self._site, names_sources=names_sources)
            if planned.coverage is not None:
                # All its tiles are in the head of the file, for which indices are read first.
                known = {name: {"tiles": tiles} for name, tiles in planned.raster_tiles.items()}
                size = {"bytes": 0, "tiles": planned.tiles, "pixels": _pixels(planned, known)}
                check_size(size, self._queue.settings.limits)
            estimate = planned.estimate()
        estimate["pixels"] = _pixels(planned, estimate["levels"])
        return Order(
            owner=owner,
            process=process.id,
            layer=base,
            inputs=wanted.to_inputs(),
            plan=planned.digest,
            estimate=estimate,
            # A directory is there until its ZIP file is complete.
            expected_bytes=int(estimate["bytes"]) * (2 if format in PACKED else 1),
            names_sources=names_sources,
            is_public=self._is_public(str(layer), base, owner, names_sources=names_sources),
        )

    def _is_public(self, name: str, layer: str, owner: str, *, names_sources: bool) -> bool:
        """Return whether everybody may have what an owner orders of a layer."""
        if not self._queue.settings.results_url or is_principal(owner):
            return False
        view = public_view(name, layer, self._site)
        return view is not None and (not names_sources or shows_sources(name, layer, view))

    def _base(self, name: object, process: Process) -> str:
        """Return the identifier of the layer in the name of it, or of a value or version."""
        offered = self._offered[process.id]
        found = name if isinstance(name, str) else ""
        if found and found not in offered and (found not in self._site.catalogue.layers):
            try:
                found = self._site.catalogue.resolve(found).layer.id
            except RequestError as error:
                found = found.partition("~")[0].partition(";")[0]
                if found in offered:
                    raise InvalidParameterError(str(error), "layer") from None
        # What is not offered is unknown, whatever else is wrong.
        if found not in offered or not is_whole(str(name), found, self._site):
            text = f"there is no layer {printable(str(name))} in this process"
            raise InvalidParameterError(text, "layer")
        return found

    def submit(self, order: Order) -> Job:
        """Queue a job that is within the limits.

        Raises:
            TooLargeError: it exceeds one.
            TooManyError: too many jobs are waiting.
            FullError: there is no room for its result.
            QueueError: the queue cannot be used.
        """
        limits = self._queue.settings.limits
        check_size(order.estimate, limits)
        clean(self._queue, self._results)
        is_uploaded = self._queue.settings.is_object(order) and order.inputs["format"] in UPLOADED
        check_room(self._results, 0 if is_uploaded else order.expected_bytes)
        return self._queue.submit(order, limits.directory_bytes)

    @contextmanager
    def _place(self) -> Iterator[None]:
        if not self._places.acquire(blocking=False):
            raise OverloadedError("too many estimates are being made", _RETRY_AFTER)
        try:
            # Another thread answers requests meanwhile.
            with aside():
                yield
        finally:
            self._places.release()


@contextmanager
def _as_request_errors() -> Iterator[None]:
    """Raise errors of exports as those of requests."""
    try:
        yield
    except ExportTooLargeError as error:
        raise TooLargeError(str(error), {"size": error.size, "limit": error.limit}) from error
    except InvalidRequestError as error:
        raise InvalidParameterError(str(error), error.parameter) from error


def _pixels(planned: ExportPlan, levels: Mapping[str, Mapping[str, int]]) -> int:
    """Return the pixels of levels with some tiles; 0 for vectors."""
    if planned.layer.is_vector:
        return 0
    matrices = planned.tile_matrix_set.matrices
    return sum(
        level["tiles"] * matrices[name].tile_width * matrices[name].tile_height
        for name, level in levels.items()
    )


def check_size(estimate: Mapping[str, Any], limits: Limits) -> None:
    """Check an estimate against the limits of one job.

    Raises:
        TooLargeError: it exceeds one.
    """
    for name, limit in (
        ("bytes", limits.max_bytes),
        ("tiles", limits.max_tiles),
        ("pixels", limits.max_pixels),
    ):
        size = int(estimate[name])
        if size > limit:
            text = f"the result would have {size} {name}, and the limit is {limit}"
            raise TooLargeError(text, {name: size, "limit": limit})
