"""Public addresses behind a front server that makes mistakes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.doctor.conftest import Environ, Front, open_application

from mastaba.site.application import Application
from mastaba_doctor.addresses import address_faults
from mastaba_doctor.endpoints import look_at_endpoints
from mastaba_documents.faults import Fault, Severity
from mastaba_storage.environment import Environment
from mastaba_writer.installation import write_installation

# Under this prefix the front server publishes the services.
PREFIX = "/geo/maps"

Publish = Callable[..., Application]


@pytest.fixture
def publish(front: Front, tmp_path: Path) -> Iterator[Publish]:
    """Return a function that opens an installation behind the front server."""
    opened: list[Application] = []

    def run(url: str | None = None, **overrides: Any) -> Application:
        server_json = write_installation(
            tmp_path / f"installation{len(opened)}",
            layers={},
            services=overrides.pop("services", ("wmts", "tms", "health")),
            public_url=front.url + PREFIX if url is None else url,
            services_overrides=overrides,
        )
        application = open_application(server_json)
        opened.append(application)
        if front.application is None:
            front.application = application
            front.change = strip
        return application

    yield run
    for application in opened:
        application.site.catalogue.storages.close()


def strip(environ: Environ) -> None:
    environ["PATH_INFO"] = environ["PATH_INFO"].removeprefix(PREFIX)


def look(application: Application, *, is_running: bool = True) -> dict[str, Fault]:
    """Return the problems by service."""
    environment = Environment({})
    _, faults = look_at_endpoints(
        application.site, application, "services.json", environment, is_running=is_running
    )
    found = {fault.path.split(".")[1]: fault for fault in faults}
    assert len(found) == len(faults)
    assert all(fault.file == "services.json" and fault.remedy for fault in faults)
    return found


def test_a_front_server_that_hands_on_what_it_should(publish: Publish) -> None:
    application = publish()
    count, faults = look_at_endpoints(
        application.site, application, "services.json", Environment({})
    )
    assert (count, faults) == (3, [])


def test_without_a_prefix(publish: Publish, front: Front) -> None:
    assert look(publish(url=front.url)) == {}


def test_every_installed_service_answers_as_itself(publish: Publish) -> None:
    application = publish(services=("wms", "wmts", "tms", "viewer", "health", "metrics"))
    assert {"wms", "viewer"} <= set(application.site.services)
    assert look(application) == {}


def _nothing(environ: Environ) -> None:
    pass


def _twice(environ: Environ) -> None:
    strip(environ)
    root = "/" + environ["PATH_INFO"].split("/")[1]
    environ["PATH_INFO"] = root + environ["PATH_INFO"]


def _without_root(environ: Environ) -> None:
    strip(environ)
    environ["PATH_INFO"] = "/" + "/".join(environ["PATH_INFO"].split("/")[2:])


def _without_query(environ: Environ) -> None:
    strip(environ)
    environ["QUERY_STRING"] = ""


def _root_only(environ: Environ) -> None:
    strip(environ)
    environ["PATH_INFO"] = "/" + environ["PATH_INFO"].split("/")[1]


def _to_tms(environ: Environ) -> None:
    strip(environ)
    environ["PATH_INFO"] = environ["PATH_INFO"].replace("/wmts", "/tms")


@pytest.mark.parametrize(
    ("change", "services", "text"),
    [
        (_nothing, {"wmts", "tms", "health"}, "a path that no service has"),
        (_twice, {"wmts", "tms", "health"}, "a second time"),
        (_without_root, {"wmts", "tms", "health"}, "removes /"),
        (_without_query, {"wmts"}, "the query is missing"),
        (_root_only, {"tms"}, "cuts off what follows"),
        (_to_tms, {"wmts"}, "tms answers there"),
    ],
)
def test_mistakes_of_front_servers(
    publish: Publish,
    front: Front,
    change: Callable[[Environ], None],
    services: set[str],
    text: str,
) -> None:
    application = publish()
    front.change = change
    found = look(application)
    assert set(found) == services
    # TMS below its root path answers a wrong path as it answers an unknown one.
    assert any(text in fault.reason for fault in found.values())
    wmts = found.get("wmts") or found["tms"]
    assert text in wmts.reason
    assert wmts.severity is Severity.ERROR


def test_the_prefix_is_shown_when_it_is_not_stripped(publish: Publish, front: Front) -> None:
    application = publish()
    front.change = _nothing
    for name, fault in look(application).items():
        assert "a path that no service has" in fault.reason
        path = "/healthcheck" if name == "health" else f"/{name}"
        assert f"it may be {PREFIX}{path}" in fault.remedy


def test_mistakes_are_errors_also_when_the_port_is_free(publish: Publish, front: Front) -> None:
    application = publish()
    front.change = _twice
    assert look(application, is_running=False)["wmts"].severity is Severity.ERROR


def test_an_older_configuration_that_still_serves(publish: Publish) -> None:
    publish()
    found = look(publish(wmts={"title": "Newer"}))
    assert set(found) == {"wmts"}
    assert found["wmts"].severity is Severity.WARNING
    assert "configuration that differs" in found["wmts"].reason


@pytest.mark.parametrize("status", ["502 Bad Gateway", "503 Service Unavailable", "504 Gateway"])
def test_a_front_server_alone(publish: Publish, front: Front, status: str) -> None:
    front.answer = (status, b"<html></html>")
    found = look(publish())
    assert f"answers {status[:3]}" in found["wmts"].reason
    assert found["wmts"].severity is Severity.ERROR
    assert found["health"].severity is Severity.WARNING
    application = publish()
    assert look(application, is_running=False)["wmts"].severity is Severity.WARNING


def test_disabled_services_are_not_reported(publish: Publish) -> None:
    assert look(publish(enabled=False)) == {}


def test_services_that_were_turned_off_at_run_time(publish: Publish) -> None:
    publish(enabled=False)
    found = look(publish())
    assert "answers there" not in found["wmts"].reason
    assert "503" in found["wmts"].reason


def test_another_program(publish: Publish, front: Front) -> None:
    front.answer = ("200 OK", b"<html><body>Welcome</body></html>")
    fault = look(publish())["wmts"]
    assert "another program, with status 200, text/html" in fault.reason


def test_a_redirect(publish: Publish, front: Front) -> None:
    front.answer = ("301 Moved", b"")
    front.headers = [("Location", "https://maps.example.org/wmts")]
    fault = look(publish())["wmts"]
    assert "redirects to https://maps.example.org/wmts" in fault.reason


@pytest.mark.parametrize("is_running", [True, False])
def test_an_address_where_no_server_listens_is_reported(publish: Publish, is_running: bool) -> None:
    found = look(publish(url="http://127.0.0.1:9"), is_running=is_running)
    assert "cannot be reached" in found["wmts"].reason
    assert found["wmts"].severity is (Severity.ERROR if is_running else Severity.WARNING)
    assert ("start the server" in found["wmts"].remedy) is not is_running


def test_an_unknown_host_name_is_reported(publish: Publish) -> None:
    assert "cannot be reached" in look(publish(url="http://nobody.invalid"))["wmts"].reason


@pytest.mark.parametrize("url", ["ftp://127.0.0.1", "file:///etc", "maps.example.org", "http://"])
def test_other_addresses_are_refused_without_a_request(publish: Publish, url: str) -> None:
    application = publish(url=url)
    count, faults = look_at_endpoints(
        application.site, application, "services.json", Environment({})
    )
    assert (count, faults) == (0, [])
    faults = address_faults(application.site, "services.json")
    assert len(faults) == 3
    assert {fault.severity for fault in faults} == {Severity.ERROR}


def test_an_address_that_is_not_set(publish: Publish) -> None:
    application = publish(
        wmts={"endpoint_uri": "http://localhost/wmts"},
        health={"endpoint_uri": "http://localhost/health"},
    )
    environment = Environment({})
    count, faults = look_at_endpoints(
        application.site, application, "services.json", environment, is_running=False
    )
    # Health is not requested at a default address.
    assert count == 2
    faults = address_faults(application.site, "services.json")
    assert any("its own machine" in fault.reason for fault in faults)
    assert all("health" not in fault.path for fault in faults)
