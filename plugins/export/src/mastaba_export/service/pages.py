"""Pages for people, made from the JSON documents of the same resources."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from mastaba_export.jobs.job import State
from mastaba_ows.links import JSON
from mastaba_server.web.pages import STYLE, Section, base_path, page_headers, rendered_page

Content = Mapping[str, Any]

_STYLE: Final = (
    STYLE
    + """
body { max-width: 56rem; }
nav a, li a { display: inline-block; min-height: 44px; line-height: 44px; }
pre { overflow-x: auto; padding: 0.7rem; border: 1px solid #8888; border-radius: 4px; }
h2 { margin: 2rem 0 0; font-size: 1.2rem; }
p, ul, dl { margin: 0.3rem 0; overflow-wrap: anywhere; }
dt { font-weight: 600; }
dd { margin: 0 0 0.5rem 1rem; }
progress { width: 100%; }
"""
)
HEADERS: Final = page_headers(_STYLE)
_REFRESH: Final = 5
"""Seconds after which the page of an unfinished job is loaded again."""


class Pages:
    """Makes the pages of a service.

    Args:
        uri: address of the service. Links in pages have no host, so they work for any host name.
        title: of the service.
    """

    def __init__(self, uri: str, title: str) -> None:
        self._uri = uri
        self._base = base_path(uri)
        self._title = title

    def landing(self, content: Content) -> str:
        """Return the start page."""
        links = [
            (f"{self._base}/processes", "Processes"),
            (f"{self._base}/jobs", "Your jobs"),
            (f"{self._base}/api?f=html", "Operations of the API"),
            (f"{self._base}/conformance", "Conformance classes"),
        ]
        return self._page(content["title"], content["description"], [Section(links=links)])

    def conformance(self, content: Content) -> str:
        """Return the list of conformance classes."""
        code = "\n".join(content["conformsTo"])
        return self._page("Conformance classes", "", [Section(code=code)], "")

    def processes(self, content: Content) -> str:
        """Return the list of processes."""
        sections = [
            Section(
                item["title"],
                item["description"],
                links=[(f"{self._base}/processes/{item['id']}", item["id"])],
            )
            for item in content["processes"]
        ]
        return self._page("Processes", "", sections, "")

    def process(self, content: Content) -> str:
        """Return the description of a process, with a command that orders a job."""
        layers = content["inputs"]["layer"]["schema"].get("enum", ["LAYER"])
        inputs = {"layer": layers[0], "bbox": [5.5, 43.1, 6.0, 43.5]}
        body = json.dumps({"inputs": inputs}, ensure_ascii=False)
        address = f"{self._uri}/processes/{content['id']}"
        shown = body.replace("'", "'\\''")
        command = f"-H 'Content-Type: {JSON}' -d '{shown}'"
        facts = [
            (f"{name}: {item['title']}", item["description"] or "-")
            for name, item in content["inputs"].items()
        ]
        sections = [
            Section("Estimate", code=f"curl {command} {address}/estimate"),
            Section("Order", code=f"curl -i {command} {address}/execution"),
            Section("Inputs", facts=facts),
        ]
        return self._page(content["title"], content["description"], sections, "/processes")

    def jobs(self, content: Content) -> str:
        """Return the list of jobs."""
        sections = [
            Section(
                facts=[("Job", item["jobID"]), *_facts(item)],
                links=[(f"{self._base}/jobs/{item['jobID']}", "Status")],
            )
            for item in content["jobs"]
        ]
        text = "" if sections else "You have no jobs."
        older = [item["href"] for item in content["links"] if item["rel"] == "next"]
        if older:
            query = urlsplit(older[0]).query.removesuffix("&f=json")
            sections.append(Section(links=[(f"{self._base}/jobs?{query}", "Older jobs")]))
        return self._page("Your jobs", text, sections, "")

    def job(self, content: Content) -> str:
        """Return the status of a job, which browsers load again until it has ended."""
        state = State(content["status"])
        links = []
        if state is State.SUCCESSFUL:
            links.append((f"{self._base}/jobs/{content['jobID']}/results", "Result"))
        sections = [
            Section(facts=_facts(content), links=links),
            Section("Estimate", code=json.dumps(content["estimate"], indent=1)),
            Section("Inputs", code=json.dumps(content["inputs"], indent=1, ensure_ascii=False)),
        ]
        title = f"Job {content['jobID']}"
        return self._page(
            title,
            content.get("message", ""),
            sections,
            "/jobs",
            progress=content["progress"],
            refresh=0 if state.is_final else _REFRESH,
        )

    def results(self, content: Content) -> str:
        """Return the page of a result."""
        file = content["result"]
        own = file["href"].removeprefix(f"{self._uri}/")
        href = own if own == file["href"] else f"{self._base}/{own}"
        facts = [("Media type", file["type"]), ("Bytes", file["length"])]
        return self._page(
            "Result", "", [Section(facts=facts, links=[(href, file["title"])])], "/jobs"
        )

    def definition(self, content: Content) -> str:
        """Return the list of operations."""
        facts = [
            (f"{method.upper()} {path}", operation["summary"])
            for path, item in content["paths"].items()
            for method, operation in item.items()
        ]
        return self._page("Operations of the API", "", [Section(facts=facts)], "")

    def _page(
        self,
        title: str,
        text: str,
        sections: Sequence[Section],
        above: str | None = None,
        **more: object,
    ) -> str:
        """Return a page.

        Args:
            above: path of the page above; None for the start page.
            more: further variables of the template.
        """
        names = {"": self._title, "/processes": "Processes", "/jobs": "Your jobs"}
        back = None if above is None else (f"{self._base}{above}" or "/", names[above])
        values = {"progress": None, "refresh": 0, **more}
        values |= {"title": title, "text": text, "sections": sections, "back": back}
        return rendered_page("mastaba_export", _STYLE, **values)


def _facts(content: Content) -> list[tuple[str, object]]:
    names = ("processID", "status", "progress", "created", "started", "finished", "message")
    return [(name, content[name]) for name in names if name in content]
