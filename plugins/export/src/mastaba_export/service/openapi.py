"""The API definition in OpenAPI 3.0 (18-062r2 clause 10)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from mastaba import __version__
from mastaba.api.web import PROBLEM
from mastaba_export.jobs.exporting import FILE_TYPES
from mastaba_export.service.processes import PROCESSES
from mastaba_ows.links import HTML, JSON, OPENAPI

if TYPE_CHECKING:
    from mastaba.api.services import ServiceSettings, Settings

Json = dict[str, Any]

_TEXT: Final[Json] = {"type": "string"}
_OBJECT: Final[Json] = {"type": "object"}
_COUNT: Final[Json] = {"type": "integer", "minimum": 0}
_TIME: Final[Json] = {"type": "string", "format": "date-time"}
_STATES: Final = ["accepted", "running", "successful", "failed", "dismissed"]
_MESSAGES: Final = {
    "400": "A parameter or an input is missing, or has an invalid value.",
    "404": "There is no such resource, or the job has no result yet.",
    "405": "The resource does not support the method.",
    "410": "The job has been dismissed.",
    "413": "The result would exceed a limit.",
    "415": "The body is not JSON.",
    "416": "The file has no such bytes.",
    "429": "Too many requests, or too many waiting jobs.",
    "500": "The request cannot be answered, or the job failed.",
    "503": "The data or the queue cannot be used at the moment.",
    "507": "There is no room for the result.",
}
_USUAL: Final = ("400", "404", "405", "500", "503")
_OF_ORDERS: Final = (*_USUAL, "413", "415", "429")


def definition(settings: ServiceSettings, shared: Settings) -> Json:
    """Return the API definition.

    Args:
        settings: of the service.
        shared: of all services: who provides them.
    """
    contact = {"name": shared.contact.name, "email": shared.contact.email}
    info: Json = {
        "title": settings.title,
        "version": __version__,
        "description": f"{settings.abstract} Unknown parameters are ignored.".strip(),
    }
    if any(contact.values()):
        info["contact"] = {name: text for name, text in contact.items() if text}
    error = {PROBLEM: {"schema": _reference("schemas", "exception")}}
    return {
        "openapi": "3.0.3",
        "info": info,
        "servers": [{"url": settings.endpoint_uri}],
        "paths": _paths(),
        "components": {
            "parameters": _parameters(),
            "responses": {
                status: {"description": text, "content": error}
                for status, text in _MESSAGES.items()
            },
            "schemas": _schemas(),
        },
    }


def _paths() -> Json:
    order = {
        "required": True,
        "content": {JSON: {"schema": _reference("schemas", "execute")}},
    }
    created = _document("The job is accepted.", "statusInfo", html=False)
    created["headers"] = {"Location": {"description": "The status of the job.", "schema": _TEXT}}
    job = ["jobID", "f"]
    return {
        "/": {"get": _get("getLandingPage", "The landing page", "landingPage")},
        "/conformance": {
            "get": _get("getConformance", "The conformance classes of the API", "confClasses")
        },
        "/api": {
            "get": _operation(
                "getAPI",
                "This definition",
                ["f"],
                {"description": "The definition", "content": _content({OPENAPI: _OBJECT})},
            )
        },
        "/processes": {"get": _get("getProcesses", "The processes", "processList")},
        "/processes/{processID}": {
            "get": _get(
                "getProcessDescription", "A process, with its inputs", "process", ["processID", "f"]
            )
        },
        "/processes/{processID}/execution": {
            "post": {
                **_operation("execute", "Order a job", ["processID"], created, "201", _OF_ORDERS),
                "requestBody": order,
            }
        },
        "/processes/{processID}/estimate": {
            "post": {
                **_operation(
                    "estimate",
                    "What a job would write; nothing is queued",
                    ["processID"],
                    _document("The estimate", "estimate", html=False),
                    errors=_OF_ORDERS,
                ),
                "requestBody": order,
            }
        },
        "/jobs": {
            "get": _get("getJobs", "The jobs of the caller", "jobList", ["limit", "offset", "f"])
        },
        "/jobs/{jobID}": {
            "get": _get("getStatus", "The status of a job", "statusInfo", job),
            "delete": _operation(
                "dismiss",
                "Dismiss a job, and remove its files",
                ["jobID"],
                _document("The job is dismissed.", "statusInfo", html=False),
                errors=(*_USUAL, "410"),
            ),
        },
        "/jobs/{jobID}/results": {
            "get": _get(
                "getResult", "A link to the result of a job", "results", job, ("410", "507")
            )
        },
        "/jobs/{jobID}/files/{name}": {"get": _file()},
    }


def _file() -> Json:
    data = {"schema": {"type": "string", "format": "binary"}}
    content = dict.fromkeys(sorted(FILE_TYPES.values()), data)
    found = _operation(
        "getFile",
        "A file of a result, or a range of it",
        ["jobID", "name"],
        {"description": "The file", "content": content},
        errors=(*_USUAL, "416"),
    )
    found["responses"]["206"] = {"description": "A range of the file", "content": content}
    found["responses"]["304"] = {"description": "The client already has it."}
    return found


def _get(
    identifier: str,
    summary: str,
    schema: str,
    parameters: Sequence[str] = ("f",),
    errors: Sequence[str] = (),
) -> Json:
    """Return an operation that reads a document, which also exists as a page."""
    document = _document(summary, schema)
    return _operation(identifier, summary, parameters, document, errors=(*_USUAL, *errors))


def _operation(
    identifier: str,
    summary: str,
    parameters: Sequence[str],
    success: Json,
    status: str = "200",
    errors: Sequence[str] = _USUAL,
) -> Json:
    responses = {status: success}
    responses |= {error: _reference("responses", error) for error in sorted(errors)}
    return {
        "operationId": identifier,
        "summary": summary,
        "parameters": [_reference("parameters", name) for name in parameters],
        "responses": responses,
    }


def _document(text: str, schema: str, *, html: bool = True) -> Json:
    content = {JSON: _reference("schemas", schema)}
    return {"description": text, "content": _content(content, html=html)}


def _content(schemas: Json, *, html: bool = True) -> Json:
    found = {media_type: {"schema": schema} for media_type, schema in schemas.items()}
    return {**found, HTML: {"schema": _TEXT}} if html else found


def _parameters() -> Json:
    def parameter(name: str, place: str, text: str, schema: Json) -> Json:
        return {
            "name": name,
            "in": place,
            "required": place == "path",
            "description": text,
            "schema": schema,
        }

    return {
        "processID": parameter(
            "processID", "path", "Process", {"type": "string", "enum": list(PROCESSES)}
        ),
        "jobID": parameter("jobID", "path", "Job", {"type": "string", "pattern": "^[0-9a-f]{32}$"}),
        "name": parameter("name", "path", "File", _TEXT),
        "limit": parameter(
            "limit",
            "query",
            "Most jobs in the list",
            {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100},
        ),
        "offset": parameter("offset", "query", "Number of newer jobs", {**_COUNT, "default": 0}),
        "f": parameter(
            "f", "query", "Form of the document", {"type": "string", "enum": ["json", "html"]}
        ),
    }


def _schemas() -> Json:
    def closed(required: Sequence[str], **properties: Json) -> Json:
        return {"type": "object", "required": list(required), "properties": properties}

    def list_of(schema: str) -> Json:
        return {"type": "array", "items": _reference("schemas", schema)}

    links = list_of("link")
    return {
        "link": closed(["href"], href=_TEXT, rel=_TEXT, type=_TEXT, title=_TEXT),
        "exception": {
            **closed(["type"], type=_TEXT, title=_TEXT, status={"type": "integer"}, detail=_TEXT),
            "additionalProperties": True,
        },
        "landingPage": closed(["links"], title=_TEXT, description=_TEXT, links=links),
        "confClasses": closed(["conformsTo"], conformsTo={"type": "array", "items": _TEXT}),
        "processSummary": closed(
            ["id", "version"],
            id=_TEXT,
            version=_TEXT,
            title=_TEXT,
            description=_TEXT,
            jobControlOptions={"type": "array", "items": _TEXT},
            outputTransmission={"type": "array", "items": _TEXT},
            links=links,
        ),
        "processList": closed(
            ["processes", "links"], processes=list_of("processSummary"), links=links
        ),
        "process": {
            "allOf": [
                _reference("schemas", "processSummary"),
                closed(["inputs", "outputs"], inputs=_OBJECT, outputs=_OBJECT),
            ]
        },
        "execute": closed(
            ["inputs"],
            inputs=_OBJECT,
            outputs=_OBJECT,
            response={"type": "string", "enum": ["document"]},
        ),
        "estimate": closed(
            ["estimate", "fits"], estimate=_OBJECT, fits={"type": "boolean"}, command=_TEXT
        ),
        "statusInfo": closed(
            ["jobID", "status", "type"],
            processID=_TEXT,
            type={"type": "string", "enum": ["process"]},
            jobID=_TEXT,
            status={"type": "string", "enum": _STATES},
            message=_TEXT,
            created=_TIME,
            started=_TIME,
            finished=_TIME,
            updated=_TIME,
            progress={**_COUNT, "maximum": 100},
            inputs=_OBJECT,
            estimate=_OBJECT,
            links=links,
        ),
        "jobList": closed(["jobs", "links"], jobs=list_of("statusInfo"), links=links),
        "results": {"type": "object", "additionalProperties": _reference("schemas", "link")},
    }


def _reference(kind: str, name: str) -> dict[str, str]:
    return {"$ref": f"#/components/{kind}/{name}"}
