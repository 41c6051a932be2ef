"""The sources of maps in the tags of TIFF and GeoTIFF files."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.provenance.conftest import position
from tests.provenance.test_coverages import UPPER, WHOLE
from werkzeug.test import Client

from mastaba.api.catalogue import Layer
from mastaba.api.tools import create_application
from mastaba.errors import StorageError
from mastaba_provenance.service import ProvenanceService
from mastaba_writer.installation import layer_document, write_installation

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")

FORMATS = ("image/geotiff", "image/tiff")
HALF = 20037508.342789244


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, pyramid: Path) -> Client:
    folder = tmp_path_factory.mktemp("maps")
    layer = layer_document(pyramid, title="Map", resampling="nn")
    layers = {"MAP": layer, "OTHER": layer, "PLAIN": {**layer, "provenance": False}}
    settings = {"map": {"limits": {"layers_count": 2}, "crs": ["CRS:84"]}}
    server = write_installation(
        folder,
        layers=layers,
        services=("provenance", "wms", "ogcapi"),
        services_overrides={"global": settings},
    )
    return Client(create_application(str(server)))


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


def test_a_map_is_never_sent_without_its_sources(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sources_in(*_args: Any) -> Any:
        raise StorageError("the table does not answer")

    monkeypatch.setattr(ProvenanceService, "sources_in", sources_in)
    box = box_of((12, 7, 58, 38))
    assert wms(client, "MAP", box).status_code == 503
    assert wms(client, "MAP", box, "image/x-bil;bits=32").status_code == 200
