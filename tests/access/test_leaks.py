"""The hunt for leaks: views over layers of which nobody can guess anything, asked at random.

``MASTABA_SIZES=full`` makes a million requests: a third without a front server, one behind nginx
and one behind Varnish, whose caches all views share. ``MASTABA_PART=2/5`` makes the second fifth of
them, over another world.
"""

from __future__ import annotations

import gzip
import io
import math
import random
import re
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from hashlib import sha1
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
import pytest
from PIL import Image
from tests.access.checking_fronts import FRONTS, PREFIX
from tests.access.secret_world import HEIGHT, OF_KEYS, WORD, SecretWorld, word
from tests.live.client import Answer, ask
from tests.live.pipeline import Asked, Pipeline
from tests.live.processes import Mastaba, changed, free_port, public_folder, wait_until
from tests.sizes import PART, PARTS, sized

pytestmark = [pytest.mark.live, pytest.mark.thorough, pytest.mark.timeout(86_400)]

VIEWS, LAYERS, REQUESTS = sized((5, 24, 600), (50, 200, 20_000))
"""Views, layers, and requests of each view, behind all fronts and in all parts together."""
WAYS = ("", *FRONTS)
OF_A_KEY = math.ceil(REQUESTS / len(WAYS) / PARTS / 2)
"""Each view has two keys, with the same rights and other addresses in its documents."""
CONNECTIONS = 4
"""Each stays with one of the two workers."""
AT_ONCE = 8
"""Requests that are sent before an answer is read."""
UNCOMPARED = ("date", "age", "x-varnish", "connection")
"""Headers that differ between two answers about the same."""
LONG = 4096
"""Bytes of a body that is not read again for a view that has had it."""
SERVICES = (
    *("wms", "wmts", "tms", "ogcapi", "wcs", "terrain", "elevation", "viewer", "metrics"),
    *("health", "history", "provenance", "stylesheets", "usage", "export"),
)
SEGMENT = re.compile(rb"(?:/|%2[Ff])(?:~|%7[Ee])([0-9A-Za-z_]{12,})")
"""A credential, or a mark, in an address; shorter ones are in any file of bytes."""
NEUTRAL = ((0, 0, 0), (255, 255, 255))
"""Colours of what is empty, and of heights."""
NEARLY = 3
"""Difference of a channel that JPEG may make."""

DOCUMENTS = (
    "/wms{c}?SERVICE=WMS&REQUEST=GetCapabilities&VERSION=1.1.1",
    "/wms{c}?SERVICE=WMS&REQUEST=GetCapabilities&VERSION=1.3.0",
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
    "/history{c}",
    "/history{c}/feed.atom",
    "/history{c}/stac",
    "/provenance{c}",
    "/styles{c}",
    "/export{c}/processes",
    "/export{c}/jobs",
    "/usage{c}?by=layer&format=json",
    "/{c}?f=json",
    "/metrics{c}",
    "/healthcheck/info",
    "/healthcheck",
    "/unknown",
)
WMS = "/wms{c}?SERVICE=WMS&VERSION=1.3.0&CRS=EPSG:3857&BBOX=2504688,2504688,5009377,5009377"
PICTURES = (
    WMS + "&REQUEST=GetMap&LAYERS={n}&STYLES=&WIDTH=8&HEIGHT=8&FORMAT=image/png",
    WMS + "&REQUEST=GetMap&LAYERS={own},{n}&STYLES=,&WIDTH=8&HEIGHT=8&FORMAT=image/jpeg",
    WMS + "&REQUEST=GetMap&LAYERS={n},{own}&STYLES=,&WIDTH=8&HEIGHT=8&FORMAT=image/png"
    "&EXCEPTIONS=BLANK&TRANSPARENT=TRUE",
    "/wmts{c}?SERVICE=WMTS&VERSION=1.0.0&REQUEST=GetTile&LAYER={n}&STYLE=normal"
    "&FORMAT=image/png&TILEMATRIXSET=PM&TILEMATRIX=2&TILEROW=1&TILECOL=2",
    "/wmts{c}/1.0.0/{n}/normal/PM/2/1/2.png",
    "/wmts{c}/1.0.0/{n}/normal/PM/3/2/4.jpg",
    "/tms{c}/1.0.0/{n}/2/2/1.png",
    "/tms{c}/1.0.0/{n}/3/5/4.jpg",
    "/ogcapi{c}/collections/{n}/map?width=8&height=8&bbox=25,25,40,40",
    "/ogcapi{c}/collections/{n}/map/tiles/PM/2/1/2",
    "/ogcapi{c}/map?collections={n}&width=8&height=8&bbox=25,25,40,40",
)
HEIGHTS = ("/terrain{c}/{n}/mapbox/2/2/1.png",)
FEATURE_INFO = (
    WMS + "&REQUEST=GetFeatureInfo&LAYERS={n}&QUERY_LAYERS={n}&STYLES=&WIDTH=16&HEIGHT=16"
    "&FORMAT=image/png&INFO_FORMAT=text/plain&I=3&J=3",
    "/wmts{c}?SERVICE=WMTS&VERSION=1.0.0&REQUEST=GetFeatureInfo&LAYER={n}&STYLE=normal"
    "&FORMAT=image/png&TILEMATRIXSET=PM&TILEMATRIX=2&TILEROW=1&TILECOL=2&I=3&J=3"
    "&INFOFORMAT=text/plain",
)
OTHERS = (
    "/wms{c}?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetLegendGraphic&LAYER={n}&FORMAT=image/png",
    "/tms{c}/1.0.0/{n}",
    "/tms{c}/1.0.0/{n}/metadata.json",
    "/tms{c}/1.0.0/{n}/gdal.xml",
    "/tms{c}/1.0.0/{n}/2/2/2.pbf",
    "/tms{c}/1.0.0/{n}/2/2/1.zip",
    "/ogcapi{c}/collections/{n}?f=json",
    "/ogcapi{c}/collections/{n}?f=html",
    "/ogcapi{c}/collections/{n}/map/tiles/PM?f=tilejson",
    "/ogcapi{c}/collections/{n}/tiles/PM/2/1/2",
    "/ogcapi{c}/collections/{n}/coverage?scale-size=x(4),y(4)&f=tiff",
    "/ogcapi{c}/collections/{n}/coverage?scale-size=x(4),y(4)&f=covjson",
    "/wcs{c}?SERVICE=WCS&VERSION=2.0.1&REQUEST=DescribeCoverage&COVERAGEID={n}",
    "/wcs{c}?SERVICE=WCS&VERSION=2.0.1&REQUEST=GetCoverage&COVERAGEID={n}&FORMAT=image/tiff"
    "&SCALESIZE=x(4),y(4)",
    "/wcs{c}?SERVICE=WCS&VERSION=2.0.1&REQUEST=GetCoverage&COVERAGEID={n}&FORMAT=image/tiff"
    "&SCALESIZE=x(4),y(4)&MEDIATYPE=multipart/related",
    "/terrain{c}/{n}/style.json",
    "/terrain{c}/{n}/mesh/layer.json",
    "/elevation{c}/points?dataset={n}&coords=POINT(40+40)",
    "/elevation{c}/edr/collections/{n}",
    "/elevation{c}/edr/collections/{n}/position?coords=POINT(40+40)",
    "/viewer{c}/{n}",
    "/viewer{c}/data/layers/{n}.json",
    "/viewer{c}/data/stored/{n}/2/1/2",
    "/history{c}/{n}",
    "/history{c}/{n}/feed.json",
    "/history{c}/stac/{n}",
    "/provenance{c}/{n}",
    "/styles{c}/{n}.json",
    "/export{c}/processes/{n}",
    "/usage{c}/heat/{n}/2/1/2.png",
)
OF_A_LAYER = (*PICTURES, *HEIGHTS, *FEATURE_INFO, *OTHERS)
IMAGES = ("image/png", "image/jpeg", "image/webp")


class Upstream(BaseHTTPRequestHandler):
    """A WMS that answers with the name of the layer it is asked about, and notes all it gets."""

    protocol_version = "HTTP/1.1"
    server: Any

    def do_GET(self) -> None:
        asked = {name.upper(): value for name, value in parse_qsl(self.path.partition("?")[2])}
        body = f"value of {asked['QUERY_LAYERS']}".encode()
        self.server.got.append(f"{self.path}\n{self.headers}".encode())
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def upstream(got: list[bytes]) -> Iterator[str]:
    """Start the WMS; returns its address."""
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    server.got = got
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/ows"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass(frozen=True)
class Question:
    """A request that may be made about any layer.

    Attributes:
        key: of the view; empty for the public.
        template: of the address.
        own: a layer of the view.
        name: of the layer that it is about.
        unknown: of a layer that does not exist, to ask about too if the first one is hidden; empty
            if it is not, or if no layer is named.
        method: of the request.
        headers: beside that with the key.
        in_header: whether that is where the key is.
    """

    key: str
    template: str
    own: str
    name: str
    unknown: str
    method: str
    headers: dict[str, str]
    in_header: bool

    def about(self, name: str, prefix: str) -> Asked:
        """Return the request about a layer."""
        segment = f"/~{self.key}" if self.key and not self.in_header else ""
        if self.template.startswith("/{c}"):
            segment = segment.removeprefix("/")
        headers = {**self.headers, **({"X-API-Key": self.key} if self.in_header else {})}
        path = self.template.format(c=segment, n=name, own=self.own)
        return Asked(prefix + path, self.method, headers)


class _Pair:
    """Two connections, for what is asked and for what it is compared with.

    Attributes:
        asked: not answered yet.
    """

    def __init__(self, url: str) -> None:
        self._connections = [Pipeline(url), Pipeline(url)]
        self.asked: list[Question] = []

    def send(self, prefix: str, is_turned: bool) -> None:
        """Ask; of layers that do not exist on the other connection, maybe by the other worker."""
        if is_turned:
            self._connections.reverse()
        first, second = self._connections
        first.send([one.about(one.name, prefix) for one in self.asked])
        second.send([one.about(one.unknown, prefix) for one in self.asked if one.unknown])

    def receive(self) -> tuple[Iterator[Answer], Iterator[Answer]]:
        first, second = self._connections
        return iter(first.receive()), iter(second.receive())

    def close(self) -> None:
        for one in self._connections:
            one.close()


class Hunt:
    """A server with two workers and views, what each may see, and what each has got.

    Args:
        folder: for everything.
        front: name of the cache before the server; empty for none.
        stack: ends everything.
    """

    def __init__(self, folder: Path, front: str, stack: ExitStack) -> None:
        self.random = random.Random(f"{PART} {front}")
        self.forwarded: list[bytes] = []
        elsewhere = stack.enter_context(upstream(self.forwarded))
        port = free_port()
        self.prefix = PREFIX if front else ""
        self.url = f"http://127.0.0.1:{port}"
        self.world = SecretWorld(folder, PART, LAYERS, VIEWS, elsewhere)
        overrides: dict[str, Any] = {
            "global": {"generation_headers": True, "cors": True, "map": {"reprojection": True}},
            "ogcapi": {"coverages": True},
            "elevation": {"valid_range": [0, 30_001]},
            "terrain": {"valid_range": [0, 30_001]},
            "export": {"directory": str(folder / "export")},
        }
        if front:
            overrides["auth"] = {"enabled": True, "prefix": PREFIX}
        path = self.world.write(
            services=SERVICES,
            public_url=f"{self.url}{self.prefix}",
            services_overrides=overrides,
        )
        section = self.world.section(**({"trusted_fronts": ["127.0.0.1"]} if front else {}))
        usage = {"directory": str(folder / "usage"), "heat": True}
        file = changed(
            path,
            folder / "server.json",
            workers=2,
            plugins={"access": section, "usage": usage},
            logger={"output": "standard_output", "level": "info", "access": "json"},
        )
        backend = free_port() if front else port
        if front:
            FRONTS[front](stack, folder, backend, port, folder / "front.log")
        self.server = stack.enter_context(Mastaba(file, folder, http=backend))
        self.backend = f"http://127.0.0.1:{backend}"
        self.words = {
            key: frozenset(word for name in own for word in self.world.layers[name].words)
            for key, own in self.world.views.items()
        }
        self.owners: dict[str, set[str]] = {}
        self.etags = ["*"]
        self.known: dict[tuple[str, bool], set[bytes]] = defaultdict(set)
        self.pictures: set[Any] = set()
        self.counts: Counter[str] = Counter()
        self.asked_elsewhere: Counter[str] = Counter()

    # ------------------------------------------------------------ asking

    def learn_etags(self) -> None:
        """Note the ETags of all layers, as the view gets them that shows everything.

        What is searched for is found in its answers, so that the search is not for nothing.
        """
        shown: set[bytes] = set()
        pipeline = Pipeline(self.url)
        templates = [one for one in OF_A_LAYER if one not in FEATURE_INFO]
        for name in self.world.layers:
            questions = [
                Question(self.world.all_key, one, name, name, "", "GET", {}, in_header=True)
                for one in templates
                if "{own}" not in one
            ]
            pipeline.send(one.about(name, self.prefix) for one in questions)
            for answer in pipeline.receive():
                text = plain(answer)
                shown.update(WORD.findall(text), HEIGHT.findall(text))
                if answer.status == 200 and (etag := answer.headers.get("etag")):
                    self.owners.setdefault(base_of(etag), set()).add(name)
                    self.etags.append(etag)
        pipeline.close()
        # Legends and the like are equal for many layers.
        self.owners = {etag: found for etag, found in self.owners.items() if len(found) == 1}
        assert len(self.owners) > 4 * LAYERS
        for name, layer in self.world.layers.items():
            assert name.encode() in shown
            if layer.kind == "FLOAT32_ZIP":
                assert str(layer.height).encode() in shown

    def run(self) -> None:
        """Ask as each view, until each has made its requests."""
        left = dict.fromkeys(self.world.views, OF_A_KEY)
        pairs = [_Pair(self.url) for _ in range(2)]
        while left:
            # While the answers to some are read, the server works on the others.
            pairs.reverse()
            self.finish(pairs[0])
            # Views take turns: what one has filled into caches, the next one asks for.
            for key in self.random.sample(list(left), min(len(left), AT_ONCE)):
                pairs[0].asked.append(found := self.question(key))
                left[key] -= 2 if found.unknown else 1
                if left[key] <= 0:
                    del left[key]
            pairs[0].send(self.prefix, self.random.random() < 0.5)
        for pair in pairs:
            self.finish(pair)
            pair.close()

    def finish(self, pair: _Pair) -> None:
        """Read what a pair of connections was asked, and check it."""
        answers, others = pair.receive()
        for question in pair.asked:
            answer = next(answers)
            self.check(question, question.name, answer)
            if question.unknown:
                expected = next(others)
                self.check(question, question.unknown, expected)
                name, unknown = question.name.encode(), question.unknown.encode()
                assert answer.status == expected.status, question
                assert plain(answer).replace(name, unknown) == plain(expected), question
                assert compared(answer) == compared(expected), question
        pair.asked.clear()

    def question(self, key: str) -> Question:
        """Return something to ask as a view."""
        own, chance = self.world.views[key], self.random
        known = chance.choice(sorted(own))
        name = chance.choice((known, chance.choice(list(self.world.layers))))
        # Documents are long, and fewer than what layers have.
        template = chance.choice(OF_A_LAYER if chance.random() < 0.85 else DOCUMENTS)
        method = chance.choice(("GET", "GET", "GET", "GET", "HEAD", "OPTIONS"))
        headers = {}
        match chance.randrange(6):
            case 0:
                headers["If-None-Match"] = chance.choice(self.etags)
            case 1:
                headers["Range"] = "bytes=0-99"
            case 2:
                headers["Accept-Encoding"] = "gzip"
            case 3:
                headers["Accept"] = "text/html"
        in_header = bool(key) and chance.random() < 0.3
        is_hidden = name not in own and "{n}" in template
        unknown = word() if is_hidden else ""
        layer = self.world.layers[name]
        if layer.kind == "EXTERNAL" and not is_hidden and template in FEATURE_INFO:
            self.asked_elsewhere[layer.elsewhere] += method != "OPTIONS"
        return Question(key, template, known, name, unknown, method, headers, in_header)

    # ------------------------------------------------------------ checking

    def check(self, question: Question, name: str, answer: Answer) -> None:
        """Check that an answer contains nothing that its view does not show."""
        self.counts["requests"] += 1
        self.counts[answer.headers.get("x-cache", "")] += 1
        assert answer.status not in (500, 502, 503, 504), (question, name)
        head = "\n".join(answer.headers.values()).encode("latin-1")
        self.check_text(question, name, head)
        self.check_etag(question, answer)
        body = plain(answer)
        known = self.known[question.key, question.in_header]
        digest = sha1(body).digest() if len(body) > LONG else b""
        if digest not in known and self.check_text(question, name, body) and digest:
            known.add(digest)
        if answer.status == 200 and question.method == "GET":
            is_own = name in self.world.views[question.key]
            self.counts["shown"] += is_own or not question.unknown
            if question.template in (*PICTURES, *HEIGHTS) and answer.media_type in IMAGES:
                self.check_picture(question, name if is_own else "", body)

    def check_text(self, question: Question, name: str, text: bytes) -> bool:
        """Check a text; return whether it contains only what the view shows."""
        found = {one.lower() for one in WORD.findall(text)}.union(HEIGHT.findall(text))
        others = found - self.words[question.key]
        assert others <= {name.encode()}, (question, name, others)
        key = question.key.encode()
        assert all(one in key for one in OF_KEYS.findall(text)), (question, name)
        # A part of an answer may end within the key.
        shown = b"" if question.in_header else key
        assert all(shown.startswith(one) for one in SEGMENT.findall(text)), (question, name)
        return not others

    def check_etag(self, question: Question, answer: Answer) -> None:
        etag = answer.headers.get("etag", "")
        owners = self.owners.get(base_of(etag), frozenset())
        assert owners <= self.world.views[question.key], (question, etag)
        if etag and len(self.etags) < 5000:
            self.etags.append(etag)

    def check_picture(self, question: Question, name: str, body: bytes) -> None:
        """Check that pixels are those of the layers asked for, as far as the view shows them."""
        names = {name, question.own if "{own}" in question.template else ""} - {""}
        state = sha1(body).digest(), *sorted(names)
        if state in self.pictures:
            return
        layers = [self.world.layers[one] for one in names]
        pixels = np.asarray(Image.open(io.BytesIO(body)).convert("RGBA"), np.int64).reshape(-1, 4)
        seen = np.unique(pixels[pixels[:, 3] > 0][:, :3], axis=0)
        if question.template in HEIGHTS:
            heights = {(r * 65536 + g * 256 + b) / 10 - 10_000 for r, g, b in seen.tolist()}
            assert heights <= {one.height for one in layers}, (question, heights)
        else:
            allowed = np.array([*NEUTRAL, *(one.colour for one in layers)])
            if any(one.kind == "FLOAT32_ZIP" for one in layers):
                # Its pixels are greys.
                seen = seen[np.ptp(seen, axis=1) > NEARLY]
            apart = np.abs(seen[:, np.newaxis] - allowed).max(axis=2)
            assert (apart.min(axis=1) <= NEARLY).all(), (question, name, seen)
            self.counts["pictures"] += bool((apart[:, len(NEUTRAL) :] <= NEARLY).any())
        self.pictures.add(state)


def plain(answer: Answer) -> bytes:
    """Return the body, without compression."""
    is_compressed = answer.headers.get("content-encoding") == "gzip" and answer.status == 200
    return gzip.decompress(answer.body) if is_compressed and answer.body else answer.body


def compared(answer: Answer) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name not in UNCOMPARED}


def base_of(etag: str) -> str:
    """Return an ETag without what depends on the credential and the coding."""
    return etag.removeprefix("W/").strip('"').partition("-")[0]


@pytest.mark.parametrize("front", WAYS)
def test_nothing_of_a_hidden_layer_leaves_the_server(front: str) -> None:
    with public_folder() as folder, ExitStack() as stack:
        hunt = Hunt(folder, front, stack)
        address = DOCUMENTS[2].format(c="")
        wait_until(lambda: ask(hunt.url, hunt.prefix + address).status == 200)
        hunt.learn_etags()
        hunt.run()
        print(front, PART, PARTS, dict(hunt.counts), len(hunt.forwarded))
        counts = hunt.counts
        assert counts["requests"] >= 2 * OF_A_KEY * VIEWS
        assert counts["shown"] > counts["requests"] / 10
        assert counts["pictures"] > LAYERS / 2
        if front:
            assert counts["HIT"] > counts["requests"] / 200
        check_elsewhere(hunt)
        check_state(hunt)
        hunt.server.stop()
        check_files(hunt, folder, front)


def check_elsewhere(hunt: Hunt) -> None:
    """Check that another WMS was asked by those who may ask it, and without their keys."""
    got = b"\n".join(hunt.forwarded)
    assert hunt.forwarded
    assert not OF_KEYS.search(got)
    assert not SEGMENT.search(got)
    asked = Counter(one.decode() for one in re.findall(b"QUERY_LAYERS=(zq[0-9a-f]+)", got))
    assert asked
    assert all(asked[one] <= hunt.asked_elsewhere[one] for one in asked)


def check_state(hunt: Hunt) -> None:
    """Check that operators read of no layer in metrics, and of no key anywhere."""
    for path in ("/metrics", "/healthcheck/info", "/healthcheck/depends", "/healthcheck/threads"):
        answer = ask(hunt.backend, path, headers={"X-API-Key": hunt.world.operator})
        assert answer.status == 200, path
        assert not OF_KEYS.search(answer.body), path
        assert not SEGMENT.search(answer.body), path
        assert path != "/metrics" or not WORD.search(answer.body)


def check_files(hunt: Hunt, folder: Path, front: str) -> None:
    """Check that logs, usage and the files of caches contain no key, and logs no title."""
    log = hunt.server.log.read_bytes()
    assert front or log.count(b'"path"') >= hunt.counts["requests"]
    assert b"Traceback" not in log
    # A layer is named by those who ask for it, and by nobody else.
    names = {name.encode() for name in hunt.world.layers}
    secret = {one for layer in hunt.world.layers.values() for one in layer.words} - names
    files = [path for path in folder.rglob("*") if path.is_file()]
    # What the server reads; and the log in memory of Varnish, which has requests as they arrive.
    ours = (folder / "world", folder / "pyramids", folder / "varnish")
    given = ("keys.sqlite", "secrets", "rules.json", "server.json")
    written = [
        path
        for path in files
        if not (path.name.startswith(given) or any(one in path.parents for one in ours))
    ]
    assert hunt.server.log in written
    assert front != "nginx" or len(written) > LAYERS
    for path in written:
        content = path.read_bytes()
        assert not OF_KEYS.search(content), path
        assert "cache" in path.parts or not SEGMENT.search(content), path
        assert "cache" in path.parts or not secret.intersection(WORD.findall(content)), path
