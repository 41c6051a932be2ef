"""Tiles and documents are the same from the table and on the general path, byte for byte."""

from __future__ import annotations

import itertools
import json
import logging
import os
import random
import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote_to_bytes

import pytest
from tests.support.transport import request as fastcgi_request
from werkzeug.test import Client

from mastaba import hookimpl
from mastaba.plugins.manager import Plugins
from mastaba.services.base import Service
from mastaba.services.change import Action, Change
from mastaba.site.application import Application
from mastaba.site.tile_table import FindStored
from mastaba.wsgi import create_application
from mastaba_conformance.object_server import ObjectServer
from mastaba_conformance.tiny_installation import TINY_LEVELS, tiny_installation
from mastaba_server.transport import http
from mastaba_server.transport.connection import Connection, Limits
from mastaba_server.transport.fastcgi.connection import FastCGIConnection
from mastaba_server.transport.http import HTTPConnection
from mastaba_server.web.request import Request
from mastaba_server.web.response import Response
from mastaba_writer.slab_names import slab_object, slab_path

FEW = 3_000

KVP = (
    "/wmts?SERVICE=WMTS&VERSION=1.0.0&REQUEST=GetTile&LAYER={layer}&STYLE={style}"
    "&FORMAT={format}&TILEMATRIXSET=PM&TILEMATRIX={level}&TILEROW={row}&TILECOL={col}"
)
ADDRESSES = (
    KVP,
    "/wmts?layer={layer}&style={style}&tilematrixset=PM&Service=WMTS&Request=GetTile"
    "&Version=1.0.0&Format={format}&TileMatrix={level}&TileCol={col}&TileRow={row}",
    "/wmts?service=WMTS&request=GetTile&tilerow={row}&tilecol={col}&tilematrix={level}"
    "&layer={layer}&style={style}&tilematrixset=PM&format={format}",
    "/wmts/1.0.0/{layer}/{style}/PM/{level}/{row}/{col}.{extension}",
    "/tms/1.0.0/{layer}/{level}/{col}/{row}.{extension}",
    "/tms/1.0.0/{layer}/bottom/{level}/{col}/{row}.{extension}",
    "/ogcapi/collections/{layer}/map/tiles/PM/{level}/{row}/{col}",
    "/ogcapi/collections/{layer}/styles/{style}/map/tiles/WebMercatorQuad/{level}/{row}/{col}",
    "/ogcapi/collections/{layer}/tiles/PM/{level}/{row}/{col}",
)
DOCUMENTS = (
    "/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetCapabilities",
    "/wms?service=WMS&request=GetCapabilities&version=1.1.1&layer={layer}",
    "/wmts?SERVICE=WMTS&REQUEST=GetCapabilities",
    "/wmts?SERVICE=WMTS&REQUEST=GetCapabilities&ACCEPTFORMATS=application/xml&INSPIRE=1",
    "/wmts?SERVICE=WMTS&REQUEST=GetCapabilities&SECTIONS=Contents",
    "/wmts/1.0.0/WMTSCapabilities.xml",
    "/tms/1.0.0/",
    "/tms/1.0.0",
    "/tms/1.0.0/{layer}",
    "/tms/1.0.0/{layer}/metadata.json?{row}",
)
LAYERS = {
    "RGB_JPG": ("image/jpeg", "jpg"),
    "RGB_PNG": ("image/png", "png"),
    "GREY_PNG": ("image/png", "png"),
    "RGB_RAW": ("image/tiff", "tif"),
    "FLOAT32_ZIP": ("image/x-bil;bits=32", "bil"),
    "GREYA_ZIP": ("image/tiff", "tif"),
    "VECTOR": ("application/x-protobuf", "pbf"),
}
ODD_NUMBERS = ("-1", "007", "+3", "3.0", "٣", "²", "1e1", "%33", "9" * 18, "9" * 19, "9" * 5000, "")
ODD_WORDS = (
    "..",
    "%00",
    "%0d%0aX:%20y",
    "é",
    "%C3%A9",
    "&&",
    "&",
    "?",
    "#x",
    "/",
    "//",
    "%2F",
    "+",
)
ODD_PARAMETERS = (
    "filename=a.jpg",
    "FileName=",
    "f=json",
    "f=jpg",
    "style=ember",
    "TILEROW=1",
    "tile%52ow=1",
    "TILECOL=1",
    "LAYER=RGB_PNG",
    "ignored",
    "width=9",
    "infoformat=x",
    "version=",
    "VERSION=1.1.1",
)
HEADERS: Mapping[str, Sequence[str]] = {
    "If-Modified-Since": ("Thu, 01 Jan 1970 00:00:00 GMT", "Fri, 01 Jan 2100 00:00:00 GMT", "x"),
    "Accept": ("*/*", "image/png", "image/webp,*/*;q=0.8", "image/jpeg", "text/html", "x;q=2", ","),
    "Accept-Encoding": ("gzip", "deflate", "identity", "gzip;q=0", "br, gzip;q=0.5", "*"),
    "Origin": ("https://one.example", "https://evil.example", "null", ""),
    "Range": ("bytes=0-9", "bytes=-1"),
    "Cookie": ("a=b",),
    "Connection": ("close",),
    "Content-Length": ("0",),
}
SITES: Mapping[str, dict[str, Any]] = {
    "plain": {},
    "shared": {"global": {"cors": True}},
    "keyed": {
        "global": {
            "caching": {
                "layers": "public, max-age=60, s-maxage=600",
                "documents": "max-age=5",
                "surrogate_keys": True,
            }
        }
    },
    "one-origin": {"global": {"cors": "https://one.example"}},
    "from-bottom": {"tms": {"y_origin": "bottom"}, "ogcapi": {"cors": True}},
    "own-origins": {"wmts": {"cors": ["https://one.example"]}, "tms": {"cors": True}},
    "generations": {"global": {"generation_headers": True, "cors": True}},
    "other-roots": {"tms": {"root_path": "/wmts/1.0.0"}, "ogcapi": {"root_path": "/a/b"}},
    "object-store": {},
}


class Socket:
    """Takes everything that is sent."""

    def __init__(self) -> None:
        self.sent = bytearray()

    def fileno(self) -> int:
        return -1

    def getpeername(self) -> tuple[str, int]:
        return "192.0.2.1", 4711

    def sendmsg(self, buffers: Iterable[bytes], *_: object) -> int:
        before = len(self.sent)
        for buffer in buffers:
            self.sent += buffer
        return len(self.sent) - before

    def shutdown(self, how: int) -> None: ...

    def close(self) -> None: ...


class Owner:
    """A server without threads and sockets."""

    def __init__(
        self, application: Any, stored_tile: Any, protocol: type[Connection], sock: socket.socket
    ) -> None:
        self.application = application
        self.stored_tile = stored_tile
        self.limits = Limits()
        self.closing = False
        self.environ = {**protocol.environ(sock), "SCRIPT_NAME": "", "wsgi.errors": sys.stderr}
        self._protocol = protocol
        self._connection: Connection | None = None

    def answer(self, data: bytes) -> bytes:
        """Return what a connection sends for a request; it is kept as long as it is open."""
        connection = self._connection
        if connection is None or not connection.idle or not connection.open:
            connection = self._connection = self._protocol(Socket(), self)  # type: ignore[arg-type]
        connection.receive(data)
        sent: bytearray = connection.socket.sent  # type: ignore[attr-defined]
        answer = bytes(sent)
        sent.clear()
        return answer

    def forget(self, connection: Connection) -> None: ...


class Transport:
    """The table with a marked general path behind it, and the general path alone."""

    def __init__(self, application: Application, protocol: type[Connection]) -> None:
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            self._quick = Owner(self._general, application.stored_tile, protocol, sock)
            self._slow = Owner(application, None, protocol, sock)
        self._falls_through = False
        self.encode = _as_fastcgi if protocol is FastCGIConnection else _as_http
        self.answered = 0

    def _general(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        self._falls_through = True
        start_response("200 OK", [("Content-Length", "0")])
        return []

    def check(self, method: str, target: str, headers: Mapping[str, str]) -> None:
        data = self.encode(method, target, headers)
        self._falls_through = False
        quick = self._quick.answer(data)
        if self._falls_through or b" 400 " in quick[:20]:
            if "apabilities" in target or (target.startswith("/tms") and target.count("/") < 5):
                self._slow.answer(data)  # from here on, the table may know the document
            return
        self.answered += 1
        slow = self._slow.answer(data)
        assert quick == slow, f"{method} {target!r} {headers}\n{quick[:600]!r}\n{slow[:600]!r}"


def _as_http(method: str, target: str, headers: Mapping[str, str]) -> bytes:
    fields = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    target = target.replace(" ", "%20")
    return f"{method} {target} HTTP/1.1\r\nHost: x\r\n{fields}\r\n".encode()


def _as_fastcgi(method: str, target: str, headers: Mapping[str, str]) -> bytes:
    path, _, query = target.encode().partition(b"?")
    named = {f"HTTP_{name.upper().replace('-', '_')}": text for name, text in headers.items()}
    decoded = unquote_to_bytes(path).decode("latin-1")
    split = len(decoded) // 3 * (len(target) % 3 == 0)  # front servers differ in this
    return fastcgi_request(
        {
            "SCRIPT_NAME": decoded[:split],
            "PATH_INFO": decoded[split:],
            "QUERY_STRING": query.decode("latin-1"),
            "REQUEST_METHOD": method,
            **named,
        }
    )


class Requests:
    """Random requests: about half of them valid, the others odd or hostile."""

    def __init__(self, seed: int, etags: Sequence[str]) -> None:
        self._random = random.Random(seed)
        self._etags = etags

    def __iter__(self) -> Iterator[tuple[str, str, dict[str, str]]]:
        while True:
            yield self._method(), self._target(), self._headers()

    def _method(self) -> str:
        return "GET" if self._random.random() < 0.95 else self._random.choice(("HEAD", "POST", "X"))

    def _target(self) -> str:
        pick = self._random.choice
        layer = pick(list(LAYERS))
        media_type, extension = LAYERS[layer]
        level = pick(TINY_LEVELS)
        fields = {
            "layer": layer,
            "style": "ember" if layer == "GREY_PNG" and pick((0, 1)) else "normal",
            "format": pick((media_type, quote(media_type), quote(media_type, safe=""))),
            "level": level.id,
            "row": str(self._random.randint(level.min_row, level.max_row)),
            "col": str(self._random.randint(level.min_col, level.max_col)),
            "extension": extension,
        }
        address = pick(ADDRESSES if self._random.random() < 0.8 else DOCUMENTS)
        if self._random.random() < 0.5:
            return address.format(**fields)
        for _ in range(self._random.randint(1, 2)):
            match self._random.randrange(7):
                case 0:
                    fields[pick(("row", "col"))] = pick(ODD_NUMBERS)
                case 1:
                    fields[pick(list(fields))] = pick((*ODD_WORDS, *fields.values()))
                case 2:
                    fields["row"] = str(self._random.randint(-2, 12))
                case 3:
                    address += ("&" if "?" in address else "?") + pick(ODD_PARAMETERS)
                case 4:
                    path, mark, query = address.partition("?")
                    items = query.split("&")
                    self._random.shuffle(items)
                    address = path + mark + "&".join(items[self._random.randint(0, 1) :])
                case 5:
                    address = address.swapcase() if pick((0, 1)) else address.replace("/", "//", 1)
                    return address.format(**fields, **{k.upper(): v for k, v in fields.items()})
                case _:
                    text = address.format(**fields)
                    place = self._random.randrange(1, len(text))
                    cut = self._random.randint(0, 2)
                    return text[:place] + pick(ODD_WORDS) + text[place + cut :]
        return address.format(**fields)

    def _headers(self) -> dict[str, str]:
        pick = self._random.choice
        headers: dict[str, str] = {}
        if self._random.random() < 0.3:
            etag = pick(self._etags)
            headers["If-None-Match"] = pick((etag, f"W/{etag}", f'"x", {etag}', "*", '"', etag[:9]))
        while self._random.random() < 0.4:
            name = pick(list(HEADERS))
            headers[name] = pick(HEADERS[name])
        return headers


def _open(folder: Path, site: str, services: Mapping[str, Any] | None = None) -> Application:
    settings = {**SITES[site], **(services or {})}
    server_json = tiny_installation(folder, services_overrides=settings)
    return create_application(str(server_json))


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectServer]:
    """A bucket with the pyramids of the tiny installation."""
    folder = tmp_path / "originals"
    with ObjectServer() as server:
        for name, value in {"URL": server.url, "KEY": "key", "SECRETKEY": "secret"}.items():
            monkeypatch.setenv(f"MASTABA_S3_{name}", value)
        monkeypatch.setenv("no_proxy", "*")
        tiny_installation(folder)
        for descriptor in (folder / "pyramids").glob("*.json"):
            document = json.loads(descriptor.read_bytes())
            for level in document["levels"]:
                slabs = descriptor.parent / level["storage"]["image_directory"]
                prefix = f"{descriptor.stem}_{level['id']}"
                for column in range(8):
                    for row in range(8):
                        slab = slabs / slab_path(column, row, level["storage"]["path_depth"])
                        if slab.exists():
                            key = slab_object(prefix, column, row)
                            server.put("maps", key, slab.read_bytes())
                level["storage"] = {"type": "S3", "bucket_name": "maps", "image_prefix": prefix}
            server.put("maps", descriptor.name, json.dumps(document).encode())
        yield server


def _open_store(folder: Path) -> Application:
    """Open the site ``object-store``; the indices of all its slabs are cached."""
    server_json = tiny_installation(folder, server_overrides={"cache": {"validity": 100_000}})
    for layer in (folder / "layers").glob("*.json"):
        document = json.loads(layer.read_bytes())
        (pyramid,) = document["pyramids"]
        pyramid["path"] = f"s3://maps/{Path(pyramid['path']).name}"
        layer.write_text(json.dumps(document))
    application = create_application(str(server_json))
    for readers in application.site.catalogue.readers.values():
        for reader in readers.values():
            limits = reader.level.limits
            for row in range(limits.min_row, limits.max_row + 1):
                for column in range(limits.min_col, limits.max_col + 1):
                    assert reader.locate(row, column)
    return application


def _etags(application: Application) -> list[str]:
    fields = {"layer": "RGB_JPG", "style": "normal", "format": "image/jpeg", "level": "3"}
    found = []
    for row in (2, 3):
        path, _, query = KVP.format(**fields, row=row, col=4).partition("?")
        response = application.stored_tile(path, query, {})
        assert response is not None
        found.append(dict(response.headers)["ETag"])
    return found


def _compare(
    folder: Path, site: str, count: int, monkeypatch: pytest.MonkeyPatch, store: ObjectServer
) -> None:
    monkeypatch.setattr(http, "_date", lambda now: "Server: x\r\nDate: x\r\n")
    application = _open_store(folder) if site == "object-store" else _open(folder, site)
    transports = [Transport(application, item) for item in (FastCGIConnection, HTTPConnection)]
    etags = ['"none"'] if site == "other-roots" else _etags(application)
    for number, request in enumerate(Requests(count, etags)):
        if number == count:
            break
        for transport in transports:
            transport.check(*request)
        store.requests.clear()
    for transport in transports:
        assert transport.answered > count / 10
    application.site.catalogue.storages.close()


def test_table_and_general_path_name_the_generations(tmp_path: Path) -> None:
    application = _open(tmp_path, "generations")
    catalogue = application.site.catalogue
    expected = {
        "Mastaba-Generation": catalogue.generation,
        "Mastaba-Pyramid": catalogue.layers["RGB_JPG"].pyramid.generation,
    }
    stored = application.stored_tile(*TILE)
    assert stored is not None
    response = Client(application).get(TILE[0])
    again = Client(application).get(TILE[0], headers={"If-None-Match": response.headers["ETag"]})
    assert again.status_code == 304
    assert expected["Mastaba-Pyramid"] in response.headers["ETag"]
    for headers in (dict(stored.headers), response.headers, again.headers):
        assert {name: headers[name] for name in expected} == expected
    document = Client(application).get("/wmts?SERVICE=WMTS&REQUEST=GetCapabilities")
    assert document.headers["Mastaba-Generation"] == catalogue.generation


def test_generations_are_not_named_by_default(tmp_path: Path) -> None:
    response = Client(_open(tmp_path, "plain")).get(TILE[0])
    assert "mastaba-" not in str(response.headers).lower()


TILE = ("/tms/1.0.0/RGB_JPG/3/4/2.jpg", "", {})


def test_there_is_no_table_while_debug_headers_are_on(tmp_path: Path) -> None:
    server = {"debug": True}
    application = create_application(str(tiny_installation(tmp_path, server_overrides=server)))
    assert application.stored_tile(*TILE) is None


def test_access_lines_are_those_of_the_general_path(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mastaba.access")
    server = {"logger": {"level": "info", "access": "json"}}
    application = create_application(str(tiny_installation(tmp_path, server_overrides=server)))
    client = {"REMOTE_ADDR": "192.0.2.1"}
    Client(application).get(TILE[0], environ_overrides=client)
    response = application.stored_tile(TILE[0], "", client)
    assert application.stored_tile("/tms/1.0.0/RGB_JPG/3/0/0.jpg", "", client) is None
    lines = [record.fields for record in caplog.records if record.name == "mastaba.access"]
    assert response is not None
    assert [line["bytes"] for line in lines] == [len(response.body)] * 2
    for line in lines:
        assert line.pop("seconds") > 0
        del line["cache"]
    assert lines[0] == lines[1]


@pytest.mark.parametrize(
    ("kind", "address", "shown"),
    [
        ("full", "192.0.2.77", "192.0.2.77"),
        ("network", "192.0.2.77", "192.0.2.0/24"),
        ("network", "::ffff:192.0.2.77", "192.0.2.0/24"),
        ("network", "2001:db8:1:2:3::4", "2001:db8:1::/48"),
        ("network", "unix:", "-"),
        ("none", "192.0.2.77", "-"),
    ],
)
@pytest.mark.parametrize("style", ["json", "text"])
def test_access_lines_shorten_addresses(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    style: str,
    kind: str,
    address: str,
    shown: str,
) -> None:
    caplog.set_level(logging.INFO, "mastaba.access")
    server = {"logger": {"level": "info", "access": style, "addresses": kind}}
    application = create_application(str(tiny_installation(tmp_path, server_overrides=server)))
    client = {"REMOTE_ADDR": address}
    Client(application).get(TILE[0], environ_overrides=client)
    assert application.stored_tile(TILE[0], "", client) is not None
    lines = [record for record in caplog.records if record.name == "mastaba.access"]
    assert len(lines) == 2
    for line in lines:
        text = line.getMessage()
        found = json.loads(text)["client"] if style == "json" else text.split()[0]
        assert found == shown
        assert kind == "full" or address not in text


class Middleware:
    """A plugin whose middleware does not wrap tiles."""

    @hookimpl
    def wsgi_middleware(self, site: object) -> Callable[[Any], Any]:
        return lambda application: lambda environ, start: application(environ, start)


class TileMiddleware:
    """A plugin whose middleware changes stored tiles, and notes the services they are from."""

    def __init__(self, mark: str) -> None:
        self.mark = mark
        self.services: list[str] = []

    @hookimpl
    def wsgi_middleware(self, site: object) -> Callable[[Any], Any]:
        def wrap(application: Any) -> Any:
            def wrapped(environ: dict[str, Any], start: Any) -> Any:
                return application(environ, start)

            wrapped.around_tiles = self._around  # type: ignore[attr-defined]
            return wrapped

        return wrap

    def _around(self, service: str, find: FindStored) -> FindStored:
        self.services.append(service)

        def found(headers: Mapping[str, Any], row: int, column: int) -> Response | None:
            response = find(headers, row, column)
            if response is not None:
                response.headers.append(("X-Mark", self.mark))
            return response

        return found


def test_middleware_sees_every_request(tmp_path: Path) -> None:
    plugins = Plugins(extra={"all": Middleware(), "tiles": TileMiddleware("a")})
    application = create_application(str(tiny_installation(tmp_path)), plugins)
    assert application.stored_tile(*TILE) is None


def test_middleware_wraps_the_tiles_of_the_table(tmp_path: Path) -> None:
    inner, outer = TileMiddleware("inner"), TileMiddleware("outer")
    plugins = Plugins(extra={"a-outer": outer, "b-inner": inner})
    application = create_application(str(tiny_installation(tmp_path)), plugins)
    kvp = KVP.format(
        layer="RGB_JPG", style="normal", format="image/jpeg", level="3", row=2, col=4
    ).partition("?")[::2]
    for _ in range(3):
        for request in (TILE, (*kvp, {})):
            response = application.stored_tile(*request)
            assert response is not None
            marks = [value for name, value in response.headers if name == "X-Mark"]
            assert marks == ["inner", "outer"]
    assert inner.services == outer.services == ["tms", "wmts"]


class DocumentMiddleware(TileMiddleware):
    """A plugin whose middleware also changes documents, and notes the services they are from."""

    @hookimpl
    def wsgi_middleware(self, site: object) -> Callable[[Any], Any]:
        wrap = super().wsgi_middleware(site)

        def wrap_all(application: Any) -> Any:
            wrapped = wrap(application)
            wrapped.around_document = self._around_document
            return wrapped

        return wrap_all

    def _around_document(self, environ: Mapping[str, Any], answer: Any) -> Any:
        self.services.append(environ["mastaba.service"][0])

        def answered(headers: Mapping[str, Any]) -> Response:
            response: Response = answer(headers)
            response.headers.append(("X-Mark", self.mark))
            return response

        return answered


class BrokenDocumentMiddleware(DocumentMiddleware):
    def _around_document(self, environ: Mapping[str, Any], answer: Any) -> Any:
        raise RuntimeError("broken")


DOCUMENT = ("/wmts", "SERVICE=WMTS&REQUEST=GetCapabilities", {})


def test_middleware_wraps_the_documents_of_the_table(tmp_path: Path) -> None:
    inner, outer = DocumentMiddleware("inner"), DocumentMiddleware("outer")
    plugins = Plugins(extra={"a-outer": outer, "b-inner": inner})
    application = create_application(str(tiny_installation(tmp_path)), plugins)
    assert application.stored_tile(*DOCUMENT) is None
    general = Client(application).get("?".join(DOCUMENT[:2]))
    for _ in range(2):
        response = application.stored_tile(*DOCUMENT)
        assert response is not None
        assert response.body == general.data
        marks = [value for name, value in response.headers if name == "X-Mark"]
        assert marks == ["inner", "outer"]
    assert inner.services == outer.services == ["wmts"]


@pytest.mark.parametrize("middleware", [TileMiddleware("a"), BrokenDocumentMiddleware("a")])
def test_documents_that_middleware_must_see_take_the_general_path(
    tmp_path: Path, middleware: TileMiddleware
) -> None:
    plugins = Plugins(extra={"one": middleware, "two": DocumentMiddleware("b")})
    application = create_application(str(tiny_installation(tmp_path)), plugins)
    for _ in range(2):
        assert Client(application).get("?".join(DOCUMENT[:2])).status_code == 200
        assert application.stored_tile(*DOCUMENT) is None
    assert application.stored_tile(*TILE) is not None


def test_metrics_of_the_table_are_those_of_the_general_path(tmp_path: Path) -> None:
    samples = []
    for name in ("table", "general"):
        application = _open(tmp_path / name, "plain", {"metrics": {"enabled": True}})
        # A slab is not examined at every read if it has been left alone.
        for slab in (tmp_path / name / "pyramids").rglob("*.tif"):
            os.utime(slab, (0, 0))
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            find = application.stored_tile if name == "table" else None
            owner = Owner(application, find, HTTPConnection, sock)
        for method, target, headers in itertools.islice(Requests(3, _etags(application)), 600):
            owner.answer(_as_http(method, target, headers))
        for target in [TILE[0]] * 20:
            owner.answer(_as_http("GET", target, {}))
        text = Client(application).get("/metrics").text
        samples.append(
            {
                line
                for line in text.splitlines()
                if line.startswith(
                    ("mastaba_requests_total", "mastaba_response_bytes", "mastaba_index_cache")
                )
            }
        )
        assert 'operation="gettile",service="tms",status="304"' in text
        application.site.catalogue.storages.close()
    assert samples[0] == samples[1]


def test_changes_apply_to_the_table(tmp_path: Path) -> None:
    application = _open(tmp_path, "plain")
    assert application.stored_tile(*TILE) is not None
    application.site.submit(Change(Action.DISABLE_SERVICES))
    assert application.stored_tile(*TILE) is None
    application.site.submit(Change(Action.ENABLE_SERVICES))
    assert application.stored_tile(*TILE) is not None
    application.site.submit(Change(Action.DELETE_LAYER, "RGB_JPG"))
    assert application.stored_tile(*TILE) is None


def test_requests_are_counted(tmp_path: Path) -> None:
    application = _open(tmp_path, "plain")

    def counted() -> int:
        return sum(row.count for row in application.site.scoreboard.rows())

    before = counted()
    assert application.stored_tile(*TILE) is not None
    assert application.stored_tile("/tms/1.0.0/RGB_JPG/3/0/0.jpg", "", {}) is None
    assert counted() == before + 1


def test_tiles_of_an_object_store_whose_index_is_unknown_take_the_general_path(
    tmp_path: Path, store: ObjectServer
) -> None:
    application = _open_store(tmp_path)
    store.requests.clear()
    assert application.stored_tile(*TILE) is not None
    assert [request.status for request in store.requests] == [206]
    reader = application.site.catalogue.readers["RGB_JPG"]["3"]
    reader._indices.clear()
    assert application.stored_tile(*TILE) is None
    assert Client(application).get(TILE[0]).status_code == 200
    assert application.stored_tile(*TILE) is not None


def test_a_read_from_an_object_store_that_fails_is_not_repeated(
    tmp_path: Path, store: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "_date", lambda now: "Server: x\r\nDate: x\r\n")
    application = _open_store(tmp_path)
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        owner = Owner(application, application.stored_tile, HTTPConnection, sock)
        general = Owner(application, None, HTTPConnection, sock)
    data = _as_http("GET", TILE[0], {})
    assert owner.answer(data).startswith(b"HTTP/1.1 200 ")
    store.requests.clear()
    with store.outage():
        answer = owner.answer(data)
        assert [request.status for request in store.requests] == [503]
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert general.answer(data) == answer
    assert owner.answer(data).startswith(b"HTTP/1.1 200 ")


def test_tiles_of_a_replaced_object_are_current(tmp_path: Path, store: ObjectServer) -> None:
    application = _open_store(tmp_path)
    before = application.stored_tile(*TILE)
    key = next(key for _, key in store._objects if key.startswith("RGB_JPG_3"))
    store.put("maps", key, store._objects["maps", key].data + b"\0")
    after = application.stored_tile(*TILE)
    assert before is not None
    assert after is not None
    assert before.body == after.body
    old, new = dict(before.headers)["ETag"], dict(after.headers)["ETag"]
    assert old != new
    again = application.stored_tile(TILE[0], "", {"HTTP_IF_NONE_MATCH": new})
    assert again is not None
    assert again.status == 304


@pytest.mark.parametrize("target", [DOCUMENTS[0], DOCUMENTS[2], DOCUMENTS[6]])
def test_documents_are_answered_from_the_second_request_on(tmp_path: Path, target: str) -> None:
    path, _, query = target.partition("?")
    application = _open(tmp_path, "plain")
    assert application.stored_tile(path, query, {}) is None
    first = Client(application).get(target)
    again = application.stored_tile(path, query, {})
    assert again is not None
    assert (again.status, again.headers, again.body) == (200, list(first.headers), first.data)
    known = {"HTTP_IF_NONE_MATCH": first.headers["ETag"]}
    not_modified = application.stored_tile(path, query, known)
    assert not_modified is not None
    assert not_modified.status == 304
    application.site.submit(Change(Action.DELETE_LAYER, "RGB_JPG"))
    assert application.stored_tile(path, query, {}) is None


def test_documents_that_depend_on_headers_take_the_general_path(tmp_path: Path) -> None:
    application = _open(tmp_path, "plain")
    for target in ("/wmts/1.0.0/WMTSCapabilities.xml", "/ogcapi/collections"):
        assert Client(application).get(target).status_code == 200
        assert application.stored_tile(target, "", {}) is None


def test_path_and_query_of_a_document_are_separate(tmp_path: Path) -> None:
    path, _, query = DOCUMENTS[0].partition("?")
    application = _open(tmp_path, "plain")
    Client(application).get(DOCUMENTS[0])
    assert application.stored_tile(path, query, {}) is not None
    assert application.stored_tile(f"{path}?{query}", "", {}) is None


def test_wrapped_tiles_leave_documents_to_the_middleware(tmp_path: Path) -> None:
    plugins = Plugins(extra={"tiles": TileMiddleware("a")})
    application = create_application(str(tiny_installation(tmp_path)), plugins)
    path, _, query = DOCUMENTS[0].partition("?")
    Client(application).get(DOCUMENTS[0])
    assert application.stored_tile(path, query, {}) is None


def test_tiles_of_a_replaced_slab_are_current(tmp_path: Path) -> None:
    application = _open(tmp_path, "plain")
    before = application.stored_tile(*TILE)
    for slab in (tmp_path / "pyramids").rglob("RGB_JPG/**/*.tif"):
        os.utime(slab, (1, 1))
    after = application.stored_tile(*TILE)
    assert before is not None
    assert after is not None
    assert before.body == after.body
    assert dict(before.headers)["ETag"] != dict(after.headers)["ETag"]


@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize("site", SITES)
def test_answers_are_those_of_the_general_path(
    tmp_path: Path, site: str, monkeypatch: pytest.MonkeyPatch, store: ObjectServer
) -> None:
    _compare(tmp_path / site, site, FEW // len(SITES), monkeypatch, store)


@pytest.mark.live
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("site", SITES)
def test_many_answers_are_those_of_the_general_path(
    tmp_path: Path,
    site: str,
    monkeypatch: pytest.MonkeyPatch,
    store: ObjectServer,
    request: pytest.FixtureRequest,
) -> None:
    count = request.config.getoption("random_requests") // len(SITES)
    _compare(tmp_path / site, site, count, monkeypatch, store)


@pytest.mark.sampled(one_in=4)
@pytest.mark.parametrize(
    "code", ["raise KeyError('k')", "return", "return [1]", "yield 1; raise OSError"]
)
def test_a_service_whose_addresses_fail_is_served_on_the_general_path(
    code: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tiny_installation(tmp_path, services=["tms", "greeting"])
    body: dict[str, Any] = {}
    exec(f"def tile_addresses(self):\n    {code}\n", {}, body)

    class Greeting(Service):
        name, title = "greeting", "Greeting"
        tile_addresses = body["tile_addresses"]

        def respond(self, _request: Request) -> Response:
            return Response(200, [("Content-Type", "text/plain")], b"hello")

        def error_response(self, error: Exception, _request: Request) -> Response:
            raise error

    class Plugin:
        @hookimpl
        def register_services(self) -> list[type[Service]]:
            return [Greeting]

    application = create_application(str(file), Plugins(extra={"greeting": Plugin()}))
    assert "the service 'greeting' fails in tile_addresses" in caplog.text
    client = Client(application)
    assert client.get("/greeting").text == "hello"
    assert application.stored_tile(*TILE) is not None
