"""Pyramids from services: our own server, and servers that give bad answers."""

from __future__ import annotations

import io
import itertools
import json
import re
import shlex
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from PIL import Image
from tests.build.conftest import built, plan_in
from tests.build.ground import grid, noise, read_payloads, read_tiles, write_raster
from tests.build.services import Handler, Upstream
from tests.build.test_pixels import aligned, cell
from tests.fork_server import STOPS_IT, ForkServer
from tests.support.sampling import one_in

from mastaba.wsgi import create_application
from mastaba_build.commands.server import write_server
from mastaba_build.config.access import Access
from mastaba_build.config.configuration import configuration_of
from mastaba_build.errors import PlanError, StoppedError
from mastaba_build.harvest import client
from mastaba_build.harvest.pictures import PictureReader
from mastaba_build.plan.plan import Plan
from mastaba_build.pyramid.verification import verify
from mastaba_build.samples import PixelType
from mastaba_build.work.build import build
from mastaba_build.work.plans import plan_of
from mastaba_build.work.reports import Reports
from mastaba_writer.tile_encoder import encode_tile
from mastaba_writer.tile_matrix_sets import synthetic

pytest.importorskip("mastaba_wms")
pytest.importorskip("mastaba_wmts")

LEVEL = "12"
BOX = "&bbox=" + ",".join(map(str, (*aligned(12, 1401, 2100), *aligned(12, 1400, 2101))))
"""One tile of this level."""


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """A published pyramid of 3 x 4 tiles at its finest level, which the upstream server has."""
    folder = tmp_path_factory.mktemp("original")
    x, y = aligned(int(LEVEL), 1400, 2100)
    pixels = noise(3, 4 * 256, 3 * 256)
    source = write_raster(folder / "a.tif", pixels, grid(x, y, cell(int(LEVEL))), "EPSG:3857")
    plan = plan_in(folder, source, name="ortho", format="png", top="9", slab=[4, 4])
    built(plan)
    return plan


@pytest.fixture(scope="module")
def application(original: Plan) -> Any:
    return create_application(str(write_server(original, "http://127.0.0.1")))


@pytest.fixture
def upstream(application: Any) -> Iterator[Upstream]:
    with Upstream(application) as server:
        yield server


@pytest.fixture(autouse=True)
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask without the proxy of this machine."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let failed requests be repeated at once."""
    monkeypatch.setattr(client, "PATIENCE", client.Patience(5.0, 5.0, (0.0,) * 4, 5.0))


def stored(original: Plan) -> Path:
    return Path(original.configuration.output.path("ortho.json"))


def harvest_of(folder: Path, source: str, **more: Any) -> Plan:
    """Return the plan of a harvest."""
    values = {"output": str(folder / "out"), "slab": [4, 4], "encoder": "isal", "top": "9", **more}
    values = {"name": "copy", "tile_matrix_set": "PM", **values, "sources": [source]}
    return plan_of(configuration_of(values, "test", access=Access(network=True)))


def wmts(upstream: Upstream, more: str = "") -> str:
    return f"wmts:{upstream.url}/wmts#layer=ortho{more}"


def wms(upstream: Upstream, more: str = "") -> str:
    return f"wms:{upstream.url}/wms#layers=ortho{more}"


def test_tiles_are_stored_as_they_come(tmp_path: Path, original: Plan, upstream: Upstream) -> None:
    plan = harvest_of(tmp_path, wmts(upstream), channels=3)
    assert plan.terms is not None
    assert not upstream.pictures
    payloads = read_payloads(built(plan))
    assert payloads == read_payloads(stored(original))
    assert len(upstream.pictures) == plan.terms.requests
    assert len({key[0] for key in payloads}) == 4
    assert verify(plan.configuration.output, "copy", full=True)
    for path in (tmp_path / "out").rglob("*"):
        if path.is_file():
            assert upstream.url.removeprefix("http://").encode() not in path.read_bytes(), path


def test_the_proxy_is_that_of_the_environment(
    tmp_path: Path, upstream: Upstream, impatient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "wms:http://maps.example.org/wms#layers=ortho"
    monkeypatch.setenv("HTTP_PROXY", upstream.url)
    built(harvest_of(tmp_path, f"{source}{BOX}", channels=3, bottom=LEVEL))
    assert all(one.startswith("http://maps.example.org/wms?") for one in upstream.asked)
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with pytest.raises(PlanError, match="the proxy: Connection refused"):
        harvest_of(tmp_path, source, bottom=LEVEL)


def test_maps_are_the_pixels_of_the_service(
    tmp_path: Path, original: Plan, upstream: Upstream
) -> None:
    plan = harvest_of(tmp_path, wms(upstream), bottom=LEVEL)
    assert plan.terms is not None
    tiles, expected = read_tiles(built(plan)), read_tiles(stored(original))
    assert tiles.keys() == expected.keys()
    for key, tile in tiles.items():
        assert np.array_equal(tile, expected[key]), key
    assert len(upstream.pictures) == plan.terms.requests
    assert verify(plan.configuration.output, "copy", full=True)


@pytest.mark.parametrize(
    ("format", "channels", "options", "is_storable"),
    [
        ("JPEG", 3, {}, True),
        ("JPEG", 3, {"progressive": True}, False),
        ("JPEG", 1, {}, False),
        ("PNG", 3, {}, False),  # Pillow filters rows
        ("PLAIN", 3, {}, True),
        ("PLAIN", 4, {}, True),
        ("PLAIN", 1, {}, False),
    ],
)
def test_which_tiles_are_stored_as_they_come(
    format: str, channels: int, options: dict[str, Any], is_storable: bool
) -> None:
    pixels = noise(channels, 256, 256).transpose(1, 2, 0)
    kept = 4 if channels == 4 else 3
    media_type = "image/jpeg" if format == "JPEG" else "image/png"
    name = "TIFF_JPG_UINT8" if format == "JPEG" else "TIFF_PNG_UINT8"
    type_ = PixelType(name, kept, (0.0,) * kept)
    if format == "PLAIN":
        body = encode_tile("TIFF_PNG_UINT8", pixels)
    else:
        stream = io.BytesIO()
        Image.fromarray(pixels.squeeze()).save(stream, format, **options)
        body = stream.getvalue()
    reader = PictureReader(media_type, type_, type_.nodata)
    picture = reader.read(client.Answer(media_type, body), 256, 256)
    assert picture.payload == (body if is_storable else None)
    shown = np.asarray(Image.open(io.BytesIO(body)).convert("RGBA"))
    seen = shown[:, :, 3] > 0
    assert np.array_equal(picture.raster.samples[seen, :3], shown[seen, :3])


def test_a_set_with_other_tiles_is_rebuilt(
    tmp_path: Path, original: Plan, upstream: Upstream
) -> None:
    sets = tmp_path / "sets"
    sets.mkdir()
    document = synthetic(
        "large",
        crs="EPSG:3857",
        origin=(aligned(0, 0, 0)[0] + 128 * cell(12), aligned(0, 0, 0)[1]),
        cell_sizes=[cell(level) for level in (11, 12)],
        matrix_sizes=[(2**10, 2**10), (2**11, 2**11)],
        tile_size=(512, 512),
    )
    (sets / "large.json").write_text(json.dumps(document))
    plan = harvest_of(
        tmp_path,
        wmts(upstream, "&set=PM_9_12"),
        tile_matrix_set="large",
        tile_matrix_sets=str(sets),
        top="1",
        slab=[3, 2],
        channels=3,
    )
    assert any("decoded and rebuilt" in note for note in plan.notes)
    rebuilt = payload_mosaic(built(plan), "1", 512, (-128, 0))
    assert np.array_equal(rebuilt, payload_mosaic(stored(original), LEVEL, 256, (0, 0)))
    assert plan.terms is not None
    # A column of tiles is in two slabs.
    assert len(upstream.pictures) == plan.terms.requests == 16


def payload_mosaic(descriptor: Path, level: str, size: int, shift: tuple[int, int]) -> np.ndarray:
    """Return the pixels of the source from the tiles of a level."""
    left, top = 2100 * 256 + shift[0], 1400 * 256 + shift[1]
    found = np.zeros((4 * 256, 3 * 256, 3), np.uint8)
    for (one, row, column), data in read_payloads(descriptor).items():
        if one == level:
            tile = np.asarray(Image.open(io.BytesIO(data)))
            for y in range(size):
                for_row = row * size + y - top
                if 0 <= for_row < len(found):
                    first = column * size - left
                    into = slice(max(0, first), min(found.shape[1], first + size))
                    found[for_row, into] = tile[y, into.start - first : into.stop - first]
    return found


@pytest.mark.thorough
def test_native_uses_the_set_of_the_service(
    tmp_path: Path, original: Plan, upstream: Upstream
) -> None:
    source = wmts(upstream, "&set=PM_9_12")
    plan = harvest_of(tmp_path, source, tile_matrix_set="native", channels=3, top="9")
    assert read_payloads(built(plan)) == read_payloads(stored(original))
    assert json.loads((tmp_path / "out/tilematrixsets/PM-9-12.json").read_text())["crs"]


@pytest.mark.parametrize("version", ["1.3.0", "1.1.1"])
def test_boxes_have_the_axis_order_of_the_version(
    tmp_path: Path, original: Plan, upstream: Upstream, version: str
) -> None:
    source = f"wms:{upstream.url}/wms?VERSION={version}#layers=ortho&format=image/png"
    plan = harvest_of(tmp_path, source, tile_matrix_set="4326", bottom="12", top="12")
    tiles = read_tiles(built(plan))
    asked = parse_qs(urlsplit(upstream.pictures[0]).query)
    assert asked["VERSION"] == [version]
    box = list(map(float, asked["BBOX"][0].split(",")))
    matrix = plan.levels[0].matrix
    place = min((row, column) for _, row, column in tiles)
    x = matrix.origin_x + place[1] * 256 * matrix.cell_size
    y = matrix.origin_y - place[0] * 256 * matrix.cell_size
    assert [x, y] == pytest.approx([box[1], box[2]] if version == "1.3.0" else [box[0], box[3]])
    # The same area at about the same scale; boxes in another order would show nothing.
    assert sum(tile.any(axis=2).sum() for tile in tiles.values()) > 3 * 4 * 256 * 256 / 3


@pytest.mark.thorough
def test_heights_are_harvested_exactly(tmp_path: Path) -> None:
    x, y = aligned(12, 1400, 2100)
    heights = np.random.default_rng(1).random((1, 300, 300)).astype(np.float32) * 1000
    source = write_raster(tmp_path / "a.tif", heights, grid(x, y, cell(12)), "EPSG:3857")
    plan = plan_in(tmp_path / "dem", source, name="ortho", format="zip", top="11", slab=[4, 4])
    descriptor = built(plan)
    with Upstream(create_application(str(write_server(plan, "http://127.0.0.1")))) as server:
        source = wms(server, "&format=image/x-bil;bits=32")
        harvested = read_tiles(built(harvest_of(tmp_path, source, bottom="12", top="11")))
    expected = read_tiles(descriptor)
    assert harvested.keys() == expected.keys()
    assert all(np.array_equal(harvested[key], expected[key]) for key in expected)


def white() -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (256, 256), "white").save(stream, "PNG")
    return stream.getvalue()


def small() -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (255, 256)).save(stream, "PNG")
    return stream.getvalue()


REPORT = b"<ServiceExceptionReport><ServiceException>disk is broken</ServiceException></x>"


def cut(handler: Handler) -> None:
    """Promise more bytes than come."""
    handler.send_response(200)
    handler.send_header("Content-Type", "image/png")
    handler.send_header("Content-Length", "5000")
    handler.end_headers()
    handler.wfile.write(white()[:100])
    handler.close_connection = True


def endless(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Type", "image/png")
    handler.end_headers()
    handler.close_connection = True
    while True:
        handler.wfile.write(bytes(1 << 16))


def slow(handler: Handler) -> None:
    """Send a byte now and then, until the client has had enough."""
    handler.send_response(200)
    handler.send_header("Content-Type", "image/png")
    handler.send_header("Content-Length", "5000")
    handler.end_headers()
    handler.close_connection = True
    for _ in range(600):
        handler.wfile.write(b"\0")
        time.sleep(0.1)


def elsewhere(handler: Handler) -> None:
    host = handler.headers["Host"].replace("127.0.0.1", "localhost")
    handler.give(302, b"", "text/plain", Location=f"http://{host}/stolen")


def silent(handler: Handler) -> None:
    """Close the connection without an answer."""
    handler.close_connection = True


def gives(status: int, body: bytes, media_type: str, **headers: str) -> Callable[[Handler], None]:
    return lambda handler: handler.give(status, body, media_type, **headers)


BAD: dict[str, tuple[Callable[[Handler], None], str]] = {
    "report with 200": (gives(200, REPORT, "text/xml"), "disk is broken"),
    "cut": (cut, "the response is truncated"),
    "500": (gives(500, b"", "text/plain"), "status 500"),
    "report as a picture": (gives(200, REPORT, "image/png"), "disk is broken"),
    "429": (gives(429, b"", "text/plain", Retry_After="0"), "status 429"),
    "400": (gives(400, REPORT, "text/xml"), "status 400"),
    "another type": (gives(200, white(), "image/jpeg"), "image/jpeg instead of image/png"),
    "half a picture": (gives(200, white()[:-30], "image/png"), "cut short"),
    "damaged": (gives(200, white()[:60] + b"\xff" * 99, "image/png"), "picture"),
    "another size": (gives(200, small(), "image/png"), "255 x 256 pixels instead of 256 x 256"),
    "empty": (gives(200, b"", "image/png"), "cannot be decoded"),
    "compressed": (gives(200, b"", "image/png", Content_Encoding="gzip"), "encoding gzip"),
    "another host": (elsewhere, "redirects to another host"),
    "endless": (endless, "has more than"),
    "silent": (silent, ""),
}


def test_bad_answers_are_repeated_and_not_stored(
    tmp_path: Path, original: Plan, upstream: Upstream, impatient: None
) -> None:
    kinds = itertools.cycle(BAD)
    asked: Counter[str] = Counter()
    lock = threading.Lock()

    def spoil(handler: Handler, query: dict[str, str]) -> bool:
        with lock:
            asked[handler.path] += 1
            kind = next(kinds) if asked[handler.path] < 5 else None
        if kind is not None:
            BAD[kind][0](handler)
        return kind is not None

    upstream.spoil = spoil
    descriptor = built(harvest_of(tmp_path, wmts(upstream), channels=3))
    assert read_payloads(descriptor) == read_payloads(stored(original))
    assert set(asked.values()) == {5}
    assert not any("stolen" in path for path in upstream.asked)


@pytest.mark.parametrize("kind", one_in(5, list(BAD)))
def test_a_slab_that_cannot_be_had_fails_and_is_resumed(
    tmp_path: Path, original: Plan, upstream: Upstream, impatient: None, kind: str
) -> None:
    answer, reason = BAD[kind]

    def spoil(handler: Handler, query: dict[str, str]) -> bool:
        is_bad = query.get("tilerow") == "1401" and query.get("tilecol") == "2101"
        if is_bad:
            answer(handler)
        return is_bad

    upstream.spoil = spoil
    plan = harvest_of(tmp_path, wmts(upstream), channels=3, slab=[1, 1], top="12")
    errors = io.StringIO()
    assert not build(plan, Reports(io.StringIO(), errors))
    assert reason in errors.getvalue()
    assert "after 5 attempts" in errors.getvalue()
    assert not (tmp_path / "out/copy.json").exists()
    failed = [one for one in upstream.pictures if "TILEROW=1401&TILECOL=2101" in one]
    assert len(failed) == 5
    before = len(upstream.pictures)
    upstream.spoil = lambda handler, query: False
    payloads = read_payloads(built(plan))
    expected = read_payloads(stored(original))
    assert payloads == {key: data for key, data in expected.items() if key[0] == LEVEL}
    assert len(upstream.pictures) == before + 1


def test_slow_answers_are_given_up(
    tmp_path: Path, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "PATIENCE", client.Patience(60.0, 0.3, (0.0,), 5.0))
    plan = harvest_of(tmp_path, wmts(upstream), channels=3, top="12", slab=[8, 8])

    def spoil(handler: Handler, query: dict[str, str]) -> bool:
        slow(handler)
        return True

    upstream.spoil = spoil
    errors = io.StringIO()
    assert not build(plan, Reports(io.StringIO(), errors))
    assert "no response in time, after 2 attempts" in errors.getvalue()


def test_retry_after_is_obeyed(tmp_path: Path, upstream: Upstream, impatient: None) -> None:
    times: list[float] = []

    def spoil(handler: Handler, query: dict[str, str]) -> bool:
        times.append(time.monotonic())
        if len(times) == 1:
            handler.give(503, b"", "text/plain", Retry_After="1")
        return len(times) == 1

    upstream.spoil = spoil
    plan = harvest_of(tmp_path, wmts(upstream, BOX), channels=3, top="12", concurrency=1)
    built(plan)
    assert times[1] - times[0] >= 1
    assert len(times) == 2


@pytest.mark.parametrize(
    ("status", "headers", "reason"),
    [
        (429, {"Retry_After": "7200"}, "asks to wait 7200 s"),
        (403, {}, "^127.+ denies access"),
        (407, {}, "the proxy denies access"),
        # Their bodies are shorter than announced.
        (401, {"Content-Length": "100"}, "denies access"),
        (503, {"Retry_After": "7200", "Content-Length": "100"}, "asks to wait 7200 s"),
    ],
)
def test_a_build_stops_if_repeating_is_useless(
    tmp_path: Path,
    upstream: Upstream,
    impatient: None,
    status: int,
    headers: dict[str, str],
    reason: str,
) -> None:
    def spoil(handler: Handler, query: dict[str, str]) -> bool:
        handler.give(status, b"x", "text/plain", **headers)
        handler.close_connection = True
        return True

    upstream.spoil = spoil
    plan = harvest_of(tmp_path, wmts(upstream), channels=3, slab=[1, 1], concurrency=1)
    with pytest.raises(StoppedError, match=reason):
        build(plan, Reports(io.StringIO(), io.StringIO()))
    assert len(upstream.pictures) == 1


@pytest.mark.thorough
def test_a_build_stops_if_all_slabs_fail(
    tmp_path: Path, upstream: Upstream, impatient: None
) -> None:
    def spoil(handler: Handler, query: dict[str, str]) -> bool:
        handler.give(500, b"", "text/plain")
        return True

    upstream.spoil = spoil
    plan = harvest_of(tmp_path, wmts(upstream), channels=3, slab=[1, 1], concurrency=1)
    with pytest.raises(StoppedError, match="3 slabs have failed"):
        build(plan, Reports(io.StringIO(), io.StringIO()))
    assert len(upstream.pictures) <= 3 * 5


@pytest.mark.parametrize("blank", ["drop", "keep"])
def test_absent_and_blank_tiles(
    tmp_path: Path, original: Plan, upstream: Upstream, blank: str
) -> None:
    answers = {
        # Some services answer with a long page.
        ("1400", "2100"): gives(404, REPORT * 1000, "text/xml"),
        ("1400", "2101"): gives(204, b"", "image/png"),
        ("1401", "2100"): gives(200, white(), "image/png"),
    }

    def spoil(handler: Handler, query: dict[str, str]) -> bool:
        answer = answers.get((query["tilerow"], query["tilecol"]))
        if answer is not None:
            answer(handler)
        return answer is not None

    upstream.spoil = spoil
    plan = harvest_of(tmp_path, wmts(upstream), channels=3, top="12", blank=blank)
    expected = {k: v for k, v in read_payloads(stored(original)).items() if k[0] == LEVEL}
    payloads = read_payloads(built(plan))
    kept = payloads.pop((LEVEL, 1401, 2100), None)
    assert (kept is not None) == (blank == "keep")
    if kept is not None:
        assert (np.asarray(Image.open(io.BytesIO(kept))) == 255).all()
    for row, column in answers:
        del expected[LEVEL, int(row), int(column)]
    assert payloads == expected


def test_requests_at_a_time_are_as_many_as_stated(tmp_path: Path, upstream: Upstream) -> None:
    barrier = threading.Barrier(3)  # none of three goes on before all have come

    def spoil(handler: Handler, query: dict[str, str]) -> bool:
        barrier.wait()
        return False

    upstream.spoil = spoil
    built(harvest_of(tmp_path, wmts(upstream), channels=3, top="12", concurrency=3))
    assert upstream.most == 3


def test_the_plan_counts_requests_before_any_is_sent(
    tmp_path: Path, upstream: Upstream, command: Callable[..., Any]
) -> None:
    address = upstream.url.replace("//", "//me:geheim@")
    words = [f"wms:{address}/wms?apikey=S3CRET#layers=ortho", "--bottom", "12", "--pause", "0.5"]
    words += ["--output", str(tmp_path / "out"), "--dry-run"]
    denied = command(*words)
    assert denied.returncode == 2
    assert "--allow-network" in denied.stderr
    assert not upstream.asked
    words.append("--allow-network")
    text, events = command(*words), command(*words, "--json")
    assert text.returncode == events.returncode == 0, text.stderr
    assert "4 requests at a time" in text.stdout
    (event,) = map(json.loads, events.stdout.splitlines())
    assert (event["requests"], event["concurrency"], event["pause"]) == (1, 4, 0.5)
    assert sum(level["requests"] for level in event["levels"]) == 1
    assert not upstream.pictures
    assert "apikey=S3CRET" in upstream.asked[0]
    assert upstream.headers[0]["Authorization"] == "Basic bWU6Z2VoZWlt"
    bad = command(*words[:-2], "--allow-network", "--tms", "2154_1m")
    said = text.stdout + events.stdout + bad.stdout + bad.stderr + denied.stderr
    assert bad.returncode == 2
    assert not re.search("geheim|S3CRET|bWU6", said)


@pytest.mark.parametrize(
    ("source", "options", "reason"),
    [
        ("wms:{}/wms#layers=none", {"bottom": "12"}, "no layer 'none'; it has .*ortho"),
        ("wmts:{}/wmts#layer=none", {}, "no layer 'none'; it has ortho"),
        ("wmts:{}/wmts#layer=ortho&set=x", {}, "no set 'x'; it has PM"),
        ("wmts:{}/wmts#layer=ortho&style=x", {}, "no style 'x'; it has normal"),
        ("wms:{}/wms#layers=ortho", {}, "state the finest level with --bottom"),
        ("wms:{}/wms#layers=ortho&format=image/gif", {"bottom": "12"}, "does not offer image/gif"),
        ("wms:{}/wms#layer=ortho", {}, "unknown 'layer' after #; use layers, "),
        ("wms:{}/wms#layers=ortho&bbox=1,2,3", {"bottom": "12"}, "XMIN,YMIN,XMAX,YMAX"),
        ("wms:{}/wms#layers=ortho&bbox=1,2,3,4", {"bottom": "12"}, "the layer is elsewhere"),
        ("wmts:{}/wms#layer=ortho", {}, "."),
        ("wms:ftp://a/#layers=a", {}, "starts with http:// or https://"),
        ("wmts:{}/wmts#layer=ortho", {"tile_matrix_set": "2154_1m"}, "have the pixels of"),
        ("wmts:{}/wmts#layer=ortho", {"format": "zip_float"}, "unknown format"),
        ("wmts:{}/wmts#layer=ortho", {"workers": 3}, "state --concurrency"),
        ("wmts:{}/wmts#layer=ortho", {"concurrency": 17}, "17 is greater than the maximum of 16"),
    ],
)
def test_what_does_not_fit_is_refused(
    tmp_path: Path,
    upstream: Upstream,
    impatient: None,
    source: str,
    options: dict[str, Any],
    reason: str,
) -> None:
    with pytest.raises(PlanError, match=reason):
        harvest_of(tmp_path, source.format(upstream.url), **options)
    assert not upstream.pictures


@pytest.mark.thorough
def test_a_killed_harvest_asks_for_each_slab_once(
    tmp_path: Path, original: Plan, upstream: Upstream, fork_server: ForkServer
) -> None:
    words = ["build", wmts(upstream), "--name", "copy", "--output", str(tmp_path / "out")]
    words += ["--slab", "1x1", "--channels", "3", "--top", "9", "--json", "--allow-network"]
    words += ["--concurrency", "1", "--encoder", "isal"]
    finished = 0
    for slabs in (2, 5):
        with fork_server.running(*words, after=slabs, by=STOPS_IT) as process:
            process.output.readline()
            for _ in range(slabs):
                finished += '"slab"' in process.output.readline()
        assert process.wait() == -signal.SIGKILL
        assert not (tmp_path / "out/copy.json").exists()
    assert finished == 7
    done = fork_server.run(*words)
    assert done.returncode == 0, done.stderr
    assert read_payloads(tmp_path / "out/copy.json") == read_payloads(stored(original))
    asked = Counter(upstream.pictures)
    # One tile at a time was on its way when the process was killed.
    assert sum(asked.values()) - len(asked) <= 2 * 2
    assert fork_server.run(*words).stdout.count('"complete"') == 1


@pytest.mark.thorough
def test_update_keeps_what_was_harvested(
    tmp_path: Path, original: Plan, upstream: Upstream
) -> None:
    few = harvest_of(tmp_path, wmts(upstream), channels=3, slab=[2, 2], top="12")
    built(few)
    before = len(upstream.pictures)
    more = harvest_of(tmp_path, wmts(upstream), channels=3, slab=[2, 2], top="11")
    assert any("--update keeps" in note for note in more.notes)
    errors = io.StringIO()
    assert build(more, Reports(io.StringIO(), errors), update="new"), errors.getvalue()
    asked = upstream.pictures[before:]
    assert asked
    assert all("TILEMATRIX=11" in one for one in asked)
    found = read_tiles(tmp_path / "out/copy.json")
    expected = {k: v for k, v in read_tiles(stored(original)).items() if k[0] in ("11", "12")}
    assert found.keys() == expected.keys()


@pytest.mark.thorough
def test_the_commands_of_the_manual(
    tmp_path: Path,
    upstream: Upstream,
    command: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (Path(__file__).parents[2] / "docs/from-services.md").read_text("utf-8")
    lines = [
        line
        for block in re.findall(r"^```sh\n(.*?)^```$", text, re.M | re.S)
        for line in block.splitlines()
    ]
    assert len(lines) == 6
    for line in lines:
        words = shlex.split(line.replace("https://maps.example.org", upstream.url))
        assert words[:2] == ["mastaba", "build"]
        done = command(*words[2:])
        assert done.returncode == 0, f"{line}: {done.stderr}"
        assert ("#" in words[2]) == ("requests at a time" in done.stdout)
    assert (tmp_path / "pyramids/degrees.json").exists()
