"""The WSGI application: routing, methods, switches, failures and CORS."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
from werkzeug.test import Client

from mastaba.errors import (
    OverloadedError,
    RequestError,
    StorageUnavailableError,
    UnsupportedOperationError,
)
from mastaba.services.base import Service
from mastaba.site.application import Application
from mastaba_server import cancellation
from mastaba_server.body import SpooledBody, spooled
from mastaba_server.messages import CLIENT
from mastaba_server.web.request import Request
from mastaba_server.web.response import Response, message

OpenApplication = Callable[..., Application]

TILE = "/tiles/RGB_PNG/normal/4/5/9"


class Echo(Service):
    """Answers with its name and the path below its root path."""

    title: ClassVar[str] = "Echo"
    allowed_methods: ClassVar[tuple[str, ...]] = ("GET", "POST")

    def respond(self, request: Request) -> Response:
        body = f"{self.name}|{request.method}|{request.path}|{request.query_string}"
        if request.method == "POST":
            body += f"|{len(request.body())}"
        return message(200, body, "text/plain")

    def error_response(self, error: Exception, request: Request) -> Response:
        status = 400 if isinstance(error, RequestError) else 500
        return message(status, f"{self.name} reports", "text/plain")


class Alpha(Echo):
    name: ClassVar[str] = "alpha"


class Beta(Echo):
    name: ClassVar[str] = "beta"


class WMS(Echo):
    name: ClassVar[str] = "wms"


class TMS(Echo):
    name: ClassVar[str] = "tms"


class Failing(Echo):
    """Raises what the test puts into ``failure``."""

    name: ClassVar[str] = "failing"
    failure: ClassVar[BaseException | None] = None
    failure_of_report: ClassVar[Exception | None] = None
    result: ClassVar[Any] = None

    def respond(self, request: Request) -> Response:
        if self.failure is not None:
            raise self.failure
        return self.result  # type: ignore[no-any-return]

    def error_response(self, error: Exception, request: Request) -> Response:
        if self.failure_of_report is not None:
            raise self.failure_of_report
        return super().error_response(error, request)


@pytest.fixture
def open_client(open_application: OpenApplication) -> Callable[..., Client]:
    def open_it(*services: type[Service], **overrides: Any) -> Client:
        sections = {service.name: {"enabled": True} for service in services}
        for name, section in overrides.items():
            sections[name] = {**sections.get(name, {}), **section}
        return Client(open_application(None, *services, services_overrides=sections))

    return open_it


@pytest.mark.parametrize(
    ("path", "answered"),
    [
        ("/alpha", "alpha|GET||"),
        ("/alpha/", "alpha|GET||"),
        ("/alpha?a=1", "alpha|GET||a=1"),
        ("/alpha/b/c", "alpha|GET|/b/c|"),
        ("/alpha/b/c/", "alpha|GET|/b/c|"),
        ("/alpha//b", "alpha|GET|//b|"),
        ("/alpha/b%2Fc", "alpha|GET|/b/c|"),
        ("/alpha/caf%C3%A9", "alpha|GET|/café|"),
        ("/alpha/%FF", "alpha|GET|/\ufffd|"),
        ("/beta/deep/x", "beta|GET|/x|"),
    ],
)
def test_first_path_elements_pick_the_service(
    path: str, answered: str, open_client: Callable[..., Client]
) -> None:
    client = open_client(Alpha, Beta, beta={"root_path": "/beta/deep"})
    assert client.get(path).text == answered


@pytest.mark.parametrize(
    "path",
    ["/alphafoo", "/alph", "/ALPHA", "/foo/alpha", "/beta", "/beta/deepfoo", "/x//alpha", "/."],
)
def test_path_that_only_begins_like_a_root_path_is_unknown(
    path: str, open_client: Callable[..., Client]
) -> None:
    response = open_client(Alpha, Beta, beta={"root_path": "/beta/deep"}).get(path)

    assert response.status_code == 404
    assert response.json == {
        "error": "Not Found",
        "error_description": "Unknown request path",
    }


def test_longest_root_path_answers(open_client: Callable[..., Client]) -> None:
    client = open_client(
        Alpha, Beta, alpha={"root_path": "/maps"}, beta={"root_path": "/maps/old/beta"}
    )

    assert client.get("/maps/old/beta/x").text == "beta|GET|/x|"
    assert client.get("/maps/old/x").text == "alpha|GET|/old/x|"
    assert client.get("/maps").text == "alpha|GET||"


def test_tms_answers_before_wms_at_the_same_root_path(open_client: Callable[..., Client]) -> None:
    client = open_client(WMS, TMS, wms={"root_path": "/maps"}, tms={"root_path": "/maps"})
    assert client.get("/maps").text == "tms|GET||"


@pytest.mark.parametrize("service", [Alpha, WMS])
def test_service_at_the_root_takes_all_that_no_other_one_answers(
    service: type[Service], open_client: Callable[..., Client]
) -> None:
    client = open_client(service, Beta, **{service.name: {"root_path": "/"}})

    assert client.get("/").text == f"{service.name}|GET||"
    assert client.get("/x/y").text == f"{service.name}|GET|/x/y|"
    assert client.get("/beta/x").text == "beta|GET|/x|"


@pytest.mark.parametrize("root_path", ["maps/alpha", "/maps/alpha/", "maps/alpha/"])
def test_root_path_needs_no_slashes_at_its_ends(
    root_path: str, open_client: Callable[..., Client]
) -> None:
    client = open_client(Alpha, alpha={"root_path": root_path})
    assert client.get("/maps/alpha/x").text == "alpha|GET|/x|"


@pytest.mark.parametrize("root_path", ["/a.c", "/a+", "/(x)", "/[a-z]"])
def test_root_path_is_literal(root_path: str, open_client: Callable[..., Client]) -> None:
    client = open_client(Alpha, alpha={"root_path": root_path})

    assert client.get(root_path).text == "alpha|GET||"
    assert client.get("/abc").status_code == 404


def test_disabled_service_is_unknown(open_client: Callable[..., Client]) -> None:
    assert open_client(Alpha, alpha={"enabled": False}).get("/alpha").status_code == 404


def test_path_split_by_the_front_server_is_put_together(
    open_client: Callable[..., Client],
) -> None:
    client = open_client(Alpha)
    environ = {"SCRIPT_NAME": "/alp", "PATH_INFO": "ha/x"}
    assert client.get("/", environ_overrides=environ).text == "alpha|GET|/x|"


@pytest.mark.parametrize("script_name", ["", "/"])
def test_empty_path_is_the_root(script_name: str, open_client: Callable[..., Client]) -> None:
    environ = {"SCRIPT_NAME": script_name, "PATH_INFO": ""}
    response = open_client(Alpha).get("/", environ_overrides=environ)
    assert response.status_code == 200
    assert "<Services" in response.text


@pytest.mark.parametrize("path", ["/", "/alpha", TILE])
def test_services_turned_off_answer_503(path: str, open_application: OpenApplication) -> None:
    sections = {"enabled": False, "alpha": {"enabled": True}}
    client = Client(open_application(None, Alpha, services_overrides=sections))

    response = client.get(path)
    assert response.status_code == 503
    assert response.json is not None
    assert response.json["error"] == "Service unavailable"
    assert client.get("/healthcheck").json["status"] == "DISABLED"  # type: ignore[index]


@pytest.mark.parametrize("path", ["/alpha", "/", TILE, "/healthcheck", "/unknown"])
def test_head_is_get_without_its_body(path: str, open_client: Callable[..., Client]) -> None:
    client = open_client(Alpha)
    full, head = client.get(path), client.head(path)

    assert head.data == b""
    assert head.status_code == full.status_code
    assert dict(head.headers) == dict(full.headers)
    assert int(head.headers["Content-Length"]) == len(full.data) > 0


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/alpha", {"GET", "POST", "HEAD", "OPTIONS"}),
        (TILE, {"GET", "HEAD", "OPTIONS"}),
        ("/", {"GET", "HEAD", "OPTIONS"}),
        ("/healthcheck", {"GET", "HEAD", "OPTIONS"}),
    ],
)
def test_options_and_refusals_tell_the_methods(
    path: str, allowed: set[str], open_client: Callable[..., Client]
) -> None:
    client = open_client(Alpha)

    answer = client.options(path)
    assert (answer.status_code, answer.data) == (204, b"")
    assert "Content-Length" not in answer.headers
    assert set(answer.headers["Allow"].split(", ")) == allowed

    for method in ("PUT", "DELETE", "PATCH", "TRACE", "BREW"):
        refusal = client.open(path, method=method)
        assert refusal.status_code == 405
        assert set(refusal.headers["Allow"].split(", ")) == allowed


def test_post_reaches_a_service_that_takes_it(open_client: Callable[..., Client]) -> None:
    client = open_client(Alpha)

    assert client.post("/alpha?x", data=b"12345").text == "alpha|POST||x|5"
    assert client.post(TILE, data=b"12345").status_code == 405


def test_body_beyond_the_limit_is_an_error_of_the_request(
    open_client: Callable[..., Client], caplog: pytest.LogCaptureFixture
) -> None:
    response = open_client(Alpha).post("/alpha", data=bytes(1024 * 1024 + 1))

    assert response.status_code == 400
    assert response.text == "alpha reports"
    assert caplog.records == []


@pytest.mark.parametrize(
    "failure",
    [
        ValueError("secret /etc/passwd"),
        KeyError("x"),
        RuntimeError(),
        RecursionError("deep"),
        MemoryError(),
        AssertionError("no"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
        ExceptionGroup("many", [ValueError("one"), OSError("two")]),
    ],
)
def test_unexpected_failure_is_logged_with_its_traceback_and_hidden_from_the_client(
    failure: Exception,
    open_client: Callable[..., Client],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(Failing, "failure", failure)
    client = open_client(Failing)

    response = client.get("/failing/x?a=1")

    assert response.status_code == 500
    assert response.text == "failing reports"
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert "/failing/x?a=1" in record.getMessage()
    assert record.exc_info is not None
    assert record.exc_info[1] is failure
    assert client.get(TILE).status_code == 200


def test_failing_storage_is_one_log_line_without_traceback(
    open_client: Callable[..., Client],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(Failing, "failure", StorageUnavailableError("s3://b/k does not answer"))

    response = open_client(Failing).get("/failing")

    assert response.status_code == 500
    assert "s3://" not in response.text
    (record,) = caplog.records
    assert "s3://b/k does not answer" in record.getMessage()
    assert record.exc_info is None


def test_error_of_the_request_is_not_logged(
    open_client: Callable[..., Client],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(Failing, "failure", UnsupportedOperationError("not here"))

    assert open_client(Failing).get("/failing").status_code == 400
    assert caplog.records == []


def test_failing_report_of_a_failure_is_a_plain_500(
    open_client: Callable[..., Client],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(Failing, "failure", ValueError("first"))
    monkeypatch.setattr(Failing, "failure_of_report", KeyError("second"))

    response = open_client(Failing).get("/failing")

    assert response.status_code == 500
    assert response.json == {"error": "Internal issue", "error_description": "Routing error"}
    assert len(caplog.records) == 2


@pytest.mark.parametrize("result", [None, "text", (200, [], b""), Response(799, [], b"")])
def test_service_that_returns_no_answer_is_a_failure(
    result: Any,
    open_client: Callable[..., Client],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(Failing, "result", result)

    assert open_client(Failing).get("/failing").status_code == 500
    assert len(caplog.records) == 1


def test_response_that_a_service_sends_again_keeps_its_headers(
    open_client: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Failing, "result", message(200, "again", "text/plain"))
    client = open_client(Failing, **{"global": {"cors": True}})

    first, second = client.get("/failing"), client.get("/failing")
    assert list(first.headers) == list(second.headers)


@pytest.mark.parametrize("path", [TILE, "/", "/healthcheck", "/unknown"])
def test_without_the_setting_no_cors_header_is_sent(
    path: str, open_client: Callable[..., Client]
) -> None:
    response = open_client().get(path, headers={"Origin": "http://a.example"})

    assert "Access-Control" not in str(response.headers)


@pytest.mark.parametrize("cors", [True, "*"])
@pytest.mark.parametrize("path", [TILE, "/", "/unknown"])
def test_cors_for_all_origins_is_on_every_answer(
    cors: bool | str, path: str, open_client: Callable[..., Client]
) -> None:
    response = open_client(**{"global": {"cors": cors}}).get(path)

    assert response.headers.getlist("Access-Control-Allow-Origin") == ["*"]


@pytest.mark.parametrize("cors", ["https://b.example", ["https://a.example", "https://b.example"]])
@pytest.mark.parametrize("path", [TILE, "/", "/unknown"])
def test_cors_for_some_origins_answers_the_one_that_asks(
    cors: Any, path: str, open_client: Callable[..., Client]
) -> None:
    """Fetch standard, CORS protocol and HTTP caches: Vary also where the origin is not listed."""
    client = open_client(**{"global": {"cors": cors}})

    for origin in (None, "https://c.example", "https://b.example:8443", "null", "*"):
        response = client.get(path, headers={} if origin is None else {"Origin": origin})
        assert "Access-Control" not in str(response.headers)
        assert "Origin" in response.headers.getlist("Vary")
    listed = client.get(path, headers={"Origin": "https://b.example"})
    assert listed.headers.getlist("Access-Control-Allow-Origin") == ["https://b.example"]
    assert "Origin" in listed.headers.getlist("Vary")


def test_cors_list_is_on_304_and_preflight(open_client: Callable[..., Client]) -> None:
    client = open_client(Alpha, **{"global": {"cors": ["https://a.example", "https://b.example"]}})
    headers = {"Origin": "https://b.example", "If-None-Match": client.get(TILE).headers["ETag"]}

    response = client.get(TILE, headers=headers)
    assert response.status_code == 304
    assert response.headers["Access-Control-Allow-Origin"] == "https://b.example"
    headers = {"Origin": "https://b.example", "Access-Control-Request-Method": "GET"}
    response = client.options("/alpha", headers=headers)
    assert response.headers["Access-Control-Allow-Origin"] == "https://b.example"
    assert "GET" in response.headers["Access-Control-Allow-Methods"]


def test_star_in_a_list_is_every_origin(open_client: Callable[..., Client]) -> None:
    response = open_client(**{"global": {"cors": ["https://a.example", "*"]}}).get(TILE)

    assert response.headers["Access-Control-Allow-Origin"] == "*"


def test_cors_is_on_an_answer_without_body(open_client: Callable[..., Client]) -> None:
    client = open_client(**{"global": {"cors": True}})
    etag = client.get(TILE).headers["ETag"]

    response = client.get(TILE, headers={"If-None-Match": etag})
    assert response.status_code == 304
    assert response.headers["Access-Control-Allow-Origin"] == "*"


def test_preflight_allows_what_the_service_takes(open_client: Callable[..., Client]) -> None:
    headers = {
        "Origin": "http://a.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "X-Mastaba-Secret",
    }
    response = open_client(Alpha, **{"global": {"cors": True}}).options("/alpha", headers=headers)

    assert response.status_code == 204
    assert "POST" in response.headers["Access-Control-Allow-Methods"]
    assert response.headers["Access-Control-Allow-Origin"] == "*"
    assert response.headers["Access-Control-Allow-Headers"] == "*"


def test_preflight_without_the_setting_allows_nothing(open_client: Callable[..., Client]) -> None:
    headers = {"Origin": "http://a.example", "Access-Control-Request-Method": "POST"}
    response = open_client(Alpha).options("/alpha", headers=headers)

    assert response.status_code == 204
    assert "Access-Control" not in str(response.headers)


def test_each_service_may_have_its_own_cors_setting(open_client: Callable[..., Client]) -> None:
    origin = {"Origin": "https://a.example"}
    asked = {**origin, "Access-Control-Request-Method": "GET"}
    client = open_client(Alpha, tiles={"enabled": True, "cors": ["https://a.example"]})
    for _ in range(2):
        response = client.get(TILE, headers=origin)
        assert response.headers.getlist("Access-Control-Allow-Origin") == ["https://a.example"]
        assert response.headers["Vary"] == "Origin"
    assert "Access-Control-Allow-Methods" in client.options(TILE, headers=asked).headers
    for path in ("/alpha", "/nothing"):
        assert "Access-Control" not in str(client.get(path, headers=origin).headers)
        assert "Access-Control" not in str(client.options(path, headers=asked).headers)


def test_cors_setting_of_all_services_precedes_their_own(
    open_client: Callable[..., Client],
) -> None:
    client = open_client(
        **{"global": {"cors": True}, "tiles": {"enabled": True, "cors": "https://a.example"}}
    )
    assert client.get(TILE).headers.getlist("Access-Control-Allow-Origin") == ["*"]


def test_swapped_site_answers_the_next_request(
    open_application: OpenApplication, tmp_path: Path
) -> None:
    application, other = open_application(None, Alpha), open_application()
    client = Client(application)
    assert client.get("/alpha").status_code == 200

    application.swap(other.site)
    assert client.get("/alpha").status_code == 404
    assert client.get(TILE).status_code == 200


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_body_in_a_file_is_sent_and_closed(
    method: str, open_client: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = bytes(range(256)) * 20_000
    body = spooled([data])
    assert isinstance(body, SpooledBody)
    monkeypatch.setattr(Failing, "result", Response(200, [], body))
    with open_client(Failing).open("/failing", method=method) as answer:
        assert answer.headers["Content-Length"] == str(len(data))
        assert answer.data == (data if method == "GET" else b"")
    with pytest.raises(ValueError, match="closed file"):
        b"".join(body)


class Long(Echo):
    """Goes on for ever, but for its checks."""

    name: ClassVar[str] = "long"

    def respond(self, request: Request) -> Response:
        while True:
            cancellation.check()


class Gone:
    """A client that has hung up."""

    def is_gone(self) -> bool:
        return True


def test_a_request_beyond_its_time_is_answered_with_503(
    open_application: OpenApplication, caplog: pytest.LogCaptureFixture
) -> None:
    application = open_application(None, Long, services_overrides={"long": {"enabled": True}})
    application.site.request_timeout = 0.1
    application.swap(application.site)
    answer = Client(application).get("/long")
    assert (answer.status_code, answer.text) == (503, "long reports")
    assert answer.headers["Retry-After"] == "10"
    assert caplog.records == []


def test_the_request_of_a_client_that_has_gone_is_cancelled_without_an_error(
    open_client: Callable[..., Client], caplog: pytest.LogCaptureFixture
) -> None:
    answer = open_client(Long).get("/long", environ_overrides={CLIENT: Gone()})
    assert answer.status_code == 499
    assert caplog.records == []


def test_an_overloaded_server_says_when_to_come_back(
    open_client: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Failing, "failure", OverloadedError("later", retry_after=3))
    answer = open_client(Failing).get("/failing")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "3")
