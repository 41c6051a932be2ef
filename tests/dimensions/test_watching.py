"""Stacks and templates that are looked at while they are served (time.md section 1.2)."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.dimensions.conftest import YEARS, document_of
from tests.dimensions.test_layers import Serving, times
from tests.dimensions.test_live_changes import Stack, Template
from tests.series import rewrite_layer
from werkzeug.test import Client

from mastaba.services.change import Action, Change
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


@pytest.mark.parametrize(("period", "looks"), [(1, 100), (90, 4)])
def test_a_stack_that_cannot_be_used_is_logged_when_the_reason_changes(
    period: int,
    looks: int,
    tmp_path: Path,
    pass_time: Callable[[float], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = watched(Stack, tmp_path, period)
    serving = Serving(source.server_json)
    before = serving.catalogue
    stack = tmp_path / "pyramids/ortho.stack.json"
    good = stack.read_text()

    def logged() -> list[str]:
        """Return what is logged while the server looks many times."""
        caplog.clear()
        with caplog.at_level(logging.ERROR):
            for _ in range(looks):
                pass_time(period)
                serving.updates.look()
        found = [one.getMessage() for one in caplog.records]
        return [one for one in found if "the variants of the layer ORTHO" in one]

    stack.write_text("{")
    (invalid,) = logged()
    assert "ortho.stack.json" in invalid
    stack.unlink()
    (gone,) = logged()
    assert "ortho.stack.json" in gone
    assert gone != invalid
    stack.write_text(good)
    assert logged() == []
    assert serving.catalogue is before
    stack.unlink()
    assert logged() == [gone]
    stack.write_text(good)
    source.write("1960", (9, 9, 9))
    assert logged() == []
    assert "1960" in times(serving.catalogue)


def test_a_template_whose_pyramids_are_gone_is_logged_once(
    tmp_path: Path, pass_time: Callable[[float], None], caplog: pytest.LogCaptureFixture
) -> None:
    source = watched(Template, tmp_path, 90)
    serving = Serving(source.server_json)
    for year in YEARS:
        source.remove(year)
    with caplog.at_level(logging.ERROR):
        for _ in range(5):
            pass_time(90)
            serving.updates.look()
    (text,) = (one.getMessage() for one in caplog.records if "ORTHO" in one.getMessage())
    assert "does not exist" in text
    assert times(serving.catalogue) == list(YEARS)


ends_threads = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")


def watchers() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == "watch"]


@pytest.fixture
def end(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let threads that look end with the test."""
    over = threading.Event()

    def sleep(_seconds: float) -> None:
        over.wait()
        raise SystemExit

    monkeypatch.setattr("mastaba.site.updates.time", SimpleNamespace(sleep=sleep))
    yield
    over.set()
    for one in watchers():
        one.join()


@ends_threads
@pytest.mark.usefixtures("end")
def test_a_worker_looks_only_if_a_layer_is_watched(tmp_path: Path) -> None:
    """A layer may become one that is watched while it is served."""
    serving = Serving(Template(tmp_path).server_json)
    link: Any = SimpleNamespace(follow=lambda _apply: None)
    serving.updates.connect(link)
    assert watchers() == []
    document = document_of(tmp_path)
    serving.updates.follow(Change(Action.REPLACE_LAYER, "ORTHO", document=document))
    assert watchers() == []
    document["variants"]["watch"] = PERIOD
    for _ in range(2):
        serving.updates.follow(Change(Action.REPLACE_LAYER, "ORTHO", document=document))
        assert len(watchers()) == 1


@ends_threads
@pytest.mark.usefixtures("end")
def test_a_flaw_is_cleared_if_the_layer_is_no_longer_watched_after_a_reload(
    tmp_path: Path,
) -> None:
    serving = Serving(Template(tmp_path).server_json)
    scoreboard = serving.application.site.scoreboard
    scoreboard.report(Obstacle.VARIANTS)
    link: Any = SimpleNamespace(follow=lambda _apply: None)
    serving.updates.connect(link)
    assert len(watchers()) == 1
    serving.updates.look()
    assert Obstacle.VARIANTS not in scoreboard.obstacles


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
