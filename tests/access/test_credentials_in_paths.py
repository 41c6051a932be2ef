"""A credential in the path leads to what is published, and to nothing that is for operators.

Front servers block paths such as ``/admin``. A segment that the server removes must not give such a
path another spelling.
"""

from __future__ import annotations

from itertools import count, product
from pathlib import Path
from typing import ClassVar

import pytest
from tests.access.identification.conftest import Credentials
from tests.key_gate import GatePlugin, KeyGate
from tests.support.everything import FRONT, SECRET, SERVICES, everything
from tests.tiny import tiny_installation
from werkzeug.test import Client

from mastaba import hookimpl
from mastaba.api.services import Service
from mastaba.api.tools import Application
from mastaba.api.web import Document, Request, Response
from mastaba.plugins.manager import Plugins
from mastaba.wsgi import create_application

FOR_CLIENTS = {"/usage", "/auth/session", "/auth/sign"}
"""Paths of services without views that clients ask for with a credential of their own."""

PATHS = {
    "admin": ("", "/layers", "/keys"),
    "auth": ("", "/check", "/check/wms", "/session", "/sign"),
    "health": ("", "/info", "/live", "/ready", "/threads", "/depends"),
    "metrics": ("",),
    "usage": ("",),
}


@pytest.fixture(scope="module")
def credentials(tmp_path_factory: pytest.TempPathFactory) -> Credentials:
    return Credentials(tmp_path_factory.mktemp("credentials"))


@pytest.fixture(scope="module")
def application(credentials: Credentials, tmp_path_factory: pytest.TempPathFactory) -> Application:
    return everything(tmp_path_factory.mktemp("everything"), credentials)


@pytest.fixture(scope="module")
def client(application: Application) -> Client:
    return Client(application, use_cookies=False)


def ways(root: str, below: str, key: str) -> list[str]:
    """Return the spellings of a path with a segment for a credential."""
    segments = (f"/~{key}", "/~", "/%7E", "/~mk_wrong")
    return [f"{one}{root}{below}" for one in segments] + [f"{root}{one}{below}" for one in segments]


@pytest.mark.parametrize("name", SERVICES)
def test_what_has_no_views_is_not_behind_a_credential(
    application: Application, client: Client, credentials: Credentials, name: str
) -> None:
    service = application.site.services[name]
    root = service.settings.root_path
    key = credentials.key(groups=["operators"])
    headers = {"X-Mastaba-Secret": SECRET, "X-Original-URI": "/wms"}
    numbers = count(1)
    for below in PATHS.get(name, ("",)):
        if root + below in FOR_CLIENTS:
            continue
        for path, method in product(ways(root, below, key), ("GET", "HEAD", "POST", "OPTIONS")):
            # Another client each time: too many wrong credentials are refused otherwise.
            headers["X-Forwarded-For"] = f"198.18.{next(numbers)}.1"
            answer = client.open(
                path, method=method, headers=headers, environ_base={"REMOTE_ADDR": FRONT}
            )
            if service.is_viewed:
                is_wrong = "mk_wrong" in path and method != "OPTIONS"
                assert (answer.status_code == 401) == is_wrong, (method, path)
            else:
                assert answer.status_code == 404, (method, path, answer.text)
                assert "X-Mastaba-Class" not in answer.headers
                assert "Allow" not in answer.headers


def test_without_a_credential_in_the_path_they_answer(
    client: Client, credentials: Credentials
) -> None:
    key = {"X-API-Key": credentials.key(groups=["operators"])}
    secret = {"X-Mastaba-Secret": SECRET}
    front = {"REMOTE_ADDR": FRONT}
    asked = {"X-Original-URI": "/wms"}
    assert client.get("/healthcheck/info", headers=key).status_code == 200
    assert client.get("/metrics", headers=key).status_code == 200
    assert client.get("/admin/keys", headers=secret).status_code == 200
    assert client.get("/auth/check", headers=asked, environ_base=front).status_code == 200
    assert client.get(f"/usage/~{key['X-API-Key']}").status_code == 200
    assert client.post(f"/auth/~{key['X-API-Key']}/sign").status_code == 200


@pytest.mark.parametrize("path", ["/~/admin", "/admin/~", "/~/healthcheck/info", "/~/metrics"])
def test_the_report_has_the_form_of_the_service(client: Client, path: str) -> None:
    plain = client.get(path)
    assert plain.mimetype in ("application/json", "text/plain")
    page = client.get(path, headers={"Accept": "text/html"})
    assert page.status_code == 404
    assert "Administration" not in page.text
    for name in ("/healthcheck", "/metrics", "/admin"):
        assert name not in page.text


def test_a_segment_elsewhere_is_no_credential(client: Client, credentials: Credentials) -> None:
    key = credentials.key(groups=["operators"])
    for path in ("/healthcheck/info/~x", "/metrics/x/~", "/auth/check/~x", "/x/~/admin"):
        for segment in ("~", f"~{key}", "%7E"):
            secret = {"X-Mastaba-Secret": SECRET, "X-Original-URI": "/wms"}
            target = path.replace("~", segment, 1)
            answer = client.get(target, headers=secret, environ_base={"REMOTE_ADDR": FRONT})
            assert answer.status_code in (400, 404), target


def test_documents_of_the_table_are_not_behind_a_credential(
    application: Application, client: Client, credentials: Credentials
) -> None:
    """Transports ask the table first: it must not know what the general path refuses."""
    key = credentials.key()
    assert client.get(f"/tms/~{key}/1.0.0").status_code == 200
    for root, below in (
        (application.site.services[name].settings.root_path, below)
        for name, paths in PATHS.items()
        for below in paths
    ):
        client.get(root + below)
        for path in ways(root, below, key):
            assert application.stored_tile(path, "", {"REMOTE_ADDR": "192.0.2.7"}) is None


class Notices(Service):
    """A service without views that publishes a constant document."""

    name = "notices"
    title = "Notices"
    default_root_path: ClassVar[str | None] = "/notices"
    is_viewed: ClassVar[bool] = False

    def respond(self, request: Request) -> Response:
        return Document(b"for operators", "text/plain").respond(request, is_constant=True)

    def error_response(self, error: Exception, request: Request) -> Response:
        return Response(404, [("Content-Type", "text/plain")], b"nothing")


class NoticesPlugin:
    @hookimpl
    def register_services(self) -> list[type[Service]]:
        return [Notices]


def test_constant_documents_of_operators_are_not_behind_a_credential(tmp_path: Path) -> None:
    file = tiny_installation(tmp_path, services_overrides={"notices": {"enabled": True}})
    gate = KeyGate(keys={"mk_one": ""})
    plugins = Plugins(extra={"gate": GatePlugin(gate), "notices": NoticesPlugin()})
    application = create_application(str(file), plugins)
    client = Client(application, use_cookies=False)
    assert client.get("/tms/~mk_one/1.0.0").status_code == 200
    for _ in range(2):
        assert client.get("/notices").text == "for operators"
        assert client.get("/notices/~mk_one").status_code == 404
        assert application.stored_tile("/notices/~mk_one", "", {}) is None
