"""The sources in files of jobs: those that the client who ordered the job may know."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from werkzeug.test import Client

from mastaba.api.tools import create_application
from mastaba_access.gate import RulesGate
from mastaba_export.jobs.exporting import exporting
from mastaba_export.jobs.queue import Queue
from mastaba_export.jobs.settings import job_settings
from mastaba_export.jobs.worker import Worker
from mastaba_writer.installation import layer_document, write_installation


class Exports:
    """A server with rules, and the worker of its jobs.

    Args:
        rules: of the access plugin.
        pyramid: what the layer MAP shows.
    """

    def __init__(self, folder: Path, pyramid: Path, *rules: Any) -> None:
        self._rules = path = folder / "rules.json"
        self._write(rules)
        layer = layer_document(pyramid, title="Map", resampling="nn", export={"enabled": True})
        server = write_installation(
            folder / "server",
            layers={"MAP": layer},
            services=("provenance", "export"),
            services_overrides={"export": {"directory": str(folder / "jobs")}},
            server_overrides={"plugins": {"access": {"rules": str(path)}}},
        )
        application = create_application(str(server))
        self.site = application.site
        own = job_settings(self.site.catalogue.services["export"].own)
        self.client = Client(application)
        self.queue = Queue(own)
        self.run_one = Worker(self.queue, exporting(self.site, own)).run_one

    def _write(self, rules: Iterable[Any]) -> None:
        named = [{"name": f"rule {number}", **rule} for number, rule in enumerate(rules)]
        west = {"wkt": "POLYGON ((0 45, 1.08 45, 1.08 70, 0 70, 0 45))", "crs": "CRS:84"}
        document = {"default": "allow", "areas": {"west": west}, "rules": named}
        self._rules.write_text(json.dumps(document))

    def change(self, *rules: Any) -> None:
        self._write(rules)
        gate = self.site.gate
        assert isinstance(gate, RulesGate)
        assert gate.poll()

    def ordered(self, process: str, format: str) -> str:
        answer = self.client.post(
            f"/export/processes/{process}/execution",
            json={"inputs": {"layer": "MAP", "format": format}},
        )
        assert answer.status_code == 201, answer.text
        return f"/export/jobs/{answer.get_json()['jobID']}"

    def result(self, job: str) -> bytes:
        """Run a job and return its file."""
        answer = self.client.get(self.file(job))
        assert answer.status_code == 200, answer.text
        return answer.data

    def file(self, job: str) -> str:
        """Run a job and return the path of its file."""
        assert self.run_one()
        found = self.client.get(f"{job}/results").get_json()
        href: str = found["result"]["href"]
        return href.removeprefix("http://localhost")


RULES = (
    [],
    [{"what": {"services": ["provenance"]}, "deny": {}}],
    [{"what": {"services": ["provenance"]}, "deny": {"as": "lock"}}],
    [{"what": {"services": ["provenance"]}, "limit": {"resolution": [60, 100_000]}}],
    [{"what": {"services": ["provenance"]}, "limit": {"area": "west"}}],
)


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize(
    ("process", "format", "name"),
    [
        ("export-coverage", "tif", b'"SOURCES"'),
        ("export-coverage", "cog", b'"SOURCES"'),
        ("export-tiles", "dir", b"A 2021"),
    ],
)
def test_a_file_names_what_its_client_may_know(
    tmp_path: Path, pyramid: Path, process: str, format: str, name: bytes, rules: Any
) -> None:
    exports = Exports(tmp_path, pyramid, *rules)
    data = exports.result(exports.ordered(process, format))
    assert (name in data) == (not rules)


@pytest.mark.parametrize("rules", RULES[1:])
def test_a_file_that_names_sources_is_unknown_where_they_are_hidden_later(
    tmp_path: Path, pyramid: Path, rules: Any
) -> None:
    exports = Exports(tmp_path, pyramid)
    named, waiting = (exports.ordered("export-coverage", "tif") for _ in range(2))
    file = exports.file(named)
    exports.change(*rules)
    # Workers know no rules.
    assert exports.run_one()
    unnamed = exports.ordered("export-coverage", "tif")
    for path in (named, f"{named}/results", file, waiting):
        assert exports.client.get(path).status_code == 404
    assert b'"SOURCES"' not in exports.result(unnamed)
    listed = exports.client.get("/export/jobs").get_json()["jobs"]
    assert [unnamed.endswith(job["jobID"]) for job in listed] == [True]
    exports.change()
    assert b'"SOURCES"' in exports.client.get(file).data


def test_jobs_of_older_versions_name_none(tmp_path: Path, pyramid: Path) -> None:
    exports = Exports(tmp_path, pyramid)
    job = exports.ordered("export-coverage", "tif")
    exports.queue.close()
    with sqlite3.connect(tmp_path / "jobs/queue.sqlite") as database:
        for column in ("sources", "public"):
            database.execute(f"ALTER TABLE jobs DROP COLUMN {column}")
        database.execute("PRAGMA user_version = 1")
    database.close()
    assert b'"SOURCES"' not in exports.result(job)
    assert b'"SOURCES"' in exports.result(exports.ordered("export-coverage", "tif"))
