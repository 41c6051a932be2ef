"""Versions at addresses of their own: the tiles of each generation stay as they were published."""

from __future__ import annotations

import json
import math
import random
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

import pytest
from tests.build.conftest import built, plan_in
from tests.build.ground import read_payloads
from tests.build.test_history import CHEAP, updated
from tests.build.test_updates import SIDE, write_sheet
from tests.key_gate import GatePlugin, KeyGate, Rights
from werkzeug.test import Client

from mastaba.api.catalogue import digest_of
from mastaba.api.dimensions import InvalidDimensionError, NoSuchValueError
from mastaba.api.tools import Plugins, create_application
from mastaba_build.output.history import History
from mastaba_build.output.storage import OutputStore
from mastaba_build.pyramid.history import rollback
from mastaba_build.pyramid.pruning import withdraw
from mastaba_ows.offers import zoom_tiles
from mastaba_writer.installation import write_installation

Tiles = dict[Any, bytes]
COVERAGES = {"coverages": True}
IMMUTABLE = "public, max-age=31536000, immutable"


class Past:
    """A pyramid with versions, and their tiles as they were when each was published."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.folder = folder
        self.options = CHEAP | options
        self.sheets = folder / "sheets"
        self.sheets.mkdir()
        self.tiles: dict[str, Tiles] = {}
        for number in (0, SIDE * SIDE - 1):
            write_sheet(self.sheets, number)
        self.descriptor = built(plan_in(folder, self.sheets, **self.options))
        self.remember()

    def update(self, seed: int) -> str:
        """Publish a further version, and return its generation."""
        write_sheet(self.sheets, 0, seed)
        updated(plan_in(self.folder, self.sheets, **self.options))
        return self.remember()

    def remember(self) -> str:
        self.tiles[self.current] = read_payloads(self.descriptor)
        return self.current

    @property
    def current(self) -> str:
        return digest_of(json.loads(self.descriptor.read_text()))

    @property
    def layer(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads((self.folder / "out/map.layer.json").read_text())
        return document

    @property
    def published(self) -> list[dict[str, Any]]:
        history = History.read(self.store, "map")
        assert history is not None
        return history.published

    @property
    def store(self) -> OutputStore:
        return OutputStore.of_directory(self.folder / "out")

    def serve(
        self,
        *services: str,
        overrides: dict[str, Any] | None = None,
        others: dict[str, Any] | None = None,
        **layer: Any,
    ) -> Client:
        file = write_installation(
            self.folder / "server",
            layers={"map": self.layer | layer, **(others or {})},
            services=services,
            services_overrides={
                "global": {"caching": {"surrogate_keys": True}},
                **(overrides or {}),
            },
        )
        return Client(create_application(str(file)))


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Past:
    """Four versions, of which the third is withdrawn, and the first is published again."""
    made = Past(tmp_path_factory.mktemp("past"))
    for seed in (1, 2, 3):
        made.update(seed)
    withdraw(made.store, "map", 3)
    rollback(made.store, "map", 1)
    return made


def check_tiles(client: Client, name: str, tiles: Tiles, **headers: str) -> None:
    assert tiles
    for (level, row, column), data in tiles.items():
        for address in (
            f"/tms/1.0.0/{name}/{level}/{column}/{row}.png",
            f"/wmts/1.0.0/{name}/normal/PM/{level}/{row}/{column}.png",
        ):
            answer = client.get(address)
            assert (answer.status_code, answer.data) == (200, data), address
            assert {key: answer.headers.get(key) for key in headers} == headers


def test_each_version_has_its_tiles(past: Past) -> None:
    client = past.serve("tms", "wmts", "history")
    first, second, third, fourth = past.tiles
    for token in (first, second, fourth):
        check_tiles(client, f"map~{token}", past.tiles[token], **{"Cache-Control": IMMUTABLE})
    assert past.current == first
    check_tiles(client, "map", past.tiles[first])
    (level, row, column), _ = next(iter(past.tiles[first].items()))
    tile = f"{level}/{column}/{row}.png"
    answer = client.get(f"/tms/1.0.0/map~{second}/{tile}")
    keys = answer.headers["Surrogate-Key"].split()
    assert {f"gen-{second}", "base-map"} <= set(keys)
    assert "layer-map" not in keys
    assert answer.headers["ETag"] != client.get(f"/tms/1.0.0/map/{tile}").headers["ETag"]
    gone = client.get(f"/tms/1.0.0/map~{third}/{tile}")
    assert "Cache-Control" not in gone.headers
    assert third.encode() in gone.data
    rest = client.get(f"/wmts/1.0.0/map~{third}/normal/PM/{level}/{row}/{column}.png")
    assert (gone.status_code, rest.status_code) == (410, 410)
    # What no version has is missing, and not for ever.
    missing = client.get(f"/tms/1.0.0/map~{second}/{level}/{column + 1}/{row}.png")
    assert (missing.status_code, missing.headers["Cache-Control"]) == (404, "max-age=86400")
    assert f"gen-{second}" in missing.headers["Surrogate-Key"]
    usual = client.get(f"/tms/1.0.0/map/{level}/{column + 1}/{row}.png")
    assert "Cache-Control" not in usual.headers
    empty = past.serve("tms", "history", missing_tile="204")
    missing = empty.get(f"/tms/1.0.0/map~{second}/{level}/{column + 1}/{row}.png")
    assert (missing.status_code, missing.headers["Cache-Control"]) == (204, "max-age=86400")
    wrong = ["0123456789ab", f"{first}-", f"{first}-12345", f"{first}.{first}", "x" * 3000, ""]
    for token in wrong:
        assert client.get(f"/tms/1.0.0/map~{token}/{tile}").status_code == 404, token


def test_chunks_of_a_version_stay_as_they_were(tmp_path: Path) -> None:
    """Arrays that are read for long are of one version."""
    past = Past(tmp_path, format="zip")
    past.update(1)
    client = past.serve("ogcapi", "history", overrides={"ogcapi": {"coverages": True}}, **COVERAGES)
    levels = client.application.site.catalogue.layers["map"].pyramid.levels
    first, second = past.tiles
    assert past.current == second
    for name, token in (("map", second), (f"map~{first}", first), (f"map~{second}", second)):
        group = f"/ogcapi/collections/{name}/zarr"
        changed = 0
        for (level, row, column), data in past.tiles[token].items():
            limits = levels[level].limits
            chunk = client.get(f"{group}/{level}/{row - limits.min_row}.{column - limits.min_col}")
            assert (chunk.status_code, chunk.data) == (200, data)
            changed += past.tiles[first].get((level, row, column)) != data
            if "~" in name:
                keys = chunk.headers["Surrogate-Key"].split()
                assert set(keys) >= {f"gen-{token}", "base-map"}
                assert "layer-map" not in keys
                assert chunk.headers["Cache-Control"] == IMMUTABLE
        assert bool(changed) == (token == second)
        assert client.get(f"{group}/.zmetadata").json["zarr_consolidated_format"] == 1
    for wrong in ("0123456789ab", f"{first}-ffffff.x"):
        assert client.get(f"/ogcapi/collections/map~{wrong}/zarr/.zgroup").status_code == 404


def test_a_token_with_the_digest_of_the_drawing(past: Past) -> None:
    client = past.serve("tms", "wmts", "history", "wms")
    _, second, *_ = past.tiles
    links = client.get(f"/history/map/{second}").json["links"]
    (address,) = (link["href"] for link in links if link["rel"] == "wms")
    drawn = address.rpartition("~")[2]
    digest = drawn.partition("-")[2]
    (level, row, column), data = next(iter(past.tiles[second].items()))
    for token, expected in ((drawn, IMMUTABLE), (f"{second}-ffffff", "no-cache")):
        answer = client.get(f"/tms/1.0.0/map~{token}/{level}/{column}/{row}.png")
        assert (answer.data, answer.headers["Cache-Control"]) == (data, expected)
    # The number of addresses that a client can write does not count.
    opened = client.application.site.catalogue.opened
    before = len(opened.values())
    for number in range(20):
        client.get(f"/tms/1.0.0/map~{second}-{number:06}/{level}/{column}/{row}.png")
    assert len(opened.values()) == before
    other = past.serve("history", "wms", resampling="nn")
    links = other.get(f"/history/map/{second}").json["links"]
    assert not any(f"{second}-{digest}" in link["href"] for link in links)


def test_documents_of_a_version_name_it(past: Past) -> None:
    client = past.serve("tms", "history")
    _, second, *_ = past.tiles
    answer = client.get(f"/tms/1.0.0/map~{second}/metadata.json")
    rows = past.published
    published = datetime.fromisoformat(rows[1]["from"])
    for document in ("", "/metadata.json"):
        headers = client.get(f"/tms/1.0.0/map~{second}{document}").headers
        assert headers["Cache-Control"] == "max-age=86400"
        assert headers["Memento-Datetime"] == f"{published:%a, %d %b %Y %H:%M:%S} GMT"
        for relation, address in (("original", ""), ("timegate", "/at"), ("timemap", "?f=timemap")):
            assert f'/history/map{address}>;rel="{relation}"' in headers["Link"]
    assert all(f"/map~{second}/" in address for address in answer.json["tiles"])
    links = client.get(f"/history/map/{second}").json["links"]
    (address,) = (link["href"] for link in links if link["rel"] == "tilejson")
    assert client.get(urlsplit(address).path).data == answer.data


def test_a_date_leads_to_what_was_published_then(past: Past) -> None:
    client = past.serve("tms", "wmts", "history")
    rows = past.published
    (level, row, column), _ = next(iter(past.tiles[past.current].items()))
    for one in rows:
        name = f"map~{one['from']}"
        answer = client.get(f"/tms/1.0.0/{name}/{level}/{column}/{row}.png?style=normal")
        assert answer.status_code == 307
        assert answer.headers["Cache-Control"] == "max-age=60"
        expected = f"/tms/1.0.0/map~{one['generation']}/{level}/{column}/{row}.png?style=normal"
        assert answer.headers["Location"].endswith(expected)
        query = {
            "SERVICE": "WMTS",
            "REQUEST": "GetTile",
            "VERSION": "1.0.0",
            "LAYER": name,
            "STYLE": "normal",
            "FORMAT": "image/png",
            "TILEMATRIXSET": "PM",
            "TILEMATRIX": level,
            "TILEROW": row,
            "TILECOL": column,
        }
        answer = client.get("/wmts", query_string=query)
        assert answer.status_code == 307
        assert f"LAYER=map~{one['generation']}&" in answer.headers["Location"]
    early = client.get(f"/tms/1.0.0/map~2001-01-01/{level}/{column}/{row}.png")
    assert early.status_code == 404
    assert next(iter(past.tiles)).encode() in early.data


def test_a_date_of_several_layers_leads_to_the_version_of_each(past: Past, tmp_path: Path) -> None:
    other = Past(tmp_path)
    limit = {"global": {"map": {"limits": {"layers_count": 9}}}}
    others = {"a.map": other.layer}
    client = past.serve("wms", "tms", "history", overrides=limit, others=others)
    # Both were published then, and one name ends with the other one.
    date = "2100-01-01"
    query = {
        "SERVICE": "WMS",
        "VERSION": "1.3.0",
        "REQUEST": "GetMap",
        "LAYERS": f"map~{date},a.map~{date},map~{date},map",
        "STYLES": "",
        "CRS": "EPSG:3857",
        "BBOX": "0,0,9,9",
        "WIDTH": "9",
        "HEIGHT": "9",
        "FORMAT": "image/png",
    }
    answer = client.get("/wms", query_string=query)
    found = []
    while answer.status_code == 307:
        location = urlsplit(answer.headers["Location"])
        found.append(dict(parse_qsl(location.query))["LAYERS"])
        answer = client.get(location.path, query_string=location.query)
    assert answer.status_code == 200, answer.text
    first, second = past.current, other.current
    assert found == [
        f"map~{first},a.map~{date},map~{first},map",
        f"map~{first},a.map~{second},map~{first},map",
    ]
    answer = client.get(f"/tms/1.0.0/a.map~{date}/metadata.json")
    assert answer.headers["Location"].endswith(f"/tms/1.0.0/a.map~{second}/metadata.json")


def test_pages_of_a_date_lead_to_those_of_the_version(past: Past) -> None:
    client = past.serve("viewer", "tms", "history")
    third, name = list(past.tiles)[2], f"map~{past.current}"
    for path, expected in (
        ("map~2100-01-01", name),
        ("compare/map~2100-01-01/map", f"compare/{name}/map"),
    ):
        answer = client.get(f"/viewer/{path}?a=b")
        assert answer.status_code == 307, path
        assert answer.headers["Location"].endswith(f"/viewer/{expected}?a=b")
        assert client.get(f"/viewer/{expected}").status_code == 200
    gone = client.get(f"/viewer/map~{third}", headers={"Accept": "text/html"})
    assert gone.status_code == 410
    assert client.get("/viewer/map~2001-01-01").status_code == 404


def test_a_date_in_a_body_is_refused(past: Past) -> None:
    """A redirect would lead to the same address for ever."""
    client = past.serve("wms", "wmts", "history")
    tile = (
        '<GetTile xmlns="http://www.opengis.net/wmts/1.0" xmlns:ows="http://www.opengis.net/ows/1.1"'
        ' service="WMTS" version="1.0.0"><Layer>map~2100-01-01</Layer><Style>normal</Style>'
        "<Format>image/png</Format><TileMatrixSet>PM</TileMatrixSet><TileMatrix>4</TileMatrix>"
        "<TileRow>6</TileRow><TileCol>9</TileCol></GetTile>"
    )
    answer = client.post("/wmts", data=tile, content_type="text/xml")
    assert answer.status_code == 400
    assert f"map~2100-01-01 is map~{past.current} at the moment" in answer.text
    form = (
        "SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&LAYERS=map~2100-01-01&STYLES=&CRS=EPSG:3857"
        "&BBOX=0,0,9,9&WIDTH=9&HEIGHT=9&FORMAT=image/png"
    )
    kind = "application/x-www-form-urlencoded"
    answer = client.post("/wms", data=form, content_type=kind)
    assert answer.status_code == 400
    assert f"map~{past.current}" in answer.text


@pytest.mark.parametrize(
    "text",
    [
        "2025-13-01",
        "2026-02-30",
        "2026-01-15T25:00",
        "\u0662\u0660\u0662\u0666-\u0660\u0661-\u0661\u0665",
        "0001-01-01T00:00:00+23:59",
        "9999-12-31T23:59:59-23:59",
    ],
)
def test_a_text_that_is_no_instant_is_an_error_of_the_request(past: Past, text: str) -> None:
    client = past.serve("tms", "wmts", "wms", "history")
    name = quote(f"map~{text}", safe="")
    instant = quote(text, safe="")
    for address in (
        f"/tms/1.0.0/{name}/metadata.json",
        f"/wmts?SERVICE=WMTS&REQUEST=GetTile&VERSION=1.0.0&LAYER={name}&STYLE=normal"
        "&FORMAT=image/png&TILEMATRIXSET=PM&TILEMATRIX=4&TILEROW=6&TILECOL=9",
        f"/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&LAYERS={name}&STYLES=&CRS=EPSG:3857"
        "&BBOX=0,0,9,9&WIDTH=9&HEIGHT=9&FORMAT=image/png",
        f"/history/map/at?datetime={instant}",
        f"/history/feed.json?since={instant}",
        f"/history/map/{instant}",
    ):
        assert client.get(address).status_code in (400, 404), address


def test_values_of_dimensions_have_versions(past: Past) -> None:
    dimensions = {
        "dimensions": [{"name": "time"}],
        "variants": [
            {"at": {"time": year}, "pyramids": [{"path": str(past.descriptor)}]}
            for year in ("2020", "2021")
        ],
    }
    client = past.serve("tms", "wmts", "history", **dimensions)
    _, second, third, _ = past.tiles
    (level, row, column), data = next(iter(past.tiles[second].items()))
    for name in (f"map;time=2020~{second}", f"map~{second}"):
        answer = client.get(f"/tms/1.0.0/{name}/{level}/{column}/{row}.png")
        assert (answer.status_code, answer.data) == (200, data)
        assert answer.headers["Cache-Control"] == IMMUTABLE
    resolve = client.application.site.catalogue.resolve
    for name in (f"map;time=2020~{second}", f"map~{second}"):
        for text in ("2020", "default", "2020-01-01T00:00:00Z"):
            assert resolve(name, {"time": text}).layer.pyramid.generation == second
        with pytest.raises(NoSuchValueError):
            resolve(name, {"time": "2019"})
    with pytest.raises(InvalidDimensionError, match="another value"):
        resolve(f"map;time=2020~{second}", {"time": "2021"})
    for token, status in ((third, 410), ("0123456789ab", 404), ("2001-01-01", 404)):
        address = f"/tms/1.0.0/map;time=2020~{token}/{level}/{column}/{row}.png"
        assert client.get(address).status_code == status


def test_layers_with_a_time_are_a_stac_catalogue(past: Past) -> None:
    values = ["2019", "2020-05-01"]
    pyramids = [{"path": str(past.descriptor)}]
    client = past.serve(
        "wmts",
        "history",
        dimensions=[{"name": "time"}],
        variants=[{"at": {"time": one}, "pyramids": pyramids} for one in values],
    )
    root = client.get("/history/stac").json
    assert (root["type"], root["stac_version"]) == ("Catalog", "1.1.0")
    (child,) = (link["href"] for link in root["links"] if link["rel"] == "child")
    collection = client.get(urlsplit(child).path).json
    assert collection["type"] == "Collection"
    ((first, last),) = collection["extent"]["temporal"]["interval"]
    assert first == "2019-01-01T00:00:00Z"
    assert last.startswith("2020-05-01T23:59:59")
    (address,) = (link["href"] for link in collection["links"] if link["rel"] == "items")
    items = client.get(urlsplit(address).path).json["features"]
    assert [one["properties"]["start_datetime"][:10] for one in items] == [
        "2019-01-01",
        "2020-05-01",
    ]
    for one, text in zip(items, values, strict=True):
        assert one["collection"] == "map"
        (link,) = (link for link in one["links"] if link["rel"] == "wmts")
        assert link["wmts:dimensions"] == {"Time": text}
    rest = client.get("/history/stac/map/items?offset=1").json
    assert rest["features"] == items[1:]
    assert rest["links"][0] == {**root["links"][1], "href": f"{address}?offset=1"} | {
        "type": "application/geo+json"
    }
    for path in ("/none", "/map/none", "/map/items/x"):
        assert client.get(f"/history/stac{path}").status_code == 404
    assert client.get("/history/stac/map/items?offset=x").status_code == 400
    assert past.serve("history").get("/history/stac/map").status_code == 404


def test_without_the_service_there_are_no_versions(past: Past) -> None:
    (level, row, column), _ = next(iter(past.tiles[past.current].items()))
    address = f"/tms/1.0.0/map~{past.current}/{level}/{column}/{row}.png"
    assert past.serve("tms").get(address).status_code == 404
    assert past.serve("tms", "history", history={"enabled": False}).get(address).status_code == 404
    assert past.serve("tms", "history").get(address).status_code == 200


@pytest.mark.thorough
def test_twenty_updates_stay_at_their_addresses(tmp_path: Path) -> None:
    past = Past(tmp_path)
    for seed in range(1, 21):
        past.update(seed)
        if seed % 7 == 0:
            rollback(past.store, "map", seed // 2)
    client = past.serve("tms", "wmts", "history")
    for token, tiles in past.tiles.items():
        check_tiles(client, f"map~{token}", tiles)
    rows = past.published
    assert len(rows) == 23
    for one in rows:
        gate = client.get("/history/map/at", query_string={"datetime": one["from"]})
        assert gate.headers["Location"].endswith(one["generation"])
    # A hundred instants between the publications and around them, by the gate and by names.
    times = [datetime.fromisoformat(one["from"]) for one in rows]
    dice = random.Random(2)
    (level, row, column), _ = next(iter(past.tiles[past.current].items()))
    for _ in range(100):
        instant = dice.uniform(times[0].timestamp(), times[-1].timestamp() + 3600)
        text = datetime.fromtimestamp(instant, UTC).isoformat(timespec="milliseconds")
        since = datetime.fromisoformat(text)
        before = [one for one, time in zip(rows, times, strict=True) if time <= since]
        expected = before[-1]["generation"]
        gate = client.get("/history/map/at", query_string={"datetime": text})
        assert gate.headers["Location"].endswith(f"/history/map/{expected}"), text
        name = "map~" + text.replace("+00:00", "Z")
        tile = client.get(f"/tms/1.0.0/{name}/{level}/{column}/{row}.png")
        assert tile.status_code == 307
        assert f"/map~{expected}/" in tile.headers["Location"], text


def test_documents_name_the_published_version(past: Past) -> None:
    token = past.current
    section = {"history": {"versioned_addresses": True}}
    client = past.serve("tms", "wmts", "history", overrides=section)
    metadata = client.get("/tms/1.0.0/map/metadata.json")
    assert "max-age=86400" not in metadata.headers.get("Cache-Control", "")
    (template,) = metadata.json["tiles"]
    assert f"/map~{token}-" in template
    (level, row, column), data = next(iter(past.tiles[token].items()))
    template = urlsplit(template).path
    address = template.replace("{z}", level).replace("{x}", str(column)).replace("{y}", str(row))
    answer = client.get(address)
    assert (answer.data, answer.headers["Cache-Control"]) == (data, IMMUTABLE)
    capabilities = client.get("/wmts?SERVICE=WMTS&REQUEST=GetCapabilities").text
    assert f"/map~{token}-" in capabilities
    assert "Identifier>map</" in capabilities
    api = past.serve("ogcapi", "history", "styles", overrides=section)
    tileset = "/ogcapi/collections/map/map/tiles/PM"
    document = api.get(f"{tileset}?f=json").json
    items = [one["href"] for one in document["links"] if one["rel"] == "item"]
    assert items
    assert all(f"/collections/map~{token}-" in href for href in items)
    address = urlsplit(items[0])
    path = address.path.replace("{tileMatrix}", level).replace("{tileRow}", str(row))
    answer = api.get(f"{path.replace('{tileCol}', str(column))}?{address.query}")
    assert (answer.data, answer.headers["Cache-Control"]) == (data, IMMUTABLE)
    # Styles have these addresses, and are loaded again too.
    for service in ("tms", "ogcapi"):
        site = past.serve(service, "history", overrides=section).application.site
        assert f"/map~{token}-" in zoom_tiles(site, site.catalogue.layers["map"])
    # Everything else there names the layer.
    others = [one["href"] for one in document["links"] if one["rel"] not in ("item", "tiles")]
    assert not any("~" in href for href in others)
    assert "~" not in api.get("/ogcapi/collections/map?f=json").text
    # What people copy, and what is a list of addresses, names the layer.
    assert "~" not in client.get("/tms/1.0.0/map").text
    for document in (
        past.serve("tms", "history").get("/tms/1.0.0/map/metadata.json"),
        past.serve("tms", "history", overrides=section, versioned_addresses=False).get(
            "/tms/1.0.0/map/metadata.json"
        ),
    ):
        assert "~" not in document.text


def test_views_show_versions_as_far_as_the_layer(past: Past) -> None:
    past.serve("tms", "history")
    classes = {
        "": Rights(hidden=frozenset(("map",))),
        "all": Rights(),
        "locked": Rights(locked=frozenset(("map",))),
    }
    gate = KeyGate(classes=classes, keys={"a" * 32: "all", "b" * 32: "locked"})
    plugins = Plugins(extra={"key_gate": GatePlugin(gate)})
    client = Client(create_application(str(past.folder / "server/server.json"), plugins))
    _, second, *_ = past.tiles
    (level, row, column), data = next(iter(past.tiles[second].items()))
    answers = {}
    for key in ("", "a" * 32, "b" * 32):
        for token in (second, "2026-01-01"):
            answers[key[:1], token] = (
                client.get(
                    f"/tms/1.0.0/map~{token}/{level}/{column}/{row}.png", headers={"X-API-Key": key}
                )
                if key
                else client.get(f"/tms/1.0.0/map~{token}/{level}/{column}/{row}.png")
            )
    assert answers["", second].status_code == answers["", "2026-01-01"].status_code == 404
    assert second.encode() not in answers["", "2026-01-01"].data
    assert answers["a", second].data == data
    assert "public" not in answers["a", second].headers["Cache-Control"]
    assert answers["b", second].data != data
    assert answers["b", second].status_code in (401, 403, 404)


@pytest.mark.thorough
def test_changed_polygons_are_those_of_all_tiles(tmp_path: Path) -> None:
    past = Past(tmp_path)
    for number in (2, 3, 8, 9, 14):
        write_sheet(past.sheets, number)
    updated(plan_in(tmp_path, past.sheets, **CHEAP))
    past.remember()
    for seed, changed in enumerate(((2, 3), (8,), (3, 9, 14)), 1):
        for number in changed:
            path = past.sheets / f"{number:03}.tif"
            if number == 9 or (number == 3 and seed == 3):
                path.unlink()
            else:
                write_sheet(past.sheets, number, seed)
        updated(plan_in(tmp_path, past.sheets, **CHEAP))
        past.remember()
    client = past.serve("history")
    tokens = list(past.tiles)
    level = str(CHEAP["bottom"])
    for first, second in pairwise(tokens):
        for before, after in ((first, second), (second, first)):
            old, new = (
                {key[1:]: data for key, data in past.tiles[token].items() if key[0] == level}
                for token in (before, after)
            )
            expected = {
                key: (key not in old, key not in new)
                for key in old.keys() | new.keys()
                if old.get(key) != new.get(key)
            }
            features = client.get(f"/history/map/changes/{before}..{after}").json["features"]
            assert tiles_in(features, int(level)) == expected


def tiles_in(features: list[Any], level: int) -> dict[tuple[int, int], tuple[bool, bool]]:
    """Return row and column of the tiles in polygons, and whether they were added or removed."""
    found = {}
    for feature in features:
        ring = feature["geometry"]["coordinates"][0]
        columns = [round((x + 180) / 360 * 2**level) for x, _ in ring]
        rows = [
            round((1 - math.asinh(math.tan(math.radians(y))) / math.pi) / 2 * 2**level)
            for _, y in ring
        ]
        for row in range(min(rows), max(rows)):
            for column in range(min(columns), max(columns)):
                assert (row, column) not in found
                properties = feature["properties"]
                found[row, column] = properties["added"], properties["removed"]
    return found
