from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from werkzeug.test import Client

import mastaba
from mastaba.site.application import Application
from mastaba.wsgi import create_application
from mastaba_server.processes.scoreboard import Obstacle
from mastaba_server.threads.circuit_breaker import CircuitBreaker

OpenClient = Callable[..., Client]


def test_status(make_site: Callable[..., Any]) -> None:
    site = make_site()
    response = Client(Application(site)).get("/healthcheck")
    assert response.status_code == 200
    assert response.content_type == "application/json"
    assert response.json == {
        "generation": site.catalogue.generation,
        "version": mastaba.__version__,
        "pid": 4711,
        "time": 1_700_000_000,
        "status": "OK",
    }


def test_status_while_turned_off_is_disabled(open_client: OpenClient) -> None:
    response = open_client(enabled=False).get("/healthcheck")
    assert response.status_code == 200
    assert response.json is not None
    assert response.json["status"] == "DISABLED"


def test_info_lists_identifiers_sorted(open_client: OpenClient) -> None:
    client = open_client(
        layers={"b": None, "a": None, "B": None},
        tile_matrix_sets={"PM": None, "4326": None},
        styles={"normal": None, "hypso": None},
    )
    assert client.get("/healthcheck/info").json == {
        "layers": ["B", "a", "b"],
        "tms": ["4326", "PM"],
        "styles": ["hypso", "normal"],
        "missing_layers": [],
        "outdated_layers": [],
    }


def test_info_names_layers_with_errors(open_client: OpenClient) -> None:
    client = open_client(missing_layers=frozenset("dc"), outdated_layers=frozenset("ba"))
    info: Any = client.get("/healthcheck/info").json
    assert info["missing_layers"] == ["c", "d"]
    assert info["outdated_layers"] == ["a", "b"]


def test_threads_shows_what_each_thread_does(open_client: OpenClient) -> None:
    client = open_client(["zzz"])
    client.get("/zzz")
    answer: Any = client.get("/healthcheck/threads").json
    assert answer["number"] == 2
    busy, idle = answer["threads"]
    assert set(busy) == {"pid", "status", "count", "time", "duration"}
    assert busy["status"] == "RUNNING"
    assert busy["count"] == 1
    assert isinstance(busy["pid"], int)
    assert isinstance(busy["time"], int)
    assert busy["time"] > 0
    assert isinstance(busy["duration"], float)
    assert idle["status"] == "PENDING"
    assert (idle["count"], idle["time"]) == (0, 0)
    assert busy["pid"] != idle["pid"]


def test_depends_counts_open_storages(make_site: Callable[..., Any]) -> None:
    """Each installed driver is listed, even if no storage of the kind is in use."""
    site = make_site()
    site.catalogue.storages.close()
    client = Client(Application(site))
    assert client.get("/healthcheck/depends").json == {"storage": {"file": 0}}
    site.catalogue.storages.open("file", "")
    assert client.get("/healthcheck/depends").json == {"storage": {"file": 1}}


def test_depends_lists_the_drivers_of_existing_clients(tiny: Path) -> None:
    report: Any = Client(create_application(str(tiny))).get("/healthcheck/depends").json
    assert {"file", "s3", "swift", "ceph"} <= report["storage"].keys()


@pytest.mark.parametrize("path", ["/nothing", "/info/more", "//info", "/Info"])
def test_other_paths_are_unknown(open_client: OpenClient, path: str) -> None:
    response = open_client().get(f"/healthcheck{path}")
    assert response.status_code == 404
    assert response.json == {"code": 404, "message": "Unknown health request path"}


@pytest.mark.parametrize("path", ["", "/info", "/threads", "/depends"])
def test_health_is_available_while_services_are_turned_off(
    open_client: OpenClient, path: str
) -> None:
    client = open_client(enabled=False)
    assert client.get(f"/healthcheck{path}").status_code == 200


def test_other_methods_are_not_allowed(open_client: OpenClient) -> None:
    response = open_client().post("/healthcheck")
    assert response.status_code == 405
    assert "GET" in response.headers["Allow"]


def test_failing_report_reveals_no_details(open_client: OpenClient) -> None:
    class Pool:
        def counts(self) -> None:
            raise RuntimeError("/etc/secret")

    response = open_client(storages=Pool()).get("/healthcheck/depends")
    assert response.status_code == 500
    assert response.json is not None
    assert response.json["code"] == 500
    assert b"secret" not in response.data


# Probes for orchestrators


@pytest.mark.parametrize("enabled", [True, False])
def test_a_process_that_answers_is_live(open_client: OpenClient, enabled: bool) -> None:
    response = open_client(enabled=enabled).get("/healthcheck/live")
    assert response.status_code == 200
    assert response.json == {"status": "OK"}


def test_ready_without_layers_when_none_is_configured(make_site: Callable[..., Any]) -> None:
    site = make_site()
    response = Client(Application(site)).get("/healthcheck/ready")
    assert response.status_code == 200
    generation = site.catalogue.generation
    assert response.json == {"status": "OK", "reasons": [], "generation": generation}


def test_not_ready_when_every_layer_is_invalid(open_client: OpenClient) -> None:
    response = open_client(missing_layers=frozenset("ab")).get("/healthcheck/ready")
    assert response.status_code == 503
    assert response.json is not None
    assert response.json["reasons"] == ["none of the layers could be loaded"]


def test_ready_says_which_layers_are_not_as_configured(
    make_site: Callable[..., Any],
) -> None:
    layers = {"a": SimpleNamespace(generation="")}
    many = frozenset(f"layer{number:02}" for number in range(12))
    site = make_site(
        layers=layers, readers={}, outdated_layers=frozenset("ba"), missing_layers=many
    )
    response = Client(Application(site)).get("/healthcheck/ready")
    assert response.status_code == 200
    assert response.json is not None
    assert response.json["status"] == "DEGRADED"
    shown = ", ".join(sorted(many)[:10])
    assert response.json["reasons"] == [
        "layers kept as they were, because of errors in their files: a, b",
        f"layers left out, because of errors in their files: {shown} and 2 more",
    ]
    site.scoreboard.report(Obstacle.KEPT)
    response = Client(Application(site)).get("/healthcheck/ready")
    assert (response.status_code, response.json["status"]) == (200, "DEGRADED")
    assert response.json["reasons"][0] == Obstacle.KEPT
    site.scoreboard.report(Obstacle.DRAINING)
    response = Client(Application(site)).get("/healthcheck/ready")
    assert (response.status_code, response.json["status"]) == (503, "UNAVAILABLE")
    assert response.json["reasons"][:2] == [Obstacle.DRAINING, Obstacle.KEPT]


def test_not_ready_while_services_are_turned_off(open_client: OpenClient) -> None:
    response = open_client(enabled=False).get("/healthcheck/ready")
    assert response.status_code == 503
    assert response.json is not None
    assert response.json["reasons"] == ["the services are turned off"]


def test_not_ready_while_the_storage_of_a_layer_is_suspended(open_client: OpenClient) -> None:
    class Reader:
        class storage:  # noqa: N801
            name = "s3"
            is_suspended = True

    layers = {"a": SimpleNamespace(generation="")}
    client = open_client(layers=layers, readers={"a": {"1": Reader}})
    response = client.get("/healthcheck/ready")
    assert response.status_code == 503
    assert response.json is not None
    assert response.json["reasons"] == ["a storage does not answer: s3"]


def test_a_storage_that_failed_too_often_is_suspended() -> None:
    breaker = CircuitBreaker("s3://x", 2, 30)
    assert not breaker.is_open
    for _ in range(2):
        breaker.failed(OSError("gone"))
    assert breaker.is_open
    breaker.answered()
    assert not breaker.is_open
