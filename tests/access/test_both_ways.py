"""What the table of tiles and documents answers is what the application answers, for everybody."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.access.identification.conftest import Credentials
from tests.sizes import sized
from tests.tiny import tiny_installation

from mastaba.api.tools import Application, create_application
from mastaba.errors import AccessError
from mastaba_access.identifiers.secret_file import read_secrets
from mastaba_access.identifiers.tokens import Token, sign
from mastaba_access.keystore.form import new_id, new_key
from mastaba_server.messages import STATUS_LINES

REQUESTS = sized(800, 100_000)
LAYERS = ("RGB_JPG", "RGB_PNG", "RGBA_PNG", "GREY_PNG", "GREYA_ZIP", "VECTOR", "NONE")
AREA = {"wkt": "POLYGON((10 20, 50 20, 50 55, 10 55, 10 20))", "crs": "CRS:84"}


def _rule(name: str, who: list[Any], layers: list[str], **effect: Any) -> dict[str, Any]:
    return {"name": name, "who": who, "what": {"layers": layers}, **effect}


RULES = {
    "default": "deny",
    "areas": {"part": AREA},
    "rules": [
        _rule("masked", ["group:a"], ["RGB_*"], limit={"area": "part"}),
        _rule("coarse", ["signed:new"], ["GREY_PNG"], limit={"scale": [1e8, 1e12]}),
        _rule("all but one", ["group:a", "user:anna"], ["*"], allow={}),
        _rule("locked", ["group:b"], ["RGB_PNG"], deny={"as": "lock"}),
        _rule("near", ["address:10.1.0.0/16"], ["GREYA_ZIP", "VECTOR"], allow={}),
        _rule("on a page", ["referer:*.example.org"], ["RGBA_PNG"], allow={}),
        _rule("not there", [["known", "not:address:10.1.0.0/16"]], ["GREY_PNG"], deny={}),
        _rule("open", ["anonymous", "known"], ["RGB_JPG", "GREY_PNG"], allow={}),
    ],
}
ADDRESSES = (
    "/tms{c}/1.0.0/{n}/{z}/{x}/{y}.png",
    "/tms{c}/1.0.0/{n}/{z}/{x}/{y}.jpg",
    "/tms{c}/1.0.0/{n}/{z}/{x}/{y}.pbf",
    "/wmts{c}/1.0.0/{n}/normal/PM/{z}/{y}/{x}.png",
    "/wmts{c}?SERVICE=WMTS&VERSION=1.0.0&REQUEST=GetTile&LAYER={n}&STYLE=normal&FORMAT=image/jpeg"
    "&TILEMATRIXSET=PM&TILEMATRIX={z}&TILEROW={y}&TILECOL={x}",
    "/ogcapi{c}/collections/{n}/map/tiles/PM/{z}/{y}/{x}",
    "/tms{c}/1.0.0/{n}",
    "/wmts{c}?SERVICE=WMTS&REQUEST=GetCapabilities",
    "/ogcapi{c}/collections?f=json",
)
TILES = (("2", 1, 2), ("3", 2, 4), ("4", 5, 9), ("4", 6, 9), ("4", 0, 0))


class World:
    """An installation, and random requests to it."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = random.Random(seed)
        credentials = Credentials(folder)
        (folder / "rules.json").write_text(json.dumps(RULES))
        access = {
            "rules": str(folder / "rules.json"),
            "trusted_fronts": ["127.0.0.1"],
            "user_header": "X-User",
            **credentials.section(),
        }
        overrides = {"plugins": {"access": access}}
        services = {"global": {"generation_headers": True, "cors": True}}
        file = tiny_installation(
            folder / "tiny", server_overrides=overrides, services_overrides=services
        )
        self.application: Application = create_application(str(file))
        secrets = read_secrets(str(credentials.secrets))
        self.credentials = [
            *(credentials.key(groups=groups) for groups in (["a"], ["b"], [], ["a", "b"])),
            credentials.key(groups=["a"], addresses=["10.1.0.0/16"]),
            credentials.key(groups=["b"], referers=["*.example.org"]),
            sign(Token("new", 4e9, {"l": ["GREY_PNG", "RGB_JPG"]}), secrets),
            sign(Token("new", 4e9, {"b": (10, 20, 40, 50)}), secrets),
            new_key(new_id()),
        ]
        self.etags = ["*"]

    def request(self) -> tuple[str, str, dict[str, str]]:
        """Return path, query, and headers by their keys in the WSGI environment."""
        chance = self.random
        z, y, x = chance.choice(TILES)
        headers = {"REMOTE_ADDR": "127.0.0.1", "HTTP_HOST": "localhost"}
        segment = query = ""
        credential = chance.choice(self.credentials)
        match chance.randrange(7):
            case 0 | 1:
                segment = f"/~{credential}"
            case 2 | 3:
                query = chance.choice(("apikey={}", "token={}", "Key={}")).format(credential)
            case 4:
                headers["HTTP_X_API_KEY"] = credential
            case 5:
                headers["HTTP_X_USER"] = chance.choice(("anna", "bob"))
        for key, values in (
            ("HTTP_X_FORWARDED_FOR", ("10.1.2.3", "192.0.2.1")),
            ("HTTP_REFERER", ("https://maps.example.org/x", "https://example.com/")),
            ("HTTP_ACCEPT", ("text/html", "image/png", "application/json")),
            ("HTTP_ACCEPT_ENCODING", ("gzip",)),
            ("HTTP_IF_NONE_MATCH", (chance.choice(self.etags[-6:]),)),
            ("HTTP_ORIGIN", ("https://example.org",)),
            ("HTTP_AUTHORIZATION", (f"Bearer {chance.choice(self.credentials)}",)),
        ):
            if chance.random() < (0.05 if key == "HTTP_AUTHORIZATION" else 0.3):
                headers[key] = chance.choice(values)
        address = chance.choice(ADDRESSES)
        if chance.random() < 0.7:
            address = chance.choice(ADDRESSES[:6])
        path, _, own = address.format(c=segment, n=chance.choice(LAYERS), z=z, y=y, x=x).partition(
            "?"
        )
        parts = [own, query]
        if chance.random() < 0.5:
            parts.reverse()
        return path, "&".join(filter(None, parts)), headers

    def answered(
        self, path: str, query: str, headers: Mapping[str, str]
    ) -> tuple[str, list[Any], bytes]:
        environ = {
            "REQUEST_METHOD": "GET",
            "SCRIPT_NAME": "",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "SERVER_NAME": "localhost",
            "SERVER_PORT": "80",
            "wsgi.url_scheme": "http",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            **headers,
        }
        found: list[Any] = []
        body = b"".join(self.application(environ, lambda *given: found.extend(given[:2])))
        self.etags += [value for name, value in found[1] if name == "ETag"]
        return found[0], sorted(found[1]), body


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.thorough)])
def test_both_ways_give_the_same(tmp_path: Path, seed: int) -> None:
    world, quick, statuses = World(tmp_path, seed), 0, set()
    for number in range(REQUESTS):
        path, query, headers = world.request()
        before = dict(headers)
        expected = None
        # The first request may make known what the second one finds.
        for _ in range(2):
            try:
                found = world.application.stored_tile(path, query, headers)
            except AccessError:
                found = None  # a locked layer: reported on the other way
            assert headers == before
            expected = expected or world.answered(path, query, headers)
            if found is not None:
                body = found.body if isinstance(found.body, bytes) else b"".join(found.body)
                answer = STATUS_LINES[found.status], sorted(found.headers), body
                assert answer == expected, (number, path, query, headers)
                quick += 1
        statuses.add(expected[0][:3])
    assert quick > REQUESTS / 10
    assert {"200", "401", "403", "404"} <= statuses
