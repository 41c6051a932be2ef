"""FastCGI records become environments of PEP 3333; invalid records are refused."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from mastaba_server.transport.connection import Limits


def echo(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    """Answer with the parameters and the body."""
    body = environ["wsgi.input"].read()
    lines = [f"{k}={v}" for k, v in sorted(environ.items()) if not k.startswith("wsgi.")]
    answer = "\n".join(lines).encode("latin-1") + b"\n\n" + body
    start_response("200 OK", [("Content-Length", str(len(answer)))])
    return [answer]


def small(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]


def parameters(body: bytes) -> dict[str, str]:
    lines = body.partition(b"\n\n")[0].decode("latin-1").split("\n")
    return dict(line.partition("=")[::2] for line in lines)


def test_a_request_is_answered(serve: Any) -> None:
    client = serve(small).connect()
    answer = client.ask({"PATH_INFO": "/a"})
    assert answer.status == "200 OK"
    assert answer.headers == {"Content-Length": "2"}
    assert answer.body == b"ok"
    assert answer.protocol_status == 0


def test_a_kept_connection_serves_many_requests(serve: Any) -> None:
    client = serve(echo).connect()
    for number in range(50):
        assert parameters(client.ask({"PATH_INFO": f"/{number}"}).body)["PATH_INFO"] == f"/{number}"


def test_parameters_do_not_leak_into_the_next_request(serve: Any) -> None:
    client = serve(echo).connect()
    client.ask({"HTTP_X": "secret", "QUERY_STRING": "a=b"})
    found = parameters(client.ask({}).body)
    assert "HTTP_X" not in found
    assert found["QUERY_STRING"] == ""


def test_parameters_cannot_replace_what_wsgi_reserves(serve: Any) -> None:
    def reserved(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        found = {key: value for key, value in environ.items() if key.startswith("wsgi.")}
        found["wsgi.errors"].write("")
        answer = repr({key: found[key] for key in ("wsgi.input_terminated", "wsgi.version")})
        start_response("200 OK", [("Content-Length", str(len(answer)))])
        return [answer.encode()]

    names = ("wsgi.errors", "wsgi.input", "wsgi.input_terminated", "wsgi.version")
    client = serve(reserved).connect()
    answer = client.ask(dict.fromkeys(names, "x"))
    assert answer.body == b"{'wsgi.input_terminated': True, 'wsgi.version': (1, 0)}"


def test_parameters_cannot_pass_for_keys_of_the_application(serve: Any) -> None:
    client = serve(echo).connect()
    names = ("mastaba_wms.parameters", "mastaba.tile", "mastaba.failure", "a.b", ".")
    # Also after parameters were recognised, and while others change.
    for number in range(200):
        found = parameters(client.ask({"A": str(number), **dict.fromkeys(names, str(number))}).body)
        assert found.keys().isdisjoint(names)
        assert found["A"] == str(number)


def test_a_connection_that_is_not_kept_is_closed(serve: Any) -> None:
    client = serve(small).connect()
    assert client.ask(keep=False).body == b"ok"
    assert client.is_closed()


def test_requests_may_be_pipelined(serve: Any, protocol: Any) -> None:
    client = serve(small).connect()
    client.send(*[protocol.request(request_id=number) for number in (1, 2, 700)])
    assert [client.answer(number).body for number in (1, 2, 700)] == [b"ok"] * 3


@pytest.mark.parametrize("threads", [1, 3])
def test_a_request_may_arrive_byte_by_byte(serve: Any, protocol: Any, threads: int) -> None:
    client = serve(echo, threads=threads).connect()
    for byte in protocol.request({"PATH_INFO": "/slow", "CONTENT_LENGTH": "4"}, b"body"):
        client.send(bytes([byte]))
    answer = client.answer()
    assert parameters(answer.body)["PATH_INFO"] == "/slow"
    assert answer.body.endswith(b"\n\nbody")


def test_pairs_may_span_records(serve: Any, protocol: Any) -> None:
    client = serve(echo).connect()
    encoded = protocol.pairs({"QUERY_STRING": "q" * 300, "HTTP_ACCEPT": "x"})
    client.send(protocol.begin())
    for start in range(0, len(encoded), 7):
        client.send(protocol.record(protocol.PARAMS, encoded[start : start + 7], padding=start % 5))
    client.send(protocol.record(protocol.PARAMS), protocol.record(protocol.STDIN))
    found = parameters(client.answer().body)
    assert found["QUERY_STRING"] == "q" * 300
    assert found["HTTP_ACCEPT"] == "x"


def test_values_are_bytes_in_latin_1(serve: Any) -> None:
    client = serve(echo).connect()
    path = "/é".encode().decode("latin-1")
    assert parameters(client.ask({"PATH_INFO": path}).body)["PATH_INFO"] == path


def test_missing_parameters_have_the_values_of_pep_3333(serve: Any, protocol: Any) -> None:
    client = serve(echo).connect()
    client.send(protocol.begin(), protocol.record(protocol.PARAMS), protocol.record(protocol.STDIN))
    found = parameters(client.answer().body)
    for name in ("SCRIPT_NAME", "PATH_INFO", "QUERY_STRING"):
        assert found[name] == ""
    assert found["REQUEST_METHOD"] == "GET"
    assert {"SERVER_NAME", "SERVER_PORT", "SERVER_PROTOCOL"} <= found.keys()


def test_the_keys_of_wsgi_are_present(serve: Any) -> None:
    seen: dict[str, Any] = {}

    def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        seen.update(environ)
        return small(environ, start_response)

    serve(application, threads=2).connect().ask({"HTTPS": "on"})
    assert seen["wsgi.version"] == (1, 0)
    assert seen["wsgi.url_scheme"] == "https"
    assert seen["wsgi.multithread"] is True
    assert seen["wsgi.multiprocess"] is True
    assert seen["wsgi.run_once"] is False
    assert type(seen["QUERY_STRING"]) is str


# Bodies


@pytest.mark.parametrize("declared", [None, "", "0"])
def test_requests_without_body(serve: Any, declared: str | None) -> None:
    params = {} if declared is None else {"CONTENT_LENGTH": declared}
    assert serve(echo).connect().ask(params).body.endswith(b"\n\n")


@pytest.mark.parametrize("size", [1, 65535, 65536, 1_000_000])
@pytest.mark.parametrize("declared", [True, False])
def test_a_body_arrives_whole(serve: Any, size: int, declared: bool) -> None:
    body = bytes(number % 251 + 1 for number in range(1000)) * (size // 1000 + 1)
    body = body[:size].replace(b"\n", b"-")
    params = {"REQUEST_METHOD": "POST"}
    if declared:
        params["CONTENT_LENGTH"] = str(size)
    answer = serve(echo).connect().ask(params, body)
    assert answer.body.partition(b"\n\n")[2] == body


def test_a_body_ends_at_its_declared_length(serve: Any) -> None:
    answer = serve(echo).connect().ask({"CONTENT_LENGTH": "3"}, b"abcdef")
    assert answer.body.endswith(b"\n\nabc")


def test_a_huge_body_is_dropped_beyond_the_bound(serve: Any) -> None:
    def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        received = len(environ["wsgi.input"].read())
        start_response("413 Content Too Large", [("X-Received", str(received))])
        return []

    client = serve(application, limits=Limits(body=100_000)).connect()
    answer = client.ask({"CONTENT_LENGTH": "10000000"}, bytes(10_000_000))
    assert answer.status == "413 Content Too Large"
    assert answer.headers["X-Received"] == "100000"
    assert client.ask().status == "413 Content Too Large"


# Management records, other requests on the connection


def test_get_values(serve: Any, protocol: Any) -> None:
    client = serve(small).connect()
    asked = protocol.pairs({"FCGI_MAX_CONNS": "", "FCGI_MPXS_CONNS": "", "FCGI_OTHER": ""})
    client.send(protocol.record(protocol.GET_VALUES, asked, request_id=0))
    found = client.read_record()
    assert (found.kind, found.request_id) == (protocol.VALUES, 0)
    assert protocol.encode_pair(b"FCGI_MPXS_CONNS", b"0") in found.content
    assert b"FCGI_MAX_CONNS" in found.content
    assert b"FCGI_OTHER" not in found.content
    assert client.ask().body == b"ok"


@pytest.mark.parametrize("kind", [12, 99, 255])
def test_unknown_types_are_answered(serve: Any, protocol: Any, kind: int) -> None:
    client = serve(small).connect()
    client.send(protocol.record(kind, b"something", request_id=0))
    found = client.read_record()
    assert (found.kind, found.request_id) == (protocol.UNKNOWN, 0)
    assert found.content == bytes([kind]) + bytes(7)
    assert client.ask().body == b"ok"


def test_a_second_request_at_the_same_time_is_refused(serve: Any, protocol: Any) -> None:
    client = serve(echo).connect()
    client.send(protocol.begin(request_id=1), protocol.request({"PATH_INFO": "/2"}, request_id=2))
    refusal = client.answer(2)
    assert refusal.protocol_status == 1
    assert refusal.status == ""
    client.send(protocol.request({"PATH_INFO": "/1"})[16:])
    assert parameters(client.answer().body)["PATH_INFO"] == "/1"


@pytest.mark.parametrize("keep", [True, False])
def test_other_roles_are_refused(serve: Any, keep: bool) -> None:
    client = serve(small).connect()
    assert client.ask(role=2, keep=keep).protocol_status == 3
    if keep:
        assert client.ask().body == b"ok"
    else:
        assert client.is_closed()


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("complete", [True, False])
def test_an_aborted_request_is_ended_unserved(
    serve: Any, protocol: Any, keep: bool, complete: bool
) -> None:
    served: list[str] = []

    def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        served.append(environ["PATH_INFO"])
        return small(environ, start_response)

    client = serve(application).connect()
    client.send(protocol.begin(keep=keep), protocol.record(protocol.PARAMS, b"\x01"))
    client.send(protocol.record(protocol.ABORT))
    assert client.answer().protocol_status == 0
    if keep:
        assert client.ask({"PATH_INFO": "/next"}).body == b"ok"
        assert served == ["/next"]
    else:
        assert client.is_closed()
        assert served == []


def test_records_of_unknown_requests_are_ignored(serve: Any, protocol: Any) -> None:
    client = serve(small).connect()
    for kind in (protocol.ABORT, protocol.PARAMS, protocol.STDIN, protocol.DATA):
        client.send(protocol.record(kind, b"x", request_id=5))
    assert client.ask().body == b"ok"


# Nonsense


@pytest.mark.parametrize(
    "nonsense",
    [
        pytest.param(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", id="http"),
        pytest.param(bytes(64), id="zeros"),
        pytest.param(b"\xff" * 100_000, id="ones"),
        pytest.param(struct.pack("!BBHHBx", 2, 1, 1, 8, 0) + bytes(8), id="version 2"),
        pytest.param(struct.pack("!BBHHBx", 1, 1, 1, 3, 0) + bytes(3), id="short begin"),
        pytest.param(struct.pack("!BBHHBx", 1, 1, 0, 8, 0) + bytes(8), id="begin without id"),
        pytest.param(
            struct.pack("!BBHHBx", 1, 1, 1, 8, 0)
            + b"\0\1\1\0\0\0\0\0"
            + struct.pack("!BBHHBx", 1, 4, 1, 4, 0)
            + b"\x7f\x7fab"
            + struct.pack("!BBHHBx", 1, 4, 1, 0, 0),
            id="pair beyond the end",
        ),
        pytest.param(
            struct.pack("!BBHHBx", 1, 1, 1, 8, 0)
            + b"\0\1\1\0\0\0\0\0"
            + struct.pack("!BBHHBx", 1, 4, 1, 5, 0)
            + b"\xff\xff\xff\xff\x00"
            + struct.pack("!BBHHBx", 1, 4, 1, 0, 0),
            id="pair of 2 GiB",
        ),
        pytest.param(
            (struct.pack("!BBHHBx", 1, 1, 1, 8, 0) + b"\0\1\1\0\0\0\0\0") * 2, id="begin twice"
        ),
        pytest.param(
            struct.pack("!BBHHBx", 1, 1, 1, 8, 0)
            + b"\0\1\1\0\0\0\0\0"
            + struct.pack("!BBHHBx", 1, 5, 1, 0, 0),
            id="body without parameters",
        ),
        pytest.param(
            struct.pack("!BBHHBx", 1, 1, 1, 8, 0)
            + b"\0\1\1\0\0\0\0\0"
            + struct.pack("!BBHHBx", 1, 4, 1, 0, 0) * 2,
            id="parameters end twice",
        ),
        pytest.param(struct.pack("!BBHHBx", 1, 9, 0, 1, 0) + b"\x05", id="values cut short"),
    ],
)
def test_nonsense_closes_its_connection_only(serve: Any, nonsense: bytes) -> None:
    served = serve(small)
    other = served.connect()
    assert other.ask().body == b"ok"
    client = served.connect()
    client.send(nonsense)
    assert client.is_closed()
    assert other.ask().body == b"ok"


def test_too_many_parameters_are_refused(serve: Any, protocol: Any) -> None:
    served = serve(small, limits=Limits(params=100_000))
    client = served.connect()
    client.send(protocol.request({"HTTP_X": "x" * 200_000}))
    answer = client.answer()
    assert (answer.protocol_status, answer.status) == (0, "414 URI Too Long")
    assert answer.body
    assert client.is_closed()
    assert served.connect().ask({"HTTP_X": "x" * 60_000}).body == b"ok"


@pytest.mark.parametrize("digits", [5_000, 19])
def test_an_invalid_content_length_does_not_affect_other_requests(
    serve: Any, protocol: Any, digits: int
) -> None:
    def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response("200 OK", [])
        return [environ["wsgi.input"].read()]

    client = serve(application).connect()
    params = {"REQUEST_METHOD": "POST", "CONTENT_LENGTH": "9" * digits}
    answer = client.ask(params, b"body")
    assert (answer.status, answer.body) == ("200 OK", b"body")
