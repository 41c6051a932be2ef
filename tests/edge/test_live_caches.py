"""What caches in front of the server answer themselves, and what they ask for."""

from __future__ import annotations

import gzip
import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.edge.conftest import CACHING, SECRET, Edge, tile
from tests.live.client import ask
from tests.live.processes import wait_until

from mastaba.api.catalogue import digest_of

pytestmark = pytest.mark.live

MAP = (
    "/maps/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&LAYERS=RGB_RAW&STYLES=&CRS=EPSG:3857"
    "&BBOX=0,0,5000000,5000000&WIDTH=1500&HEIGHT=1500&FORMAT=image/png"
)


def test_a_tile_is_requested_once(edge: Edge) -> None:
    path = tile("RGB_JPG")
    answers = [edge.get(path) for _ in range(5)]
    assert {answer.status for answer in answers} == {200}
    assert len({answer.body for answer in answers}) == 1
    assert [answer.headers["x-cache"] for answer in answers] == ["MISS"] + 4 * ["HIT"]
    assert answers[0].headers["cache-control"] == CACHING["RGB_JPG"]
    assert "surrogate-key" not in answers[0].headers
    assert edge.requests(path) == [200]


def test_a_client_that_has_the_tile_gets_304_from_the_cache(edge: Edge) -> None:
    path = tile("RGB_JPG")
    etag = edge.get(path).headers["etag"]
    again = edge.get(path, headers={"If-None-Match": etag})
    assert (again.status, again.body) == (304, b"")
    assert edge.requests(path) == [200]


def test_what_is_no_longer_fresh_is_revalidated(edge: Edge) -> None:
    path = tile("RGB_PNG")
    first = edge.get(path)
    time.sleep(2.1)
    second = edge.get(path)
    assert (second.status, second.body) == (200, first.body)
    assert edge.requests(path, 2) == [200, 304]


def test_a_hundred_requests_for_one_map_draw_it_once(edge: Edge) -> None:
    with ThreadPoolExecutor(100) as pool:
        answers = list(pool.map(lambda _: edge.get(MAP), range(100)))
    assert {answer.status for answer in answers} == {200}
    assert len({answer.body for answer in answers}) == 1
    assert edge.requests(MAP) == [200]


def test_a_stale_tile_is_revalidated_in_the_background(edge: Edge) -> None:
    path = tile("GREY_PNG")
    body = edge.get(path).body
    time.sleep(2.1)
    stale = edge.get(path)
    assert (stale.status, stale.body) == (200, body)
    assert stale.headers["x-cache"] in ("STALE", "HIT")
    assert edge.requests(path, 2) == [200, 304]


def test_a_stale_tile_is_served_while_the_server_is_stopped(edge: Edge) -> None:
    allowed, refused = tile("RGBA_PNG"), tile("RGB_PNG")
    body = edge.get(allowed).body
    edge.get(refused)
    time.sleep(2.1)
    edge.server.stop()
    for _ in range(5):
        answer = edge.get(allowed)
        assert (answer.status, answer.body) == (200, body)
    assert edge.get(refused).status in (502, 503)
    edge.start()
    wait_until(lambda: edge.get(refused).status == 200)
    assert edge.get(allowed).body == body


def test_with_stale_if_error_alone_the_server_is_asked_first(edge: Edge) -> None:
    path = tile("RGBA_PNG")
    edge.get(path)
    time.sleep(2.1)
    assert edge.get(path).status == 200
    # Not in the background: the request was answered before the response.
    assert edge.requests(path, 2) == [200, 304]


def test_a_changed_layer_is_purged_and_others_keep_their_hits(edge: Edge) -> None:
    kept = [tile("VECTOR", "4/9/5"), tile("VECTOR", "4/10/6"), tile("VECTOR", "3/4/2")]
    purged = [
        tile("RGB_JPG", "4/9/5"),
        tile("RGB_JPG", "4/10/6"),
        MAP.replace("RGB_RAW", "RGB_JPG"),
    ]
    capabilities = "/maps/wmts?SERVICE=WMTS&REQUEST=GetCapabilities"
    for path in [*kept, *purged, capabilities]:
        edge.get(path)
        assert edge.get(path).headers["x-cache"] == "HIT"
    edge.change("RGB_JPG", title="After the change")
    edge.reload()
    assert {path: edge.get(path).headers["x-cache"] for path in kept} == dict.fromkeys(kept, "HIT")
    assert {edge.get(path).headers["x-cache"] for path in purged} == {"MISS"}
    assert "After the change" in edge.get(capabilities).body.decode()
    for path in kept:
        assert edge.requests(path) == [200]


def test_only_the_updated_area_of_a_pyramid_is_purged(edge: Edge) -> None:
    inside, outside = tile("RGB_JPG", "4/10/6"), tile("RGB_JPG", "4/9/5")
    drawn = MAP.replace("RGB_RAW", "RGB_JPG")
    for path in (inside, outside, drawn):
        edge.get(path)
        assert edge.get(path).headers["x-cache"] == "HIT"
    pyramid = edge.folder / "installation" / "pyramids" / "RGB_JPG.json"
    document = json.loads(pyramid.read_text("utf-8"))
    # In the middle of the tile of level 4, whose side is 2504688 m.
    x, y = 20037508.34 * (10.5 / 8 - 1), 20037508.34 * (1 - 6.5 / 8)
    update = {"since": digest_of(document), "bbox": [x, y, x + 1, y + 1]}
    pyramid.write_text(json.dumps({**document, "update": update}), "utf-8")
    edge.reload()
    assert edge.get(inside).headers["x-cache"] == "MISS"
    assert edge.get(drawn).headers["x-cache"] == "MISS"
    assert edge.get(outside).headers["x-cache"] == "HIT"
    assert edge.requests(outside) == [200]


def test_nothing_is_purged_without_a_change(edge: Edge) -> None:
    path = tile("RGB_JPG")
    edge.get(path)
    edge.change("RGB_PNG", title="Another layer")
    edge.reload()
    assert edge.get(path).headers["x-cache"] == "HIT"
    assert edge.requests(path) == [200]


def test_only_the_owner_of_the_secret_purges(edge: Edge) -> None:
    path = tile("RGB_JPG")
    edge.get(path)
    address = edge.caches[0].rstrip("/")
    for headers in ({}, {"X-Purge-Secret": "wrong"}, {"X-Purge-Secret": f"{SECRET}x"}):
        headers["Surrogate-Key"] = "layer-RGB_JPG"
        assert ask(address, "/", method="PURGE", headers=headers).status == 403
    assert ask(address, "/", method="PURGE", headers={"X-Purge-Secret": SECRET}).status == 400
    assert edge.get(path).headers["x-cache"] == "HIT"


def test_an_area_is_purged(edge: Edge) -> None:
    inside, outside = tile("RGB_JPG", "4/10/6"), tile("RGB_JPG", "4/9/5")
    for path in (inside, outside):
        edge.get(path)
    # In the middle of the tile of level 4, whose side is 2504688 m.
    x, y = 20037508.34 * (10.5 / 8 - 1), 20037508.34 * (1 - 6.5 / 8)
    edge.purge("RGB_JPG", "--bbox", *map(str, (x, y, x + 1, y + 1)))
    assert edge.get(inside).headers["x-cache"] == "MISS"
    assert edge.get(outside).headers["x-cache"] == "HIT"


def test_vector_tiles_fit_the_client(edge: Edge) -> None:
    path = tile("VECTOR")
    packed = edge.get(path, headers={"Accept-Encoding": "gzip"})
    plain = edge.get(path, headers={"Accept-Encoding": "identity"})
    none = edge.get(path)
    if packed.headers.get("content-encoding") == "gzip":
        assert gzip.decompress(packed.body) == plain.body
    for answer in (plain, none):
        assert "content-encoding" not in answer.headers
        assert answer.body == plain.body
    assert "accept-encoding" in packed.headers["vary"].lower()


def test_documents_fit_the_client(edge: Edge) -> None:
    path = "/maps/wmts?SERVICE=WMTS&REQUEST=GetCapabilities"
    for _ in range(2):
        packed = edge.get(path, headers={"Accept-Encoding": "gzip"})
        plain = edge.get(path, headers={"Accept-Encoding": "identity"})
        assert packed.headers["content-encoding"] == "gzip"
        assert "content-encoding" not in plain.headers
        assert gzip.decompress(packed.body) == plain.body


def test_a_negotiated_format_is_not_mixed_up(edge: Edge) -> None:
    for _ in range(2):
        for media_type in ("application/json", "text/html"):
            answer = edge.get("/maps/ogcapi", headers={"Accept": media_type})
            assert answer.media_type == media_type


def test_head_and_ranges_come_from_the_cache(edge: Edge) -> None:
    path = tile("RGB_JPG")
    head = edge.get(path, method="HEAD")
    body = edge.get(path).body
    assert (head.status, head.body) == (200, b"")
    assert int(head.headers["content-length"]) == len(body) > 0
    part = edge.get(path, headers={"Range": "bytes=10-19"})
    assert (part.status, part.body) == (206, body[10:20])
    assert edge.requests(path) == [200]


def test_every_spelling_of_a_query_is_right(edge: Edge) -> None:
    parameters = (
        "SERVICE=WMTS&REQUEST=GetTile&VERSION=1.0.0&LAYER=RGB_JPG&STYLE=normal&FORMAT=image/jpeg"
        "&TILEMATRIXSET=PM&TILEMATRIX=4&TILEROW={row}&TILECOL=9"
    )
    paths = {}
    for row in (5, 6):
        words = parameters.format(row=row).split("&")
        for spelling in (
            words,
            words[::-1],
            [word.lower().replace("rgb_jpg", "RGB_JPG").replace("=pm", "=PM") for word in words],
        ):
            paths["/maps/wmts?" + "&".join(spelling)] = tile("RGB_JPG", f"4/9/{row}")
    for _ in range(2):
        for path, same in paths.items():
            answer = edge.get(path)
            assert answer.status == 200, answer.body
            assert answer.body == edge.get(same).body
    for path in paths:
        assert edge.requests(path) == [200]


def test_errors_are_not_cached_for_long(edge: Edge) -> None:
    wrong = "/maps/wmts?SERVICE=WMTS&REQUEST=GetTile&LAYER=none"
    for _ in range(3):
        assert edge.get(wrong).status == 400
    assert edge.requests(wrong, 3) == [400, 400, 400]
    missing = tile("RGB_JPG", "4/9/9999")
    for _ in range(3):
        assert edge.get(missing).status == 404
    assert len(edge.requests(missing)) <= 3


def test_a_map_without_cache_control_is_not_cached(edge: Edge) -> None:
    path = MAP.replace("RGB_RAW", "GREYA_ZIP").replace("1500", "100")
    for _ in range(3):
        assert edge.get(path).status == 200
    assert len(edge.requests(path, 3)) == 3


def test_what_is_for_operators_is_not_public(edge: Edge) -> None:
    for path in ("/maps/healthcheck", "/maps/healthcheck/ready", "/maps/admin", "/other"):
        assert edge.get(path).status == 404
