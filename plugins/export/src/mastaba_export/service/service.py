"""The service, which dispatches paths."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from mastaba.api.documents import Fault, Severity
from mastaba.api.services import Download, RootEntry, Service, ServiceSettings, Site
from mastaba.api.web import (
    Document,
    Request,
    Response,
    Streams,
    addressable_response,
    content_disposition,
    preferred_media_type,
    printable,
)
from mastaba.errors import (
    ConfigurationError,
    InvalidParameterError,
    ObjectNotFoundError,
    UnknownPathError,
)
from mastaba_export.errors import DestinationError
from mastaba_export.formats import file_name
from mastaba_export.jobs.exporting import remote_results
from mastaba_export.jobs.job import Job, State, is_identifier
from mastaba_export.jobs.owners import Rate, may_see, owner_of
from mastaba_export.jobs.queue import Queue
from mastaba_export.jobs.refusals import FullError, QueueError, TooLargeError
from mastaba_export.jobs.results import FileBody, Results
from mastaba_export.jobs.settings import (
    LAYER_SCHEMA,
    SETTINGS_SCHEMA,
    SWITCH,
    is_offered,
    job_settings,
)
from mastaba_export.options import command_of
from mastaba_export.service.documents import (
    conformance,
    job_list,
    landing_page,
    results_of,
    status_of,
)
from mastaba_export.service.errors import (
    DismissedError,
    NotReadyError,
    UnknownJobError,
    UnknownProcessError,
    WrongMethodError,
    error_response,
    failed,
    unmet,
)
from mastaba_export.service.inputs import inputs_of
from mastaba_export.service.offers import offers
from mastaba_export.service.openapi import definition
from mastaba_export.service.orders import Orders, check_size
from mastaba_export.service.pages import HEADERS, Pages
from mastaba_export.service.processes import (
    PROCESSES,
    Process,
    description,
    process_address,
    process_list,
)
from mastaba_export.service.shown import check_open, is_whole, shows_sources
from mastaba_ows.links import HTML, JSON, OPENAPI
from mastaba_ows.parameters import whole_number

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer
    from mastaba.api.web import AddressableBody
    from mastaba_export.jobs.job import ResultFile

logger = logging.getLogger("mastaba.export")

_DOCUMENT, _EXECUTE, _ESTIMATE, _JOB, _FILE = "document", "execute", "estimate", "job", "file"
_LISTED: Final = 100
_MOST_LISTED: Final = 1000
_PRIVATE: Final = ("Cache-Control", "private, no-cache")

Page = Callable[[Mapping[str, Any]], str]


class ExportService(Service):
    """Takes orders for exports, and gives their results.

    Raises:
        ConfigurationError: a setting is missing or invalid.
    """

    name = SWITCH
    rank = 60
    title = "Downloads"
    abilities: ClassVar[tuple[str, ...]] = ("downloads",)
    parameters: ClassVar[frozenset[str]] = frozenset(("f", "limit", "offset"))
    operations: ClassVar[tuple[str, ...]] = (_DOCUMENT, _EXECUTE, _ESTIMATE, _JOB, _FILE)
    allowed_methods: ClassVar[tuple[str, ...]] = ("GET", "POST", "DELETE")
    exposed_headers = (
        "Location, Retry-After, Link, Accept-Ranges, Content-Range, Content-Disposition, ETag"
    )
    layer_schema: ClassVar[Mapping[str, Any]] = {SWITCH: LAYER_SCHEMA}
    settings_schema: ClassVar[Mapping[str, Any]] = SETTINGS_SCHEMA

    def __init__(self, settings: ServiceSettings, site: Site) -> None:
        super().__init__(settings, site)
        try:
            own = job_settings(settings.own)
        except ValueError as error:
            raise _fault("gateways", str(error), "write addresses or networks") from error
        if not own.directory:
            raise _fault("directory", "is missing", "name a directory for the queue and results")
        if own.results_url and not own.results:
            problem = "publishes objects, and results are files"
            raise _fault("results_url", problem, "name the container in results, or remove it")
        layers = [
            layer
            for layer in self.published_layers()
            if is_offered(layer) and is_whole(layer.id, layer.id, site)
        ]
        self._offered = {
            process.id: frozenset(layer.id for layer in layers if process.takes(layer))
            for process in PROCESSES.values()
        }
        self._own = own
        self._queue = Queue(own)
        try:
            self._remote = remote_results(site, own)
        except DestinationError as error:
            raise _fault("results", str(error), "name a container that can be written") from error
        self._results = Results(own.directory, is_left_to_workers=bool(own.results))
        self._orders = Orders(site, self._offered, self._queue, self._results)
        self._rate = Rate(own.limits.estimates)
        self._streams = Streams(own.limits.streams)
        self._pages = Pages(settings.endpoint_uri, settings.title)

    def after_fork(self) -> None:
        # An unusable directory is then in the log before the first order.
        self.gauges()

    def close(self) -> None:
        self._queue.close()

    def companions(self) -> Sequence[Callable[[], None]]:
        return [self._work] * self._own.workers

    def _work(self) -> None:
        """Run jobs, in a process of its own."""
        # Loaded here: processes that answer requests run no jobs.
        from mastaba_export.jobs.exporting import exporting
        from mastaba_export.jobs.worker import Worker, be_modest, run_until_stopped

        be_modest(self._own.memory)
        performing = exporting(self.site, self._own)
        run_until_stopped(Worker(self._queue, performing, self._remote))

    def gauges(self) -> Mapping[str, Mapping[str, float]]:
        try:
            counts = self._queue.counts()
        except QueueError as error:
            logger.error("%s", error)
            return {}
        return {
            "jobs": {state.value: count for state, (count, _) in counts.items()},
            "bytes": {state.value: size for state, (_, size) in counts.items()},
        }

    def root_entry(self) -> RootEntry:
        uri = self.settings.endpoint_uri
        return RootEntry(60, "OGCAPIProcesses", "1.0", uri, f"{uri}?f=json", media_type=JSON)

    def page_uri(self) -> str:
        return self.settings.endpoint_uri

    def summary(self) -> Sequence[str]:
        layers = frozenset[str]().union(*self._offered.values())
        workers = self._own.workers or "none, start mastaba export-worker"
        return (
            f"{len(layers)} layers can be exported into {self._own.results or self._own.directory}",
            f"workers: {workers}",
        )

    def downloads(self, layer: Layer) -> list[Download]:
        uri = self.settings.endpoint_uri
        return [
            download
            for process in PROCESSES.values()
            if layer.id in self._offered[process.id]
            for download in offers(process, layer, process_address(process, uri), self.site)
        ]

    def respond(self, request: Request) -> Response:
        """Answer a request.

        Raises:
            UnknownPathError: the path is unknown.
            RequestError: the request is invalid, or exceeds a limit.
            OverloadedError: the server is busy.
            QueueError: the queue cannot be used.
            StorageError: the data cannot be read.
        """
        parts = request.path.split("/")[1:]
        match parts:
            case ["jobs", identifier, "files", name]:
                request.name_operation(_FILE)
                _check_method(request, "GET")
                return self._file(request, identifier, name)
            case ["jobs", *_]:
                request.name_operation(_JOB)
                return self._job_resource(request, parts[1:])
            case ["processes", identifier, "execution"]:
                request.name_operation(_EXECUTE)
                _check_method(request, "POST")
                return self._execute(request, identifier)
            case ["processes", identifier, "estimate"]:
                request.name_operation(_ESTIMATE)
                _check_method(request, "POST")
                return self._estimate(request, identifier)
            case _:
                request.name_operation(_DOCUMENT)
                return self._document(request, parts)

    def error_response(self, error: Exception, request: Request) -> Response:
        return error_response(error)

    # Documents

    def _document(self, request: Request, parts: list[str]) -> Response:
        settings, uri, pages = self.settings, self.settings.endpoint_uri, self._pages
        found: tuple[Mapping[str, Any], Page]
        media_type = JSON
        match parts:
            case []:
                found = landing_page(settings), pages.landing
            case ["conformance"]:
                found = conformance(uri), pages.conformance
            case ["api"]:
                found = definition(settings, self.site.catalogue.settings), pages.definition
                media_type = OPENAPI
            case ["processes"]:
                found = process_list(uri), pages.processes
            case ["processes", identifier]:
                process = _process(identifier)
                layers = self._offered[process.id]
                found = description(process, uri, layers), pages.process
            case _:
                raise UnknownPathError
        _check_method(request, "GET")
        return _answer(request, *found, media_type)

    # Orders

    def _execute(self, request: Request, identifier: str) -> Response:
        process = _process(identifier)
        owner = owner_of(request.environ, self._own)
        self._rate.take(owner)
        order = self._orders.order(process, inputs_of(request), owner)
        try:
            job = self._orders.submit(order)
        except FullError as error:
            # Nothing is wrong with the request, nor with the server.
            return error_response(error)
        uri = self.settings.endpoint_uri
        response = _json(201, status_of(job, uri))
        response.headers.append(("Location", f"{uri}/jobs/{job.id}"))
        if "respond-async" in (request.header("Prefer") or ""):
            response.headers.append(("Preference-Applied", "respond-async"))
        return response

    def _estimate(self, request: Request, identifier: str) -> Response:
        process = _process(identifier)
        owner = owner_of(request.environ, self._own)
        self._rate.take(owner)
        order = self._orders.order(process, inputs_of(request), owner)
        content: dict[str, Any] = {
            "processID": process.id,
            "inputs": order.inputs,
            "estimate": order.estimate,
            "command": command_of(
                order.inputs, file_name(order.inputs["layer"], order.inputs["format"])
            ),
        }
        limits = self._own.limits
        try:
            check_size(order.estimate, limits)
        except TooLargeError as error:
            content |= {"fits": False, "detail": str(error)}
        else:
            content["fits"] = True
        content["limits"] = {
            "bytes": limits.max_bytes,
            "tiles": limits.max_tiles,
            "pixels": limits.max_pixels,
        }
        return _json(200, content)

    # Jobs

    def _job_resource(self, request: Request, parts: list[str]) -> Response:
        uri, pages = self.settings.endpoint_uri, self._pages
        match parts:
            case []:
                _check_method(request, "GET")
                found: tuple[Mapping[str, Any], Page] = self._own_jobs(request), pages.jobs
            case [identifier] if request.method == "DELETE":
                return _json(200, status_of(self._dismissed(request, identifier), uri))
            case [identifier]:
                _check_method(request, "GET, DELETE", "GET")
                found = status_of(self._job(request, identifier), uri), pages.job
            case [identifier, "results"]:
                _check_method(request, "GET")
                job = self._job(request, identifier)
                if job.state is State.FAILED:
                    return failed(job.status, job.message)
                _check_successful(job)
                found = results_of(job, uri, self._own.results_url), pages.results
            case _:
                raise UnknownPathError
        response = _answer(request, *found)
        response.headers.append(_PRIVATE)
        return response

    def _own_jobs(self, request: Request) -> Mapping[str, Any]:
        limit = _number(request, "limit", _LISTED, 1, _MOST_LISTED)
        offset = _number(request, "offset", 0, 0, 10**9)
        owner = owner_of(request.environ, self._own)
        jobs = self._queue.jobs_of(owner, limit + 1, offset)
        # A page may have fewer jobs than the limit, and still not be the last one.
        shown = [job for job in jobs[:limit] if self._is_known(job)]
        is_last = len(jobs) <= limit
        return job_list(shown, self.settings.endpoint_uri, limit, offset, is_last=is_last)

    def _job(self, request: Request, identifier: str) -> Job:
        """Return a job.

        Raises:
            UnknownJobError: there is none, it has expired, its layer or the sources that it names
                are no longer shown to the client, or it belongs to another principal.
        """
        job = self._queue.job(identifier) if is_identifier(identifier) else None
        is_seen = job is not None and may_see(job.order.owner, owner_of(request.environ, self._own))
        if job is None or not is_seen or not self._is_known(job):
            raise UnknownJobError("there is no such job, or its result has expired")
        return job

    def _is_known(self, job: Job) -> bool:
        # What has expired is removed later, by a worker or with the next order.
        is_kept = not job.state.is_final or time.time() - job.finished < self._own.keep
        name, layer = job.order.inputs["layer"], job.order.layer
        is_offered = layer in self._offered.get(job.order.process, ())
        if not (is_kept and is_offered and is_whole(name, layer, self.site)):
            return False
        # The file says what the client knew who ordered it.
        return not job.order.names_sources or shows_sources(name, layer, self.site)

    def _dismissed(self, request: Request, identifier: str) -> Job:
        """Dismiss a job, whatever its state, and remove its files."""
        job = self._job(request, identifier)
        while job.state is not State.DISMISSED:
            if self._queue.dismiss(job):
                # A worker that still writes removes them as soon as it knows.
                if not self._results.is_held(job.id):
                    self._results.remove(job.id)
                return self._job(request, identifier)
            job = self._job(request, identifier)
        raise DismissedError("the job has already been dismissed")

    def _file(self, request: Request, identifier: str, name: str) -> Response:
        job = self._job(request, identifier)
        file = next((item for item in job.files if item.name == name), None)
        if job.state is not State.SUCCESSFUL or file is None:
            raise UnknownJobError("there is no such file")
        check_open(job.order.inputs["layer"], job.order.layer, self.site)
        try:
            body = self._body(job, file)
        except (FileNotFoundError, ObjectNotFoundError) as error:
            raise UnknownJobError("the file has expired") from error
        headers = [
            _PRIVATE,
            ("Content-Type", file.media_type),
            ("Content-Disposition", content_disposition(file.media_type, file.name)),
        ]
        response = addressable_response(request, headers, body, self._streams)
        return unmet(response) if response.status >= 400 else response

    def _body(self, job: Job, file: ResultFile) -> AddressableBody:
        path = self._results.path(job.id, file.name)
        # Beside objects, there are files, if objects are published.
        if self._remote is None or os.path.exists(path):
            return FileBody(path)
        from mastaba_export.jobs.remote import ObjectBody

        storage = self.site.catalogue.storages.open(*self._remote.container)
        return ObjectBody(storage, self._remote.target(job.id, file.name).key)


def _answer(
    request: Request, content: Mapping[str, Any], page: Page, media_type: str = JSON
) -> Response:
    """Return a document in the form that the client prefers."""
    if not _wants_page(request):
        text = json.dumps(content, ensure_ascii=False)
        return Document(text.encode("utf-8", "replace"), media_type).respond(request)
    document = Document(page(content).encode("utf-8", "replace"), f"{HTML}; charset=utf-8")
    response = document.respond(request)
    response.headers += HEADERS
    return response


def _wants_page(request: Request) -> bool:
    wanted = request.query.get("f", "").lower()
    if wanted in ("html", HTML):
        return True
    if wanted and wanted not in ("json", JSON):
        raise InvalidParameterError(f"there is no form {printable(wanted)}", "f")
    return not wanted and preferred_media_type(request, (JSON, HTML)) == HTML


def _json(status: int, content: Mapping[str, Any]) -> Response:
    text = json.dumps(content, ensure_ascii=False).encode("utf-8", "replace")
    headers = [("Content-Type", JSON), ("Cache-Control", "no-store")]
    return Response(status, headers, text)


def _process(identifier: str) -> Process:
    found = PROCESSES.get(identifier)
    if found is None:
        raise UnknownProcessError(f"there is no process {printable(identifier)}")
    return found


def _check_method(request: Request, allowed: str, method: str = "") -> None:
    if request.method != (method or allowed):
        raise WrongMethodError(allowed)


def _check_successful(job: Job) -> None:
    if job.state is State.DISMISSED:
        raise DismissedError("the job has been dismissed")
    if job.state is not State.SUCCESSFUL:
        raise NotReadyError(f"the job is {job.state}: {job.progress} % are done")


def _number(request: Request, name: str, default: int, least: int, most: int) -> int:
    text = request.query.get(name)
    if text is None:
        return default
    number = whole_number(text)
    if number is None or number < least:
        raise InvalidParameterError(f"{name} must be an integer from {least}", name)
    return min(number, most)


def _fault(key: str, problem: str, remedy: str) -> ConfigurationError:
    return ConfigurationError(
        [Fault(Severity.ERROR, "services.json", f"$.{SWITCH}.{key}", problem, remedy)]
    )
