"""Jobs under access rules, which may change while a job waits, and when it is done."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.access.identification.conftest import Credentials
from tests.export.service.conftest import TILES, Exports
from tests.series import LEVELS, series_installation, write_value

from mastaba.api.tools import Plugins
from mastaba.catalogue import Catalogue
from mastaba.errors import NoSuchValueError, OverloadedError
from mastaba_access.gate import RulesGate
from mastaba_writer.pyramids import LevelPlan

SCALE = {"limit": {"scale": [5e7, 1e9]}}
"""Leaves all levels of the default, and not the last one of the value 1975."""
DEFAULT, DEEP = {"layer": "ORTHO"}, {"layer": "ORTHO;time=1975"}


class Ruled:
    """A server whose rules can change."""

    def __init__(
        self,
        folder: Path,
        open_exports: Callable[..., Exports],
        plugins: Plugins | None = None,
        **settings: Any,
    ) -> None:
        settings = {"enabled": True, "directory": str(folder / "export"), **settings}
        self._rules = folder / "rules.json"
        self._write()
        self.credentials = Credentials(folder)
        self.credentials.key()
        section = {"rules": str(self._rules), **self.credentials.section()}
        server = series_installation(
            folder / "server",
            services=["export"],
            export={"enabled": True},
            services_overrides={"export": settings},
            server_overrides={"plugins": {"access": section}},
        )
        deep = (*LEVELS, LevelPlan("4", 4, 6, 8, 10))
        write_value(folder / "server", "value_1", (1, 2, 3), levels=deep)
        self.exports = open_exports(plugins, server_json=server)
        self.ask = self.exports.client.get

    def change(self, *rules: Any) -> None:
        self._write(*rules)
        gate = self.exports.site.gate
        assert isinstance(gate, RulesGate)
        assert gate.poll()

    def ordered(self, inputs: Any, **options: Any) -> str:
        response = self.exports.post(f"{TILES}/execution", inputs, **options)
        assert response.status_code == 201, response.text
        return f"/export/jobs/{response.get_json()['jobID']}"

    def file(self, job: str) -> str:
        href: str = self.ask(f"{job}/results").get_json()["result"]["href"]
        return href.removeprefix("http://localhost")

    def _write(self, *rules: Any) -> None:
        named = [{"name": f"rule {number}", **rule} for number, rule in enumerate(rules)]
        self._rules.write_text(json.dumps({"default": "allow", "rules": named}))


@pytest.fixture
def ruled(tmp_path: Path, open_exports: Callable[..., Exports]) -> Ruled:
    return Ruled(tmp_path, open_exports)


def test_a_value_of_which_levels_are_hidden_is_not_offered(ruled: Ruled) -> None:
    ruled.change(SCALE)
    assert ruled.exports.post(f"{TILES}/execution", DEEP).status_code == 400
    assert ruled.exports.post(f"{TILES}/estimate", DEEP).status_code == 400
    assert ruled.exports.post(f"{TILES}/estimate", DEFAULT).status_code == 200


def test_what_is_hidden_meanwhile_is_not_given(ruled: Ruled) -> None:
    waiting, done = ruled.ordered(DEEP), ruled.ordered(DEFAULT)
    ruled.change(SCALE)
    # Workers know no rules. What they write is for those who may see it.
    assert ruled.exports.worker.run_one()
    assert ruled.exports.worker.run_one()
    assert ruled.ask(waiting).status_code == ruled.ask(f"{waiting}/results").status_code == 404
    assert ruled.ask(ruled.file(done)).status_code == 200
    jobs = ruled.ask("/export/jobs").get_json()["jobs"]
    assert [done.endswith(job["jobID"]) for job in jobs] == [True]
    ruled.change()
    assert ruled.ask(ruled.file(waiting)).status_code == 200
    for rule in ({"deny": {}}, {"limit": {"time": ["", "1999"]}}):
        file = ruled.file(done)
        ruled.change({**rule, "what": {"layers": ["ORTHO"]}})
        for path in (done, f"{done}/results", file):
            assert ruled.ask(path).status_code == 404
        ruled.change()


def test_the_file_of_a_layer_that_is_locked_meanwhile_needs_a_credential(ruled: Ruled) -> None:
    jobs = [ruled.ordered(inputs) for inputs in (DEFAULT, DEEP)]
    while ruled.exports.worker.run_one():
        pass
    key = ruled.credentials.key(groups=["partners"])
    ruled.change(
        {"who": ["group:partners"], "allow": {}},
        {"what": {"layers": ["ORTHO"]}, "deny": {"as": "lock"}},
    )
    for file in map(ruled.file, jobs):
        assert ruled.ask(file).status_code == 401
        assert ruled.ask(file, headers={"X-API-Key": key}).status_code == 200


@pytest.mark.parametrize("error", [NoSuchValueError, OverloadedError])
def test_jobs_of_a_value_that_has_gone_are_given_while_the_layer_is_shown_whole(
    ruled: Ruled, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    job = ruled.ordered(DEEP)
    assert ruled.exports.worker.run_one()
    # The public sees another view, of the same layer.
    ruled.change({"what": {"services": ["wms"]}, "deny": {}})

    def gone(*_given: object, **_named: object) -> None:
        raise error("there is no such value")

    monkeypatch.setattr(Catalogue, "resolve", gone)
    assert ruled.ask(ruled.file(job)).status_code == 200
    assert len(ruled.ask("/export/jobs").get_json()["jobs"]) == 1
    ruled.change(SCALE)
    assert ruled.ask(job).status_code == 404
    assert ruled.ask("/export/jobs").get_json()["jobs"] == []
