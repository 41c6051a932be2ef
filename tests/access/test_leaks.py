"""The hunt for leaks: views over layers with names that nobody can guess, asked at random."""

from __future__ import annotations

import gzip
import json
import random
import re
import secrets
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.access.checking_fronts import FRONTS, PREFIX
from tests.access.identification.conftest import Credentials
from tests.live.client import Answer, ask
from tests.live.processes import Mastaba, changed, free_port, public_folder, wait_until
from tests.sizes import sized
from tests.tiny import tiny_installation

pytestmark = [pytest.mark.live, pytest.mark.thorough, pytest.mark.timeout(86_400)]

VIEWS, LAYERS, REQUESTS = sized((5, 20, 120), (50, 200, 20_000))
"""Views, layers, and requests of each view."""
UNCOMPARED = ("date", "age", "x-varnish")
"""Headers that differ between two answers about the same."""
KINDS = ("RGB_PNG", "RGB_JPG", "GREY_PNG", "FLOAT32_ZIP", "VECTOR")
SERVICES = (
    "wms",
    "wmts",
    "tms",
    "ogcapi",
    "wcs",
    "terrain",
    "elevation",
    "viewer",
    "metrics",
    "health",
)
WORD = re.compile(rb"[0-9a-f]{20}")
WMS = "/wms{c}?SERVICE=WMS&VERSION=1.3.0&CRS=EPSG:3857&BBOX=2504688,2504688,5009377,5009377"
PATHS = (
    "/wms{c}?SERVICE=WMS&REQUEST=GetCapabilities&VERSION=1.1.1",
    "/wmts{c}?SERVICE=WMTS&REQUEST=GetCapabilities",
    "/wcs{c}?SERVICE=WCS&REQUEST=GetCapabilities",
    "/tms{c}/1.0.0",
    "/ogcapi{c}",
    "/ogcapi{c}/api?f=json",
    "/ogcapi{c}/collections?f=json",
    "/ogcapi{c}/collections?f=html",
    "/terrain{c}",
    "/elevation{c}",
    "/elevation{c}/edr/collections",
    "/elevation{c}/edr/api",
    "/viewer{c}",
    "/{c}?f=json",
    "/metrics{c}",
    "/healthcheck/info",
    "/healthcheck",
    "/unknown",
    WMS + "&REQUEST=GetMap&LAYERS={n}&STYLES=&WIDTH=16&HEIGHT=16&FORMAT=image/png",
    WMS + "&REQUEST=GetMap&LAYERS={own},{n}&STYLES=,&WIDTH=16&HEIGHT=16&FORMAT=image/jpeg",
    WMS + "&REQUEST=GetFeatureInfo&LAYERS={n}&QUERY_LAYERS={n}&STYLES=&WIDTH=16&HEIGHT=16"
    "&FORMAT=image/png&INFO_FORMAT=text/plain&I=3&J=3",
    "/wms{c}?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetLegendGraphic&LAYER={n}&FORMAT=image/png",
    "/wmts{c}?SERVICE=WMTS&VERSION=1.0.0&REQUEST=GetTile&LAYER={n}&STYLE=normal"
    "&FORMAT=image/png&TILEMATRIXSET=PM&TILEMATRIX=2&TILEROW=1&TILECOL=2",
    "/wmts{c}/1.0.0/{n}/normal/PM/2/1/2.png",
    "/wmts{c}/1.0.0/{n}/normal/PM/2/1/2.jpg",
    "/tms{c}/1.0.0/{n}",
    "/tms{c}/1.0.0/{n}/metadata.json",
    "/tms{c}/1.0.0/{n}/gdal.xml",
    "/tms{c}/1.0.0/{n}/2/2/1.png",
    "/tms{c}/1.0.0/{n}/2/2/2.pbf",
    "/ogcapi{c}/collections/{n}?f=json",
    "/ogcapi{c}/collections/{n}/map?width=16&height=16",
    "/ogcapi{c}/collections/{n}/map/tiles/PM/2/1/2",
    "/ogcapi{c}/collections/{n}/map/tiles/PM?f=tilejson",
    "/ogcapi{c}/map?collections={n}&width=16&height=16",
    "/wcs{c}?SERVICE=WCS&VERSION=2.0.1&REQUEST=DescribeCoverage&COVERAGEID={n}",
    "/terrain{c}/{n}/style.json",
    "/terrain{c}/{n}/mapbox/2/2/1.png",
    "/terrain{c}/{n}/mesh/layer.json",
    "/elevation{c}/points?dataset={n}&coords=POINT(40+40)",
    "/elevation{c}/edr/collections/{n}/position?coords=POINT(40+40)",
    "/viewer{c}/{n}",
    "/viewer{c}/data/stored/{n}/2/1/2",
)


class Hunt:
    """A server with two workers and views, and what each may see.

    Args:
        folder: for everything.
        front: name of the cache before the server; empty for none.
        stack: ends everything.
    """

    def __init__(self, folder: Path, front: str, stack: ExitStack) -> None:
        self.random = random.Random(5)
        self.credentials, port = Credentials(folder), free_port()
        self.prefix = PREFIX if front else ""
        self.url = f"http://127.0.0.1:{port}"
        overrides: dict[str, Any] = {
            "global": {"generation_headers": True, "cors": True, "map": {"reprojection": True}}
        }
        if front:
            overrides["auth"] = {"enabled": True, "prefix": PREFIX}
        path = tiny_installation(
            folder / "tiny",
            services=SERVICES,
            public_url=f"{self.url}{self.prefix}",
            services_overrides=overrides,
        )
        layers = folder / "tiny" / "layers"
        listed = []
        self.words: dict[str, frozenset[bytes]] = {}
        for number in range(LAYERS):
            name, title = secrets.token_hex(10), secrets.token_hex(10)
            kind = KINDS[number % len(KINDS)]
            document = json.loads((layers / f"{kind}.json").read_bytes())
            info = {} if kind == "VECTOR" else {"get_feature_info": {"type": "PYRAMID"}}
            document |= {"title": title, "abstract": title, "keywords": [title], **info}
            document["cache_control"] = "public, max-age=3600"
            (layers / f"{name}.json").write_text(json.dumps(document))
            listed.append(str(layers / f"{name}.json"))
            self.words[name] = frozenset((name.encode(), title.encode()))
        (folder / "tiny" / "layers.txt").write_text("\n".join(listed))
        self.names = list(self.words)
        self.views: dict[str, frozenset[str]] = {}
        rules: list[Mapping[str, Any]] = []
        for number in range(VIEWS):
            own = self.random.sample(self.names, self.random.randint(1, LAYERS // 2))
            key = self.credentials.key(groups=[f"v{number}"]) if number else ""
            self.views[key] = frozenset(own)
            who = [f"group:v{number}"] if number else ["anonymous"]
            rules.append({"name": f"v{number}", "who": who, "what": {"layers": own}, "allow": {}})
        (folder / "rules.json").write_text(json.dumps({"default": "deny", "rules": rules}))
        section = {"rules": str(folder / "rules.json"), **self.credentials.section()}
        if front:
            section["trusted_fronts"] = ["127.0.0.1"]
        file = changed(
            path,
            folder / "server.json",
            workers=2,
            plugins={"access": section},
            logger={"output": "standard_output", "level": "info", "access": "json"},
        )
        backend = free_port() if front else port
        if front:
            FRONTS[front](stack, folder, backend, port, folder / "front.log")
        self.server = stack.enter_context(Mastaba(file, folder, http=backend))
        self.etags = ["*"]
        self.caches: Counter[str] = Counter()
        self.shown = 0

    def check(self, key: str) -> None:
        """Send one request as a client of a view, and check the answer."""
        own = self.views[key]
        known = self.random.choice(sorted(own))
        name = self.random.choice((known, self.random.choice(self.names)))
        template = self.random.choice(PATHS)
        method = self.random.choice(("GET", "GET", "GET", "GET", "HEAD", "OPTIONS"))
        headers = {}
        match self.random.randrange(6):
            case 0:
                headers["If-None-Match"] = self.random.choice(self.etags)
            case 1:
                headers["Range"] = "bytes=0-99"
            case 2:
                headers["Accept-Encoding"] = "gzip"
            case 3:
                headers["Accept"] = "text/html"
        in_header = bool(key) and self.random.random() < 0.3
        if in_header:
            headers["X-API-Key"] = key
        segment = f"/~{key}" if key and not in_header else ""
        if template.startswith("/{c}"):
            segment = segment.removeprefix("/")

        def get(asked: str) -> Answer:
            path = template.format(c=segment, n=asked, own=known)
            return ask(self.url, f"{self.prefix}{path}", method=method, headers=headers)

        answer = get(name)
        asked = template.format(c="", n=name, own=known)
        assert answer.status != 500, asked
        if (etag := answer.headers.get("etag")) and len(self.etags) < 2000:
            self.etags.append(etag)
        text = plain(answer) + json.dumps(dict(answer.headers)).encode()
        is_hidden = name not in own
        seen = set(WORD.findall(text))
        allowed = {word for one in own for word in self.words[one]} | {name.encode()}
        hidden = {word for words in self.words.values() for word in words} - allowed
        assert not seen & hidden, (asked, method, headers)
        for other in self.views:
            assert not other or other == key or other[12:].encode() not in text, asked
        self.shown += bool(seen) and answer.status == 200
        self.caches[answer.headers.get("x-cache", "")] += 1
        if is_hidden and "{n}" in template:
            unknown = secrets.token_hex(10)
            expected = get(unknown)
            assert answer.status == expected.status, (asked, method, headers)
            body = plain(answer).replace(name.encode(), unknown.encode())
            assert body == plain(expected), (asked, method, headers)
            assert compared(answer) == compared(expected), (asked, method, headers)


def plain(answer: Answer) -> bytes:
    """Return the body, without compression."""
    is_compressed = answer.headers.get("content-encoding") == "gzip" and answer.status == 200
    return gzip.decompress(answer.body) if is_compressed and answer.body else answer.body


def compared(answer: Answer) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name not in UNCOMPARED}


@pytest.mark.parametrize("front", ["", *FRONTS])
def test_nothing_of_a_hidden_layer_leaves_the_server(front: str) -> None:
    with public_folder() as folder, ExitStack() as stack:
        hunt = Hunt(folder, front, stack)
        wait_until(lambda: ask(hunt.url, hunt.prefix + PATHS[1].format(c="")).status == 200)
        for number in range(VIEWS * REQUESTS):
            # Views take turns: what one has filled into caches, the next one asks for.
            hunt.check(list(hunt.views)[number % VIEWS])
        assert hunt.shown > VIEWS * REQUESTS / 20
        print(front, hunt.shown, dict(hunt.caches))
        if front:
            assert hunt.caches["HIT"] > VIEWS * REQUESTS / 200
        check_files(hunt, folder, front)


def check_files(hunt: Hunt, folder: Path, front: str) -> None:
    """Check that logs and the files of caches contain no key, and logs no title."""
    hunt.server.stop()
    log = hunt.server.log.read_text("utf-8")
    assert front or log.count('"path"') >= VIEWS * REQUESTS
    assert "Traceback" not in log
    titles = {
        word.decode() for name, words in hunt.words.items() for word in words - {name.encode()}
    }
    # A layer is named by those who ask for it, and by nobody else.
    assert not titles & set(re.findall("[0-9a-f]{20}", log))
    written = [
        path for path in (*folder.rglob("*.log"), *folder.glob("cache/**/*")) if path.is_file()
    ]
    assert written
    for path in written:
        content = path.read_bytes()
        assert not any(key and key[12:].encode() in content for key in hunt.views), path
