"""Installations whose layers can be exported, and workers for them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.tiny import tiny_installation
from werkzeug.test import Client, TestResponse

from mastaba.api.services import Site
from mastaba.api.tools import Plugins, create_application
from mastaba_export.jobs.exporting import exporting, remote_results
from mastaba_export.jobs.queue import Queue
from mastaba_export.jobs.results import Results
from mastaba_export.jobs.settings import JobSettings, job_settings
from mastaba_export.jobs.worker import Worker

URL = "http://maps.example/export"
TILES = "/export/processes/export-tiles"


def export_installation(
    directory: Path,
    *,
    public_url: str = "http://maps.example",
    export_directory: str = "",
    **settings: Any,
) -> Path:
    """Write an installation; all layers but RGBA_PNG can be exported."""
    section = {"directory": export_directory or str(directory / "export"), **settings}
    server_json = tiny_installation(
        directory,
        services=["export"],
        public_url=public_url,
        services_overrides={"export": {"enabled": True, **section}},
    )
    for path in (directory / "layers").glob("*.json"):
        if path.stem != "RGBA_PNG":
            document = json.loads(path.read_text("utf-8"))
            path.write_text(json.dumps({**document, "export": {"enabled": True}}), "utf-8")
    return server_json


@dataclass
class Exports:
    """A server in this process, and what its workers would do."""

    client: Client
    settings: JobSettings
    worker: Worker
    queue: Queue
    site: Site

    def post(self, path: str, inputs: Any, **options: Any) -> TestResponse:
        return self.client.post(path, json={"inputs": inputs}, **options)

    def ordered(self, inputs: Mapping[str, Any], **options: Any) -> str:
        """Order a job of tiles; return its path."""
        response = self.post(f"{TILES}/execution", inputs, **options)
        assert response.status_code == 201, response.text
        return response.headers["Location"].removeprefix("http://maps.example")

    def done(self, inputs: Mapping[str, Any]) -> str:
        """Order a job, and run it; return its path."""
        path = self.ordered(inputs)
        assert self.worker.run_one()
        status = self.client.get(path).get_json()
        assert status["status"] == "successful", status
        return path

    def results_left(self) -> list[str]:
        """Return the identifiers of the jobs that have files."""
        return Results(self.settings.directory).left()

    def file(self, path: str) -> str:
        """Return the path of the file of a job that is done."""
        href: str = self.client.get(f"{path}/results").get_json()["result"]["href"]
        return href.removeprefix("http://maps.example")


@pytest.fixture
def open_exports(tmp_path: Path) -> Iterator[Callable[..., Exports]]:
    """Return a function that opens a server; its arguments are settings of the service."""
    opened: list[Any] = []

    def open_it(
        plugins: Plugins | None = None, server_json: Path | None = None, **settings: Any
    ) -> Exports:
        if server_json is None:
            server_json = export_installation(tmp_path / f"server{len(opened)}", **settings)
        application = create_application(str(server_json), plugins)
        site = application.site
        own = job_settings(site.catalogue.services["export"].own)
        queue = Queue(own)
        opened.append((site, queue))
        worker = Worker(queue, exporting(site, own), remote_results(site, own))
        return Exports(Client(application), own, worker, Queue(own), site)

    yield open_it
    for site, queue in opened:
        queue.close()
        site.close_services()
        site.catalogue.storages.close()


@pytest.fixture
def exports(open_exports: Callable[..., Exports]) -> Exports:
    return open_exports()
