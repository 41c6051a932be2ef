"""Stacks and templates that are looked at while they are served (time.md section 1.2)."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.dimensions.conftest import YEARS, document_of
from tests.dimensions.test_layers import Serving, times
from tests.dimensions.test_live_changes import Stack, Template
from tests.series import rewrite_layer
from werkzeug.test import Client

from mastaba_server.processes.scoreboard import Obstacle

PERIOD = 30


def watched(kind: Callable[[Path], Any], folder: Path, period: int) -> Any:
    """Write an installation whose list of values is looked at after so many seconds."""
    found = kind(folder)
    document = document_of(folder)
    document["variants"]["watch"] = period
    rewrite_layer(folder, "ORTHO", document)
    return found


@pytest.fixture(params=[Template, Stack], ids=["template", "stack"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return watched(request.param, tmp_path, PERIOD)


@pytest.fixture
def pass_time(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    now = [1000.0]
    clock = SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr("mastaba_dimensions.watching.time", clock)

    def later(seconds: float) -> None:
        now[0] += seconds

    return later


def test_values_that_were_added_replaced_and_removed_are_noticed(
    source: Any, pass_time: Callable[[float], None]
) -> None:
    serving = Serving(source.server_json)
    before = serving.catalogue
    pass_time(PERIOD)
    serving.updates.look()
    assert serving.catalogue is before
    source.write("1960", (9, 9, 9))
    serving.updates.look()  # too soon
    assert serving.catalogue is before
    pass_time(PERIOD)
    serving.updates.look()
    assert times(serving.catalogue) == ["1950", "1960", "1975", "2023"]
    first = serving.catalogue.resolve("ORTHO", {"time": "1960"}).layer
    source.write("1960", (7, 7, 7))
    pass_time(PERIOD)
    serving.updates.look()
    assert serving.catalogue.resolve("ORTHO", {"time": "1960"}).layer.pyramid != first.pyramid
    source.remove("1960")
    pass_time(PERIOD)
    serving.updates.look()
    assert times(serving.catalogue) == list(YEARS)


def test_a_stack_that_cannot_be_used_is_reported_each_minute(
    tmp_path: Path, pass_time: Callable[[float], None], caplog: pytest.LogCaptureFixture
) -> None:
    source = watched(Stack, tmp_path, 1)
    serving = Serving(source.server_json)
    before = serving.catalogue
    stack = tmp_path / "pyramids/ortho.stack.json"
    good = stack.read_text()
    stack.write_text("{")
    with caplog.at_level(logging.ERROR):
        for _ in range(100):
            pass_time(1)
            serving.updates.look()
    assert serving.catalogue is before
    texts = [one.getMessage() for one in caplog.records if "variants of" in one.getMessage()]
    assert len(texts) == 2
    assert "ortho.stack.json" in texts[0]
    stack.write_text(good)
    source.write("1960", (9, 9, 9))
    pass_time(1)
    serving.updates.look()
    assert "1960" in times(serving.catalogue)


@pytest.mark.parametrize("kind", ["no JSON", "two of a value", "gone"])
def test_a_stack_that_cannot_be_used_is_a_flaw_of_the_server(
    kind: str, tmp_path: Path, pass_time: Callable[[float], None]
) -> None:
    source = watched(Stack, tmp_path, 1)
    serving = Serving(source.server_json)
    client = Client(serving.application)
    stack = tmp_path / "pyramids/ortho.stack.json"
    good = stack.read_text()
    rows = json.loads(good)["variants"]

    def break_it() -> None:
        if kind == "gone":
            stack.unlink()
        else:
            bad = "{" if kind == "no JSON" else json.dumps({"variants": rows + rows[:1]})
            stack.write_text(bad)

    def is_reported() -> bool:
        pass_time(1)
        serving.updates.look()
        found = client.get("/healthcheck/ready").json
        assert found is not None
        assert found["status"] == ("DEGRADED" if found["reasons"] else "OK")
        return Obstacle.VARIANTS in found["reasons"]

    assert not is_reported()
    break_it()
    assert [is_reported() for _ in range(3)] == [True] * 3
    stack.write_text(good)
    assert not is_reported()
    break_it()
    assert is_reported()
    stack.write_text(json.dumps({"variants": rows[1:]}))
    assert not is_reported()
    assert times(serving.catalogue) == list(YEARS[1:])
