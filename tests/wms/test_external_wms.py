"""GetFeatureInfo passed on to another server (layer.md section 8)."""

from __future__ import annotations

import gzip
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from lxml import etree
from werkzeug.test import Client, TestResponse

from mastaba.errors import NoResponseError
from mastaba_conformance.tiny_installation import tiny_integer_tile
from mastaba_http.fetch import MAX_BODY, Fetcher
from mastaba_storage.environment import Environment
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import web_mercator

Answer = tuple[int, dict[str, str], bytes]
Upstream = Callable[[Callable[[str], Answer]], AbstractContextManager[str]]
OpenClient = Callable[[Path], Client]
MapQuery = Callable[..., dict[str, str]]
Fault = Callable[[TestResponse], tuple[int, str, str | None]]

PLAIN = {"Content-Type": "text/plain"}


@pytest.fixture
def relay(
    tmp_path: Path, open_client: OpenClient, upstream: Upstream
) -> Callable[..., AbstractContextManager[Client]]:
    """Return a function that opens an installation whose layers ``remote`` ask a server."""

    @contextmanager
    def make(answer: Callable[[str], Answer], **fields: Any) -> Iterator[Client]:
        with upstream(answer) as url:
            descriptor = write_pyramid(
                tmp_path / "pyramids",
                "p",
                tile_matrix_set=web_mercator(),
                format="TIFF_RAW_UINT8",
                channels=1,
                levels=[LevelPlan("2", 1, 1, 2, 2)],
                tile=tiny_integer_tile(1),
            )
            forward = {
                "type": "EXTERNALWMS",
                "url": f"{url}/ows",
                "layers": "a,b",
                "query_layers": "b",
            } | fields
            server_json = write_installation(
                tmp_path,
                layers={
                    "remote": layer_document(descriptor, get_feature_info=forward),
                    "other": layer_document(descriptor, get_feature_info=forward),
                    "local": layer_document(descriptor, get_feature_info={"type": "PYRAMID"}),
                },
                services=["wms"],
                services_overrides={"global": {"map": {"limits": {"layers_count": 3}}}},
            )
            yield open_client(server_json)

    return make


Relay = Callable[..., AbstractContextManager[Client]]


def test_question_is_that_of_the_client(relay: Relay, info_query: MapQuery) -> None:
    asked: list[str] = []

    def answer(path: str) -> Answer:
        asked.append(path)
        return 200, PLAIN, b"answer"

    with relay(answer, extra_query_params="map=x%26y&width=9&Layers=z&token=a b") as client:
        query = info_query(
            LAYERS="remote",
            CRS="epsg:4326",
            BBOX="+10.50,20,4E1,70",
            INFO_FORMAT="text/plain",
            FEATURE_COUNT="7",
            STYLES="normal",
        )
        response = client.get("/wms", query_string=query)
    assert response.data == b"answer"
    (path,) = asked
    assert urlsplit(path).path == "/ows"
    assert parse_qs(urlsplit(path).query, keep_blank_values=True) == {
        "VERSION": ["1.3.0"],
        "SERVICE": ["WMS"],
        "REQUEST": ["GetFeatureInfo"],
        "STYLES": [""],
        "LAYERS": ["a,b"],
        "QUERY_LAYERS": ["b"],
        "INFO_FORMAT": ["text/plain"],
        "FORMAT": ["image/tiff"],
        "FEATURE_COUNT": ["7"],
        "CRS": ["EPSG:4326"],
        "WIDTH": ["80"],
        "HEIGHT": ["60"],
        "I": ["10"],
        "J": ["20"],
        "BBOX": ["+10.50,20,4E1,70"],
        "map": ["x&y"],
        "token": ["a b"],
    }


@pytest.mark.parametrize("end", ["?map=a", "?map=a&"])
def test_address_may_have_a_query(relay: Relay, info_query: MapQuery, end: str) -> None:
    asked: list[str] = []

    def answer(path: str) -> Answer:
        asked.append(path)
        return 200, PLAIN, b""

    with relay(answer) as client:
        site = client.application.site  # type: ignore[union-attr]
        info = site.catalogue.layers["remote"].feature_info
        object.__setattr__(info, "url", info.url + end)
        assert client.get("/wms", query_string=info_query(LAYERS="remote")).status_code == 200
    assert asked[0].startswith("/ows?map=a&VERSION=1.3.0&")


def test_answer_is_passed_on_but_may_do_nothing(relay: Relay, info_query: MapQuery) -> None:
    page = b"<html><script>alert(1)</script></html>"

    def answer(path: str) -> Answer:
        return 203, {"Content-Type": "text/html; charset=ISO-8859-1", "Set-Cookie": "a=b"}, page

    with relay(answer) as client:
        query = info_query(LAYERS="remote", INFO_FORMAT="text/html")
        response = client.get("/wms", query_string=query)
    assert (response.status_code, response.data) == (200, page)
    assert response.headers["Content-Type"] == "text/html; charset=ISO-8859-1"
    assert response.headers["Content-Security-Policy"] == "sandbox"
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert "Set-Cookie" not in response.headers


@pytest.mark.parametrize(
    "given", [None, "", "nonsense", "text/html\tx", "a/b; c=" + "d" * 5000 + "\x7f"]
)
def test_answer_without_a_proper_type_has_the_requested_one(
    relay: Relay, info_query: MapQuery, given: str | None
) -> None:
    headers = {} if given is None else {"Content-Type": given}
    with relay(lambda path: (200, headers, b"x")) as client:
        query = info_query(LAYERS="remote", INFO_FORMAT="application/json")
        response = client.get("/wms", query_string=query)
    assert response.headers["Content-Type"] == "application/json"


def test_packed_answer_is_unpacked(relay: Relay, info_query: MapQuery) -> None:
    packed = gzip.compress(b"answer")
    with relay(lambda path: (200, PLAIN | {"Content-Encoding": "gzip"}, packed)) as client:
        response = client.get("/wms", query_string=info_query(LAYERS="remote"))
    assert response.data == b"answer"
    assert "Content-Encoding" not in response.headers


def test_redirects_on_the_same_host_are_followed(relay: Relay, info_query: MapQuery) -> None:
    def answer(path: str) -> Answer:
        hops = path.count("x")
        if hops < 5:
            return 302, {"Location": f"/{'x' * (hops + 1)}"}, b""
        return 200, PLAIN, path.encode()

    with relay(answer) as client:
        response = client.get("/wms", query_string=info_query(LAYERS="remote"))
    assert response.data == b"/xxxxx"


HUGE = b"x" * (MAX_BODY + 1)
BOMB = gzip.compress(b"\0" * (4 * MAX_BODY), compresslevel=1)
FAILURES: list[Answer] = [
    (404, PLAIN, b"no"),
    (500, PLAIN, b"no"),
    (304, PLAIN, b""),
    (302, PLAIN, b"nowhere to go"),
    (302, {"Location": "/again"}, b""),
    (301, {"Location": "http://localhost:1/"}, b""),
    (307, {"Location": "http://169.254.169.254/latest/meta-data"}, b""),
    (302, {"Location": "file:///etc/passwd"}, b""),
    (302, {"Location": "ftp://127.0.0.1/"}, b""),
    (302, {"Location": "//evil.example/"}, b""),
    (302, {"Location": "http://127.0.0.1:bad/"}, b""),
    (302, {"Location": "http://[bad/"}, b""),
    (200, PLAIN, HUGE),
    (200, PLAIN | {"Content-Length": str(10**12)}, b"x"),
    (200, PLAIN | {"Content-Length": "1000"}, b"cut short"),
    (200, PLAIN | {"Content-Encoding": "gzip"}, BOMB),
    (200, PLAIN | {"Content-Encoding": "gzip"}, b"not gzip"),
    (200, PLAIN | {"Content-Encoding": "br"}, b"?"),
]


@pytest.mark.sampled(one_in=4)
@pytest.mark.parametrize("answer", FAILURES, ids=lambda a: f"{a[0]}-{'-'.join(a[1].values())[:40]}")
def test_failures_are_reported_as_bad_gateway(
    relay: Relay, info_query: MapQuery, fault: Fault, answer: Answer
) -> None:
    with relay(lambda path: answer) as client:
        response = client.get("/wms", query_string=info_query(LAYERS="remote"))
    assert fault(response) == (502, "NoApplicableCode", None)
    assert len(response.data) < 1000


def test_server_that_cannot_be_reached_is_reported(
    relay: Relay, info_query: MapQuery, fault: Fault
) -> None:
    with relay(lambda path: (200, PLAIN, b"")) as client:
        pass
    response = client.get("/wms", query_string=info_query(LAYERS="remote"))
    assert fault(response) == (502, "NoApplicableCode", None)
    assert b"127.0.0.1" not in response.data


def test_silent_server_is_given_up(
    relay: Relay, info_query: MapQuery, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MASTABA_NETWORK_TIMEOUT", "1")
    done: list[bool] = []

    def answer(path: str) -> Answer:
        for _ in range(600):
            if done:
                break
            time.sleep(0.05)
        return 200, PLAIN, b"late"

    with relay(answer) as client:
        response = client.get("/wms", query_string=info_query(LAYERS="remote"))
        done.append(True)
    assert fault(response) == (502, "NoApplicableCode", None)


def test_server_that_trickles_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    listener = socket.create_server(("127.0.0.1", 0))
    sent: list[int] = []

    def trickle() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            try:
                connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
                # Each byte comes well before the time of silence is over.
                for _ in range(1200):
                    connection.sendall(b"x")
                    sent.append(1)
                    time.sleep(0.05)
            except OSError:
                return

    thread = threading.Thread(target=trickle)
    thread.start()
    fetcher = Fetcher(Environment({"MASTABA_NETWORK_TIMEOUT": "1"}), "test")
    with pytest.raises(NoResponseError):
        fetcher.get(f"http://127.0.0.1:{listener.getsockname()[1]}/")
    thread.join()
    listener.close()
    assert len(sent) < 1200


def test_answers_of_several_layers_are_joined(relay: Relay, info_query: MapQuery) -> None:
    bodies = {
        "text/plain": b"remote says\r\n",
        "text/xml": b'<?xml version="1.0" encoding="ISO-8859-1"?>\n<r:a xmlns:r="urn:r"><b/></r:a>',
        "text/html": b"<html><BODY class='x'><p>remote</p></BODY></html>",
        "application/json": b'{"type":"FeatureCollection","features":[{"id":1},{"id":2}]}',
    }

    def answer(path: str) -> Answer:
        (name,) = parse_qs(urlsplit(path).query)["INFO_FORMAT"]
        return 200, {"Content-Type": name}, bodies[name]

    answers: dict[str, TestResponse] = {}
    with relay(answer) as client:
        for name in bodies:
            query = info_query(
                LAYERS="local,remote", INFO_FORMAT=name, BBOX="2600000,3000000,3400000,3600000"
            )
            answers[name] = client.get("/wms", query_string=query)
    for name, response in answers.items():
        assert (response.status_code, response.headers["Content-Type"]) == (200, name)
        assert response.headers["Content-Security-Policy"] == "sandbox"
    value, said = answers["text/plain"].text.split("\n")
    assert said == "remote says"
    root = etree.fromstring(answers["text/xml"].data)
    assert [child.tag for child in root] == ["Pixel", "{urn:r}a"]
    assert root.tag == "FeatureInfo"
    features = json.loads(answers["application/json"].data)["features"]
    assert features[0]["properties"] == {"pixel": [int(value)], "layer": "local"}
    assert features[1:] == [{"id": 1}, {"id": 2}]
    page = answers["text/html"].text
    assert "<p>remote</p>" in page
    assert page.count("<body") == 1


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("application/json", b"not json"),
        ("application/json", b"[1]"),
        ("application/json", b'{"features": 1}'),
        ("application/json", b"[" * 100_000),
        ("application/json", b'{"features": [NaN]}'),
        ("application/json", b'{"features": [1e999]}'),
        ("text/xml", b"not xml"),
        ("text/xml", b"<a>"),
        ("text/xml", b"<a/><b/>"),
        ("text/xml", b'<!DOCTYPE a [<!ENTITY e "x">]><a>&e;</a>'),
        ("text/xml", b""),
        ("text/xml", b"<a>" + b"<b/>" * 250_000 + b"</a>"),
    ],
)
def test_answers_that_cannot_be_joined_are_reported(
    relay: Relay, info_query: MapQuery, fault: Fault, name: str, body: bytes
) -> None:
    with relay(lambda path: (200, {"Content-Type": name}, body)) as client:
        query = info_query(LAYERS="remote,other", INFO_FORMAT=name)
        response = client.get("/wms", query_string=query)
    assert fault(response) == (502, "NoApplicableCode", None)


def test_half_of_a_surrogate_pair_does_not_end_in_an_error(
    relay: Relay, info_query: MapQuery
) -> None:
    body = rb'{"features": [{"id": "a\ud800b\udc00", "\udfff": "\ud83d\uddfa"}]}'
    with relay(lambda path: (200, {"Content-Type": "application/json"}, body)) as client:
        query = info_query(LAYERS="remote,other", INFO_FORMAT="application/json")
        response = client.get("/wms", query_string=query)
    assert response.status_code == 200
    features = json.loads(response.data)["features"]
    assert features[0] == {"id": "a\ufffdb\ufffd", "\ufffd": "\U0001f5fa"}


@pytest.mark.parametrize(
    ("page", "inside"),
    [
        (b"<body" * 50_000, b"<body" * 50_000),
        (b"<body>" + b"</body" * 40_000, b"</body" * 39_999),
        (b"<BODY a='b'>x</body >y", b"x"),
        (b"no page", b"no page"),
        (b"<body>open", b"<body>open"),
        (b"</body><body>x", b"</body><body>x"),
    ],
    ids=["opens", "closes", "attributes", "no page", "open", "reversed"],
)
def test_the_body_of_a_page_is_taken_out(
    relay: Relay, info_query: MapQuery, page: bytes, inside: bytes
) -> None:
    with relay(lambda path: (200, {"Content-Type": "text/html"}, page)) as client:
        query = info_query(LAYERS="remote,local", INFO_FORMAT="text/html")
        response = client.get("/wms", query_string=query)
    assert response.status_code == 200
    assert response.data.partition(b"<body>\n")[2].startswith(inside + b"\n<h2>local</h2>")


@pytest.mark.parametrize(
    ("given", "is_passed_on"),
    [
        ("text/xml; subtype=gml/3.1.1", True),
        ('application/geo+json; a="b c"', True),
        ("a/b" + "; c= d" * 40, True),
        ("a/b" + "; c= d" * 4000, False),
        ("a/b c", False),
        ("a/b; c=\xe9", False),
    ],
)
def test_types_that_are_passed_on(
    relay: Relay, info_query: MapQuery, given: str, is_passed_on: bool
) -> None:
    with relay(lambda path: (200, {"Content-Type": given}, b"x")) as client:
        query = info_query(LAYERS="remote", INFO_FORMAT="text/plain")
        response = client.get("/wms", query_string=query)
    assert response.headers["Content-Type"] == (given if is_passed_on else "text/plain")


def test_old_version_is_requested_as_1_3_0(relay: Relay, info_query: MapQuery) -> None:
    asked: list[str] = []

    def answer(path: str) -> Answer:
        asked.append(path)
        return 200, PLAIN, b""

    with relay(answer) as client:
        query = info_query(
            LAYERS="remote",
            VERSION="1.1.1",
            CRS=None,
            SRS="EPSG:4326",
            BBOX="20,10,70,40",
            I=None,
            J=None,
            X="1",
            Y="2",
        )
        assert client.get("/wms", query_string=query).status_code == 200
    forwarded = parse_qs(urlsplit(asked[0]).query)
    assert forwarded["BBOX"] == ["10.0,20.0,40.0,70.0"]
    assert (forwarded["I"], forwarded["J"], forwarded["VERSION"]) == (["1"], ["2"], ["1.3.0"])
