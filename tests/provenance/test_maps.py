"""The sources of maps in the tags of TIFF and GeoTIFF files."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.provenance.conftest import position
from tests.provenance.test_coverages import UPPER, WHOLE
from werkzeug.test import Client

from mastaba.api.catalogue import Layer
from mastaba.api.tools import create_application
from mastaba_provenance.service import ProvenanceService
from mastaba_writer.installation import layer_document, write_installation

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")

FORMATS = ("image/geotiff", "image/tiff")
HALF = 20037508.342789244


def opened(folder: Path, pyramid: Path, table: Path | None = None, *rules: Any) -> Client:
    """Open a server.

    Args:
        table: of the layer MAP, instead of that of the pyramid.
        rules: of the access plugin.
    """
    layer = layer_document(pyramid, title="Map", resampling="nn")
    map_ = layer if table is None else {**layer, "provenance": str(table)}
    layers = {"MAP": map_, "OTHER": layer, "PLAIN": {**layer, "provenance": False}}
    settings = {"map": {"limits": {"layers_count": 2}, "crs": ["CRS:84"]}}
    path = folder / "rules.json"
    path.write_text(json.dumps({"default": "allow", "rules": rules}))
    server = write_installation(
        folder / "server",
        layers=layers,
        services=("provenance", "wms", "ogcapi"),
        services_overrides={"global": settings},
        server_overrides={"plugins": {"access": {"rules": str(path)}}} if rules else {},
    )
    return Client(create_application(str(server)))


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, pyramid: Path) -> Client:
    return opened(tmp_path_factory.mktemp("maps"), pyramid)


@pytest.fixture
def table(pyramid: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A table that tests can change."""
    path = pyramid.with_name(f"{request.node.name}.sources.json")
    path.write_text(pyramid.with_name("map.sources.json").read_text())
    yield path
    path.unlink()


def box_of(area: tuple[int, int, int, int]) -> tuple[float, float, float, float]:
    left, top = position(area[0], area[1])
    right, bottom = position(area[2], area[3])
    return left, bottom, right, top


def wms(client: Client, layers: str, box: Any, form: str = FORMATS[0], **more: str) -> Any:
    parameters = {
        "SERVICE": "WMS",
        "VERSION": "1.3.0",
        "REQUEST": "GetMap",
        "LAYERS": layers,
        "STYLES": "",
        "CRS": "EPSG:3857",
        "BBOX": ",".join(map(repr, box)),
        "WIDTH": "60",
        "HEIGHT": "40",
        "FORMAT": form,
        **more,
    }
    return client.get("/wms", query_string=parameters)


def ogcapi(client: Client, layer: str, box: Any, form: str) -> Any:
    corners = ",".join(map(repr, box))
    crs = "http://www.opengis.net/def/crs/EPSG/0/3857"
    return client.get(
        f"/ogcapi/collections/{layer}/map",
        query_string={"bbox": corners, "bbox-crs": crs, "crs": crs, "f": form},
    )


def tags(response: Any) -> dict[str, str]:
    from rasterio.io import MemoryFile

    assert response.status_code == 200, response.text
    with MemoryFile(response.data) as file, file.open() as dataset:
        found: dict[str, str] = dataset.tags()
        return found


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("compression", ["raw", "deflate"])
def test_a_map_of_one_date_has_it(
    client: Client, number_of: dict[int, int], form: str, compression: str
) -> None:
    options = f"compression:{compression}"
    found = tags(wms(client, "MAP", box_of(UPPER), form, FORMAT_OPTIONS=options))
    (row,) = json.loads(found["SOURCES"])
    assert (row["number"], row["share"]) == (number_of[3], 1)
    assert found["TIFFTAG_DATETIME"] == "2023:07:01 00:00:00"


def test_a_map_names_the_sources_of_its_area(client: Client, number_of: dict[int, int]) -> None:
    found = tags(wms(client, "MAP", box_of(WHOLE)))
    rows = json.loads(found["SOURCES"])
    assert {row["number"] for row in rows} == set(number_of.values())
    assert "TIFFTAG_DATETIME" not in found


@pytest.mark.parametrize("form", FORMATS)
def test_a_map_of_ogc_api_has_the_same_sources(client: Client, form: str) -> None:
    found = tags(ogcapi(client, "MAP", box_of(UPPER), form.partition("/")[2]))
    same = tags(wms(client, "MAP", box_of(UPPER), form))
    assert json.loads(found["SOURCES"])
    for name in ("SOURCES", "TIFFTAG_DATETIME"):
        assert found[name] == same[name]


@pytest.mark.parametrize("layers", ["PLAIN", "MAP,OTHER"])
def test_maps_of_other_layers_and_of_several_name_none(client: Client, layers: str) -> None:
    styles = "," * layers.count(",")
    found = tags(wms(client, layers, box_of(UPPER), STYLES=styles))
    assert not {"SOURCES", "TIFFTAG_DATETIME"} & found.keys()


def test_a_map_across_the_antimeridian_names_none(client: Client) -> None:
    left, bottom, right, top = box_of(UPPER)
    turn = 2 * HALF
    for box in ((left, bottom, right + turn, top), (HALF - 1000, bottom, HALF + 1000, top)):
        assert "SOURCES" not in tags(wms(client, "MAP", box))
    across = {"CRS": "CRS:84", "BBOX": "170,48,190,49"}
    assert "SOURCES" not in tags(wms(client, "MAP", (), **across))
    # The edges of the world are no crossing.
    assert "SOURCES" in tags(wms(client, "MAP", (-HALF, -HALF, HALF, HALF)))
    assert "SOURCES" in tags(wms(client, "MAP", (), CRS="CRS:84", BBOX="-180,-85,180,85"))


def test_the_etag_changes_with_the_sources(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A correction of the table changes no pixel."""
    titles = iter(["one", "two"])

    def sources_in(_self: Any, _layer: Layer, _box: Any) -> Any:
        return [{"number": 1, "title": next(titles), "share": 1}]

    monkeypatch.setattr(ProvenanceService, "sources_in", sources_in)
    box = box_of((11, 6, 59, 39))
    first = wms(client, "MAP", box)
    again = wms(client, "MAP", box)
    clock = SimpleNamespace(monotonic=lambda: math.inf)
    monkeypatch.setattr("mastaba_render.origin.time", clock)
    other = wms(client, "MAP", box)
    assert first.headers["ETag"] == again.headers["ETag"] != other.headers["ETag"]
    assert json.loads(tags(first)["SOURCES"])[0]["title"] == "one"
    assert json.loads(tags(other)["SOURCES"])[0]["title"] == "two"


@pytest.mark.parametrize("row", [{}, {"title": "a" * 10_000}])
def test_maps_that_name_sources_have_no_date_of_tiles(
    client: Client, monkeypatch: pytest.MonkeyPatch, row: dict[str, str]
) -> None:
    """A table may be rewritten in place. A day may be known although no source has room."""
    box = box_of((13, 8 + len(row), 57, 37))
    assert "Last-Modified" in wms(client, "PLAIN", box).headers
    days = iter(["2021-05-03", "2021-05-04"])

    def sources_in(*_args: Any) -> Any:
        return [{"number": 1, "date": next(days), "share": 1, **row}]

    monkeypatch.setattr(ProvenanceService, "sources_in", sources_in)
    maps = [wms(client, "MAP", box), ogcapi(client, "MAP", box, "geotiff")]
    for number, one in enumerate(maps):
        assert ("SOURCES" in tags(one)) == (not row)
        assert tags(one)["TIFFTAG_DATETIME"] == f"2021:05:0{3 + number} 00:00:00"
        assert "Last-Modified" not in one.headers
    monkeypatch.setattr("mastaba_render.origin.time", SimpleNamespace(monotonic=lambda: math.inf))
    days = iter(["2021-05-05"])
    assert wms(client, "MAP", box).headers["ETag"] != maps[0].headers["ETag"]


@pytest.mark.parametrize("as_", [{}, {"as": "lock"}])
def test_a_map_does_not_need_a_credential_for_its_sources(
    tmp_path: Path, pyramid: Path, as_: dict[str, str]
) -> None:
    rule = {"name": "sources", "what": {"services": ["provenance"]}, "deny": as_}
    ruled, box = opened(tmp_path, pyramid, None, rule), box_of(UPPER)
    for answer in (wms(ruled, "MAP", box), ogcapi(ruled, "MAP", box, "geotiff")):
        assert "SOURCES" not in tags(answer)
    assert ruled.get("/provenance/MAP/sources").status_code == (401 if as_ else 404)


def test_a_map_is_sent_without_sources_that_cannot_be_read(
    tmp_path: Path, pyramid: Path, table: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text, box = table.read_text(), box_of(UPPER)
    table.write_text(text[:100])
    damaged = opened(tmp_path, pyramid, table)
    with caplog.at_level(logging.WARNING, "mastaba.render"):
        first, again = (wms(damaged, "MAP", box) for _ in range(2))
        same = ogcapi(damaged, "MAP", box, "geotiff")
    for answer in (first, again, same):
        assert "SOURCES" not in tags(answer)
        assert "Last-Modified" in answer.headers
    # Once by each of the two services.
    assert sum("name no sources" in message for message in caplog.messages) == 2
    assert sum("cannot be used" in message for message in caplog.messages) == 1
    table.write_text(text)
    whole = wms(damaged, "MAP", box)
    assert "SOURCES" in tags(whole)
    assert first.headers["ETag"] == again.headers["ETag"] != whole.headers["ETag"]


def test_text_that_is_not_unicode_is_replaced(tmp_path: Path, pyramid: Path, table: Path) -> None:
    document = json.loads(table.read_text())
    for row in document["sources"]:
        row["title"] = "a\ud800b \U0001f30d"
    table.write_text(json.dumps(document))
    opened_ = opened(tmp_path, pyramid, table)
    (row,) = json.loads(tags(wms(opened_, "MAP", box_of(UPPER)))["SOURCES"])
    assert row["title"] == "a?b \U0001f30d"
    sources = opened_.get("/provenance/MAP/sources").get_json()["sources"]
    assert {row["title"] for row in sources} == {"a?b \U0001f30d"}
