"""A server with keys: every address in its documents works for the key, over HTTP and FastCGI."""

from __future__ import annotations

import json
import re
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from tests.access.identification.conftest import Credentials
from tests.live.client import ask
from tests.live.processes import Mastaba, changed, free_port
from tests.support.transport import Client
from tests.tiny import tiny_installation

from mastaba_access.keystore.form import new_id, new_key

pytestmark = pytest.mark.live

HIDDEN = ("RGB_PNG", "GREYA_ZIP")
RULES = {
    "default": "deny",
    "rules": [
        {"name": "open", "what": {"layers": ["RGB_JPG", "GREY_PNG"]}, "allow": {}},
        {"name": "partners", "who": ["group:partners"], "allow": {}},
    ],
}

# Address of the first document of a service, with the segment of the key; further ones are found.
DOCUMENTS = {
    "wms": "/wms{}?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetCapabilities",
    "wmts": "/wmts{}?SERVICE=WMTS&VERSION=1.0.0&REQUEST=GetCapabilities",
    "tms": "/tms{}",
    "ogcapi": "/ogcapi{}?f=json",
}

# What each service gives for a layer.
DATA = {
    "wms": "/wms{}?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&LAYERS={layer}&STYLES=&CRS=EPSG:3857"
    "&BBOX=0,0,1000000,1000000&WIDTH=16&HEIGHT=16&FORMAT=image/png",
    "wmts": "/wmts{}?SERVICE=WMTS&VERSION=1.0.0&REQUEST=GetTile&LAYER={layer}&STYLE=normal"
    "&FORMAT={type}&TILEMATRIXSET=PM&TILEMATRIX=2&TILEROW=1&TILECOL=2",
    "rest": "/wmts{}/1.0.0/{layer}/normal/PM/2/1/2.{ending}",
    "tms": "/tms{}/1.0.0/{layer}/2/2/1.{ending}",
    "ogcapi": "/ogcapi{}/collections/{layer}/map/tiles/PM/2/1/2",
    "map": "/ogcapi{}/collections/{layer}/map?width=16&height=16",
}
FORMATS = {"RGB_PNG": ("image/png", "png"), "GREYA_ZIP": ("image/tiff", "tif")}

# Values of templates, in lower case: the tile that every layer has, and the queries of documents.
VALUES = {
    "style": "normal",
    "styleid": "normal",
    "tilematrixset": "PM",
    "tilematrixsetid": "PM",
    "tilematrix": "2",
    "tilerow": "1",
    "tilecol": "2",
    "format": "png",
    "z": "2",
    "y": "1",
    "x": "2",
}

Ask = Callable[[str], tuple[int, bytes]]


class Server:
    """A server behind one protocol.

    Attributes:
        ask: returns status and body of the answer to a request.
        key: a key that shows every layer.
        stop: ends the server; returns its log.
    """

    def __init__(self, protocol: str, folder: Path) -> None:
        self.credentials = Credentials(folder)
        self.key = self.credentials.key(groups=["partners"])
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        (folder / "rules.json").write_text(json.dumps(RULES))
        section = {"rules": str(folder / "rules.json"), **self.credentials.section()}
        installation = tiny_installation(folder / "installation", public_url=self.url)
        file = changed(
            installation,
            folder / "server.json",
            port=f"127.0.0.1:{self._port}",
            logger={"output": "standard_output", "level": "info", "access": "json"},
            plugins={"access": section},
        )
        is_http = protocol == "HTTP"
        self.ask: Ask = self._ask_http if is_http else self._ask_fastcgi
        self._process = Mastaba(file, folder, http=self._port if is_http else None)

    def _ask_http(self, target: str) -> tuple[int, bytes]:
        answer = ask(self.url, target)
        return answer.status, answer.body

    def _ask_fastcgi(self, target: str) -> tuple[int, bytes]:
        path, _, query = target.partition("?")
        with socket.create_connection(("127.0.0.1", self._port)) as sock:
            names = {"SCRIPT_NAME": "", "PATH_INFO": path, "QUERY_STRING": query}
            more = {"REQUEST_URI": target, "REMOTE_ADDR": "127.0.0.1"}
            answer = Client(sock).ask({**names, **more}, keep=False)
        return int(answer.status[:3]), answer.body

    def stop(self) -> str:
        self._process.stop()
        return self._process.log.read_text("utf-8")


@pytest.fixture(params=["HTTP", "FastCGI"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    running = Server(request.param, tmp_path)
    try:
        yield running
    finally:
        running.stop()


def test_every_address_in_documents_works_with_the_key(server: Server) -> None:
    key = server.key
    kinds: Counter[str] = Counter()
    for service, document in DOCUMENTS.items():
        start = document.format(f"/~{key}")
        known, waiting = {start}, [start]
        while waiting:
            target = waiting.pop()
            status, body = server.ask(target)
            assert status == 200, (target, body[:300])
            kinds[service] += 1
            for address in addresses(body, server.url):
                # Whoever follows an address of a document must not lose the key on the way.
                assert f"/~{key}" in address, (target, address)
                filled = filled_in(address, start)
                if filled not in known:
                    known.add(filled)
                    waiting.append(filled)
        for layer in HIDDEN:
            assert any(layer in one for one in known) or service == "wms", service
    # Most of them are tiles and maps of the nine layers.
    assert min(kinds.values()) >= len(HIDDEN)
    assert kinds["wmts"] > 9
    assert kinds["tms"] > 9 * 3
    assert kinds["ogcapi"] > 9 * 5
    for layer in HIDDEN:
        for way, template in DATA.items():
            status, body = server.ask(data(template, layer, f"/~{key}"))
            assert status == 200, (way, layer, body[:300])
    log = server.stop()
    requests = [line for line in log.splitlines() if '"path"' in line]
    assert len(requests) >= sum(kinds.values())
    assert key not in log


def test_hidden_layers_are_unknown_without_the_key(server: Server) -> None:
    other = server.credentials.key(groups=["others"])
    for segment in ("", f"/~{other}"):
        for document in DOCUMENTS.values():
            status, body = server.ask(document.format(segment))
            assert status == 200
            assert not any(layer.encode() in body for layer in HIDDEN)
        status, body = server.ask(f"/ogcapi{segment}/collections?f=json")
        assert b"RGB_JPG" in body
        assert not any(layer.encode() in body for layer in HIDDEN)
        for layer in HIDDEN:
            absent = "ABSENT_LAYER"
            for way, template in DATA.items():
                unknown = server.ask(data(template, layer, segment, absent))
                status, body = server.ask(data(template, layer, segment))
                assert status == unknown[0], way
                assert status >= 400 or b"LayerNotDefined" in body, way
                assert body.replace(layer.encode(), absent.encode()) == unknown[1], way
    wrong = new_key(new_id())
    assert server.ask(DOCUMENTS["wmts"].format(f"/~{wrong}"))[0] == 401
    log = server.stop()
    assert other not in log
    assert wrong not in log


def data(template: str, layer: str, segment: str, name: str | None = None) -> str:
    media_type, ending = FORMATS[layer]
    return template.format(segment, layer=name or layer, type=media_type, ending=ending)


def addresses(body: bytes, url: str) -> set[str]:
    """Return the targets of all addresses of the server in a document."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        return set()  # a tile
    text = json_text(text) if text.startswith(("{", "[")) else unescape(text)
    if ending := re.search(r'extension="(\w+)"', text):
        # TMS: documents have the addresses of levels. Those without tiles have no limits.
        text = re.sub(r'(/bottom/\d+)" .*minrow="(\d+)".*mincol="(\d+)"', r"\1/\3/\2.END", text)
        text = text.replace(".END", f".{ending[1]}")
        text = re.sub(r"\S*/bottom/\d+\"", "", text)
    found = re.findall(re.escape(url) + r"(/[^\"'<>\s]*)", text)
    return set(found)


def json_text(text: str) -> str:
    """Return all strings of a JSON document, one a line."""
    lines: list[str] = []

    def add(value: Any) -> None:
        if isinstance(value, str):
            lines.append(value)
        elif isinstance(value, dict | list):
            for one in value.values() if isinstance(value, dict) else value:
                add(one)

    add(json.loads(text))
    return "\n".join(lines)


def filled_in(address: str, start: str) -> str:
    """Return an address with values for its templates; that of a service is its first document."""
    address = re.sub(r"\{(\w+)\}", lambda found: VALUES[found[1].lower()], address)
    is_service = address.partition("?")[0] == start.partition("?")[0]
    return start if is_service and "REQUEST=" not in address else address
