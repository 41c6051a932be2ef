"""The same installation gives the answers that the existing server recorded."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from lxml import etree
from werkzeug.test import Client

OpenClient = Callable[[Path], Client]

pytestmark = pytest.mark.shared_data

ENDPOINT = "http://127.0.0.1:8089/tms"
IEND = b"\x00\x00\x00\x00IEND\xaeB`\x82"


@dataclass(frozen=True)
class Answer:
    path: str
    status: int
    headers: dict[str, str]
    body: bytes


@pytest.fixture(scope="module")
def answers(shared_data: Path) -> dict[str, list[Answer]]:
    """Return what was recorded of TMS, by group."""
    folder = shared_data / "alps-answers"
    found: dict[str, list[Answer]] = {}
    for entry in json.loads((folder / "index.json").read_text()):
        if entry["path"].startswith("/tms") and entry["method"] == "GET":
            response = json.loads((folder / f"{entry['id']}.json").read_text())["response"]
            body = (folder / f"{entry['id']}.body").read_bytes()
            answer = Answer(entry["path"], response["status"], response["headers"], body)
            found.setdefault(entry["group"], []).append(answer)
    return found


@pytest.fixture(scope="module")
def alps(shared_data: Path, open_client: OpenClient) -> Iterator[Client]:
    """Return a client of the installation that the existing server had."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(shared_data / "alps")
        yield open_client(Path("conf/server.json"))


def test_tiles_are_equal(alps: Client, answers: dict[str, list[Answer]]) -> None:
    assert len(answers["tms.tile"]) == 48
    for answer in answers["tms.tile"]:
        response = alps.get(answer.path)
        assert response.status_code == answer.status, answer.path
        assert response.headers["Content-Type"] == answer.headers["Content-Type"]
        coding = answer.headers.get("Content-Encoding")
        assert response.headers.get("Content-Encoding") == coding
        body = answer.body
        # The existing server writes one byte too many behind the end of palette images.
        if response.headers["Content-Type"] == "image/png" and not body.endswith(IEND):
            assert body[:-1].endswith(IEND)
            assert b"PLTE" in body
            body = body[:-1]
        assert response.data == body, answer.path


def test_recorded_errors_are_equal(alps: Client, answers: dict[str, list[Answer]]) -> None:
    for group in answers.values():
        for answer in group:
            if answer.status >= 400:
                response = alps.get(answer.path)
                # Of what is asked for by its path, the existing server reports 400 as well.
                status = 404 if b"Unknown" in response.data else answer.status
                assert response.status_code == status, answer.path
                assert response.content_type == answer.headers["Content-Type"]
                assert etree.fromstring(response.data).tag == etree.fromstring(answer.body).tag


def test_layer_list_gives_the_same_facts(alps: Client, answers: dict[str, list[Answer]]) -> None:
    (recorded,) = (a for a in answers["caps"] if a.path == "/tms/1.0.0")
    expected, found = etree.fromstring(recorded.body), etree.fromstring(alps.get("/tms/1.0.0").data)
    # Only we list the sets in which layers are not stored.
    others = [item for item in found.iter("TileMap") if "@" in item.attrib["href"]]
    assert len(others) > 10
    for item in others:
        item.getparent().remove(item)
    assert facts(found) == facts(expected)


@pytest.fixture
def counted_from_the_top(
    shared_data: Path, tmp_path: Path, open_client: OpenClient, monkeypatch: pytest.MonkeyPatch
) -> Client:
    """Return a client of the same installation, with TileMaps as the existing server has them."""
    monkeypatch.chdir(shared_data / "alps")
    services = json.loads(Path("conf/services.json").read_text())
    services["tms"]["y_origin"] = "top"
    (tmp_path / "services.json").write_text(json.dumps(services))
    server = json.loads(Path("conf/server.json").read_text())
    server["configurations"]["services"] = str(tmp_path / "services.json")
    (tmp_path / "server.json").write_text(json.dumps(server))
    return open_client(tmp_path / "server.json")


def test_tile_maps_lead_to_the_same_tiles(alps: Client, answers: dict[str, list[Answer]]) -> None:
    """Our TileMaps count rows upward from the origin, theirs say so and do not."""
    compared = 0
    for answer in answers["layer"]:
        if answer.path.endswith(".json"):
            continue
        theirs, ours = (
            {
                tile_set.attrib["href"].rpartition("/")[2]: tile_set
                for tile_set in root.iter("TileSet")
            }
            for root in (
                etree.fromstring(answer.body),
                etree.fromstring(alps.get(answer.path).data),
            )
        )
        extension = etree.fromstring(answer.body).find("TileFormat").attrib["extension"]
        for name, there in theirs.items():
            here = ours[name]
            assert (here.get("mincol"), here.get("maxcol")) == (
                there.get("mincol"),
                there.get("maxcol"),
            )
            for low, high in (("minrow", "maxrow"), ("maxrow", "minrow")):
                found, expected = (
                    alps.get(
                        f"{tile_set.attrib['href']}/{tile_set.get('mincol')}/{tile_set.get(row)}"
                        f".{extension}".removeprefix("http://127.0.0.1:8089")
                    )
                    for tile_set, row in ((here, low), (there, high))
                )
                assert found.status_code == expected.status_code
                assert found.data == expected.data or found.status_code == 404
                compared += found.status_code == 200
    assert compared > 60


def test_tile_maps_give_the_same_facts(
    counted_from_the_top: Client, answers: dict[str, list[Answer]]
) -> None:
    alps, compared = counted_from_the_top, 0
    for answer in answers["layer"]:
        if answer.path.endswith(".json"):
            continue
        expected = etree.fromstring(answer.body)
        found = etree.fromstring(alps.get(answer.path).data)
        # Missing there; the standard has it.
        abstract = found.find("Abstract")
        assert abstract is not None
        found.remove(abstract)
        there, here = expected.find("BoundingBox"), found.find("BoundingBox")
        assert there is not None
        assert here is not None
        if there.attrib.pop("CRS") == "EPSG:4326":
            names = ("miny", "minx", "maxy", "maxx")  # latitude first there
        else:
            names = ("minx", "miny", "maxx", "maxy")
        edges = [float(there.attrib.pop(name)) for name in names]
        names = ("minx", "miny", "maxx", "maxy")
        assert [float(here.attrib.pop(name)) for name in names] == pytest.approx(edges, abs=1e-6)
        assert facts(found) == facts(expected), answer.path
        compared += 1
    assert compared == 19


def test_tilejson_gives_the_same_facts(alps: Client, answers: dict[str, list[Answer]]) -> None:
    compared = 0
    for answer in answers["layer"]:
        if not answer.path.endswith(".json"):
            continue
        expected: dict[str, Any] = json.loads(answer.body)
        found: Any = alps.get(answer.path).json
        # There the last corner of each edge is left out when the box is transformed: the box may
        # be too small by a 256th.
        bounds = expected.pop("bounds")
        tolerance = max(bounds[2] - bounds[0], bounds[3] - bounds[1]) / 256
        assert found["bounds"] == pytest.approx(bounds, abs=tolerance)
        assert found["center"][:2] == pytest.approx(expected.pop("center"), abs=tolerance)
        # A third number, the zoom, is missing there.
        assert expected["minzoom"] <= found["center"][2] <= expected["maxzoom"]
        for there, here in zip(
            expected.pop("vector_layers", []), found["vector_layers"], strict=True
        ):
            details = there.pop("fields")
            assert here["fieldsDetails"] == details
            assert here["fields"] == {name: field["type"] for name, field in details.items()}
            assert {name: here[name] for name in there} == there
        assert {name: found[name] for name in expected} == expected, answer.path
        compared += 1
    assert compared == 19


def facts(node: etree._Element) -> Any:
    """Return a tree without layout, its numbers to twelve digits."""
    attributes = {name: number(value) for name, value in node.attrib.items()}
    return node.tag, (node.text or "").strip(), attributes, [facts(child) for child in node]


def number(text: str) -> str:
    try:
        return f"{float(text):.12g}"
    except ValueError:
        return text
