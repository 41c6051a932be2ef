"""Documents: the landing page, conformance classes, and jobs (18-062r2 clauses 7.2, 7.4, 7.10)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from mastaba_export.jobs.job import State
from mastaba_ows.links import HTML, JSON, OPENAPI, REL, link, self_links

if TYPE_CHECKING:
    from mastaba.api.services import ServiceSettings
    from mastaba_export.jobs.job import Job

_CLASSES: Final = (
    *("core", "ogc-process-description", "json", "html", "oas30", "job-list", "dismiss"),
)
_COMMON: Final = ("core", "landing-page", "json", "html", "oas30")


def landing_page(settings: ServiceSettings) -> dict[str, Any]:
    """Return the landing page."""
    uri = settings.endpoint_uri
    content: dict[str, Any] = {"title": settings.title, "description": settings.abstract}
    if settings.keywords:
        content["keywords"] = list(settings.keywords)
    conformance, processes = f"{uri}/conformance?f=json", f"{uri}/processes?f=json"
    content["links"] = [
        *self_links(uri, settings.title),
        link(f"{uri}/api?f=json", "service-desc", OPENAPI, "Definition of the API"),
        link(f"{uri}/api?f=html", "service-doc", HTML, "Operations of the API"),
        link(conformance, f"{REL}/conformance", JSON, "Conformance classes"),
        link(conformance, "conformance", JSON, "Conformance classes"),
        link(processes, f"{REL}/processes", JSON, "Processes"),
        link(processes, "processes", JSON, "Processes"),
        link(f"{uri}/jobs?f=json", f"{REL}/job-list", JSON, "Your jobs"),
    ]
    return content


def conformance(uri: str) -> dict[str, Any]:
    """Return the conformance classes."""
    spec = "http://www.opengis.net/spec"
    classes = [f"{spec}/ogcapi-common-1/1.0/conf/{name}" for name in _COMMON]
    classes += [f"{spec}/ogcapi-processes-1/1.0/conf/{name}" for name in _CLASSES]
    return {"conformsTo": classes, "links": self_links(f"{uri}/conformance", "Conformance classes")}


def status_of(job: Job, uri: str) -> dict[str, Any]:
    """Return the status of a job, with its inputs."""
    return {**_short_status(job, uri), "inputs": dict(job.order.inputs)}


def _short_status(job: Job, uri: str) -> dict[str, Any]:
    address = f"{uri}/jobs/{job.id}"
    content: dict[str, Any] = {
        "processID": job.order.process,
        "type": "process",
        "jobID": job.id,
        "status": job.state.value,
        "progress": job.progress,
    }
    if job.message:
        content["message"] = job.message
    for name, seconds in (
        ("created", job.created),
        ("started", job.started),
        ("finished", job.finished),
        ("updated", job.updated),
    ):
        if seconds:
            content[name] = _time(seconds)
    content["estimate"] = dict(job.order.estimate)
    content["links"] = self_links(address, f"Job {job.id}")
    content["links"].append(link(f"{uri}/jobs?f=json", "up", JSON, "Your jobs"))
    if job.state is State.SUCCESSFUL:
        content["links"].append(
            link(f"{address}/results?f=json", f"{REL}/results", JSON, "The result")
        )
    return content


def job_list(
    jobs: Sequence[Job], uri: str, limit: int, offset: int, *, is_last: bool
) -> dict[str, Any]:
    """Return a page of the list of a caller's jobs.

    Args:
        jobs: of the page; not those of layers that are no longer offered.
        limit: most jobs on a page.
        offset: number of newer jobs, with those that are not listed.
        is_last: whether no page follows.
    """
    query = f"limit={limit}&offset={offset}&"
    links = self_links(f"{uri}/jobs", "Your jobs", query if offset else "")
    if not is_last:
        href = f"{uri}/jobs?limit={limit}&offset={offset + limit}&f=json"
        links.append(link(href, "next", JSON, "Older jobs"))
    return {"jobs": [_short_status(job, uri) for job in jobs], "links": links}


def results_of(job: Job, uri: str, results_url: str = "") -> dict[str, Any]:
    """Return the result of a job: a link to its file.

    Args:
        uri: of the service.
        results_url: address of the results that are public; empty if they are not published.
    """
    (file,) = job.files
    name = quote(file.name, safe="")
    is_published = results_url and job.order.is_public
    href = f"{results_url}/{job.id}/{name}" if is_published else f"{uri}/jobs/{job.id}/files/{name}"
    found: dict[str, Any] = {"href": href, "type": file.media_type, "title": file.name}
    return {"result": found | {"length": file.size}}


def _time(seconds: float) -> str:
    return (
        datetime.fromtimestamp(seconds, UTC)
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z")
    )
