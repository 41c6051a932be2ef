"""Maps carry validators, and a client that has one already gets 304 (RFC 9110 clause 13)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from email.utils import formatdate, parsedate_to_datetime
from pathlib import Path
from typing import Any

import pytest
from werkzeug.test import Client

from mastaba.wsgi import create_application
from mastaba_conformance.tiny_installation import tiny_integer_tile
from mastaba_render.mosaic import LevelPixels
from mastaba_writer.installation import layer_document
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import web_mercator

MapQuery = Callable[..., dict[str, str]]
LONG_AGO = "Mon, 01 Jan 1990 00:00:00 GMT"


def test_client_that_has_the_map_gets_304_and_nothing_is_decoded(
    client: Client, map_query: MapQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    for changes in ({}, {"FORMAT": "image/geotiff"}, {"LAYERS": "ground,grey"}):
        query = map_query(**changes)
        first = client.get("/wms", query_string=query)
        etag, modified = first.headers["ETag"], first.headers["Last-Modified"]
        conditions = (
            {"If-None-Match": etag},
            {"If-None-Match": f'"x", W/{etag}', "If-Modified-Since": LONG_AGO},
            {"If-Modified-Since": modified},
        )
        for headers in conditions:
            with monkeypatch.context() as patch:
                patch.setattr(LevelPixels, "read", None)
                again = client.get("/wms", query_string=query, headers=headers)
            assert (again.status_code, again.data) == (304, b"")
            for name in ("ETag", "Last-Modified", "Cache-Control"):
                assert again.headers[name] == first.headers[name]
        for headers in (
            {"If-None-Match": '"x"', "If-Modified-Since": modified},
            {"If-Modified-Since": LONG_AGO},
        ):
            other = client.get("/wms", query_string=query, headers=headers)
            assert (other.status_code, other.data) == (200, first.data)


def test_map_names_the_generations_of_all_its_layers(
    tmp_path: Path, install_at: Callable[[Path, str], Path], map_query: MapQuery
) -> None:
    server_json = install_at(tmp_path, "http://maps.example")
    document = json.loads((tmp_path / "services.json").read_text())
    document["global"]["generation_headers"] = True
    (tmp_path / "services.json").write_text(json.dumps(document))
    application = create_application(str(server_json))
    layers = application.site.catalogue.layers
    response = Client(application).get("/wms", query_string=map_query(LAYERS="ground,grey"))
    assert response.headers.getlist("Mastaba-Pyramid") == [
        layers[name].pyramid.generation for name in ("ground", "grey")
    ]


CHANGES: list[dict[str, Any]] = [
    {},
    {"BBOX": "2600000,3000000,3400000,3600001"},
    {"WIDTH": "81"},
    {"HEIGHT": "61"},
    {"LAYERS": "grey"},
    {"LAYERS": "grey,ground"},
    {"LAYERS": "ground,grey"},
    {"LAYERS": "grey", "STYLES": "ember"},
    {"CRS": "EPSG:4326", "BBOX": "26,23,30,30"},
    {"FORMAT": "image/jpeg"},
    {"FORMAT": "image/jpeg", "FORMAT_OPTIONS": "quality:20"},
    {"TRANSPARENT": "TRUE"},
    {"BGCOLOR": "0x102030"},
    {"DPI": "400"},
]


def test_etag_differs_between_maps(client: Client, map_query: MapQuery) -> None:
    def etag(changes: dict[str, Any]) -> str:
        response = client.get("/wms", query_string=map_query(**changes))
        assert response.status_code == 200, response.text
        return response.headers["ETag"]

    assert len({etag(changes) for changes in CHANGES}) == len(CHANGES)
    assert etag({}) == etag({"BoGuS": "1", "FILENAME": "a.png"})


def test_posted_request_is_always_answered(client: Client, map_query: MapQuery) -> None:
    """RFC 9110 clause 13.1.2: 304 is the answer to GET and HEAD only."""
    etag = client.get("/wms", query_string=map_query()).headers["ETag"]
    response = client.post("/wms", data=map_query(), headers={"If-None-Match": etag})
    assert response.status_code == 200


def test_report_of_an_error_has_no_validators(client: Client, map_query: MapQuery) -> None:
    for way in ("XML", "BLANK"):
        query = map_query(LAYERS="nowhere", EXCEPTIONS=way)
        response = client.get("/wms", query_string=query, headers={"If-Modified-Since": LONG_AGO})
        assert response.status_code in (200, 400)
        assert "ETag" not in response.headers
        assert "Last-Modified" not in response.headers


def test_map_of_a_replaced_slab_is_another_one(
    tmp_path: Path, map_query: MapQuery, open_client: Any, install_at: Any
) -> None:
    def pyramid(value: int) -> Path:
        def tile(level: str, row: int, col: int) -> Any:
            return tiny_integer_tile(3)(level, row, col) // value

        return write_pyramid(
            tmp_path / "own",
            "own",
            tile_matrix_set=web_mercator(),
            format="TIFF_RAW_UINT8",
            channels=3,
            levels=[LevelPlan("4", 4, 7, 8, 11)],
            tile=tile,
        )

    document = pyramid(1)
    layers = {
        "hour": layer_document(document, cache_control="max-age=3600"),
        "day": layer_document(document, cache_control="max-age=86400"),
        "none": layer_document(document),
    }
    slabs = [path for path in (tmp_path / "own").rglob("*") if path.suffix == ".tif"]
    assert slabs
    for slab in slabs:
        os.utime(slab, (1_000_000_000, 1_000_000_000))
    client = open_client(install_at(tmp_path, layers=layers))
    answers = {
        name: client.get("/wms", query_string=map_query(LAYERS=name))
        for name in ("hour", "day", "none", "hour,hour", "hour,day", "hour,none")
    }
    assert {name: answer.headers["Cache-Control"] for name, answer in answers.items()} == {
        "hour": "max-age=3600",
        "day": "max-age=86400",
        "none": "no-cache",
        "hour,hour": "max-age=3600",
        "hour,day": "no-cache",
        "hour,none": "no-cache",
    }
    first = answers["hour"]
    assert first.headers["Last-Modified"] == formatdate(1_000_000_000, usegmt=True)

    pyramid(2)
    fresh = open_client(install_at(tmp_path, layers=layers))
    second = fresh.get(
        "/wms",
        query_string=map_query(LAYERS="hour"),
        headers={"If-None-Match": first.headers["ETag"]},
    )
    assert second.status_code == 200
    assert second.data != first.data
    assert second.headers["ETag"] != first.headers["ETag"]
    modified = parsedate_to_datetime(second.headers["Last-Modified"])
    assert modified > parsedate_to_datetime(first.headers["Last-Modified"])
