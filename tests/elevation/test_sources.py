"""Sources of heights in EDR and in IGN's altimetry, against sheets of known places."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.elevation.conftest import read
from tests.provenance.conftest import DATES, make_pyramid, position
from werkzeug.test import Client

from mastaba_writer.installation import layer_document, write_installation

FACADES = {"facades": {"edr": True, "ign": True}}
PLACES = ((150.5, 20.5), (20.5, 20.5), (250.5, 20.5), (20.5, 70.5))
"""Places in pixels, in sheets 1, 3, 2 and 0."""
SHEETS = (1, 3, 2, 0)
TEXTS = [DATES[sheet] for sheet in SHEETS]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, open_client: Callable[[Path], Client]) -> Any:
    """The dataset MAP, whose sources are known, and PLAIN, the same without."""
    descriptor = make_pyramid(tmp_path_factory.mktemp("sheets"))
    table = descriptor.with_name(json.loads(descriptor.read_text())["provenance"])
    document = json.loads(table.read_text())
    for row in document["sources"]:
        if row["id"] == "sheet1.tif":
            row |= {"accuracy": 0.4, "title": "Survey 1", "licence": "etalab-2.0"}
    table.write_text(json.dumps(document))
    map_ = layer_document(descriptor, title="Map", vertical={"accuracy": 9.0, "source": "all"})
    layers = {"MAP": map_, "PLAIN": {**map_, "provenance": False}}
    folder = tmp_path_factory.mktemp("server")
    services = ("provenance", "elevation")
    overrides = {"elevation": FACADES}
    return open_client(
        write_installation(folder, layers=layers, services=services, services_overrides=overrides)
    )


def ask(client: Client, query: str = "position", layer: str = "MAP", **parameters: str) -> Any:
    points = [position(*place) for place in PLACES]
    kind = "MULTIPOINT" if query == "position" else "LINESTRING"
    coords = f"{kind}({','.join(f'{x!r} {y!r}' for x, y in points)})"
    given = {"coords": coords, "crs": "EPSG:3857", "parameter-name": "source,source_date"}
    path = f"/elevation/edr/collections/{layer}/{query}"
    return client.get(path, query_string=given | parameters)


def test_coverages_have_categories(client: Client) -> None:
    found = read(ask(client))
    source, date = (found["ranges"][name] for name in ("source", "source_date"))
    assert source["dataType"] == date["dataType"] == "integer"
    parameter = found["parameters"]["source"]
    encoding = {code: name for name, code in parameter["categoryEncoding"].items()}
    labels = {one["id"]: one["label"]["en"] for one in parameter["observedProperty"]["categories"]}
    names = [labels[encoding[value]] for value in source["values"]]
    assert names == ["Survey 1", "sheet3.tif", "sheet2.tif", "sheet0.tif"]
    assert len(encoding) == len(labels) == 4
    dates = found["parameters"]["source_date"]["categoryEncoding"]
    assert [dates[text] for text in TEXTS] == date["values"]
    described = parameter["observedProperty"]["categories"][0]["description"]["en"]
    assert described == "2021-05, etalab-2.0, A"


def test_features_have_the_row_and_tables_the_name(client: Client) -> None:
    features = read(ask(client, f="GeoJSON"))["features"]
    rows = [one["properties"]["source"] for one in features]
    assert [row["id"] for row in rows] == [f"sheet{sheet}.tif" for sheet in SHEETS]
    assert rows[0]["licence"] == "etalab-2.0"
    assert "footprint" not in rows[0]
    assert [one["properties"]["source_date"] for one in features] == TEXTS
    lines = list(csv.DictReader(io.StringIO(ask(client, f="CSV").text, newline="")))
    assert [line["source"] for line in lines] == [row["id"] for row in rows]
    assert [line["source_date"] for line in lines] == TEXTS


def test_points_without_a_source_have_none(client: Client) -> None:
    (x, y), (far_x, far_y) = position(20.5, 20.5), position(210, 20.5)
    found = read(ask(client, coords=f"MULTIPOINT({far_x} {far_y},{x} {y})"))
    assert found["ranges"]["source"]["values"][0] is None
    assert found["ranges"]["source"]["values"][1] is not None
    assert found["ranges"]["source_date"]["values"] == [None, 1]


def test_trajectories_have_sources(client: Client) -> None:
    found = read(ask(client, "trajectory", f="GeoJSON"))["features"]
    assert {(one["properties"]["source"] or {}).get("id") for one in found} >= {
        "sheet0.tif",
        "sheet1.tif",
        "sheet2.tif",
    }


def test_collections_name_the_parameters_that_they_have(client: Client) -> None:
    uri = "/elevation/edr/collections"
    known = {
        name: set(read(client.get(f"{uri}/{name}"))["parameter_names"]) for name in ("MAP", "PLAIN")
    }
    assert known["MAP"] - known["PLAIN"] == {"source", "source_date"}
    read(ask(client, layer="PLAIN"), 400)
    # Nobody reads sources who has not asked for them.
    found = read(ask(client, **{"parameter-name": ""}))
    assert set(found["ranges"]) == {"elevation"}
    paths = read(client.get("/elevation/edr/api"))["paths"]
    listed = {
        name: next(
            one["schema"]["items"]["enum"]
            for one in paths[f"/collections/{name}/position"]["get"]["parameters"]
            if one["name"] == "parameter-name"
        )
        for name in ("MAP", "PLAIN")
    }
    assert set(listed["MAP"]) - set(listed["PLAIN"]) == {"source", "source_date"}


def test_measures_of_ign(client: Client) -> None:
    import pyproj

    degrees = pyproj.Transformer.from_crs("EPSG:3857", "EPSG:4326", always_xy=True)
    lon, lat = degrees.transform(*zip(*(position(*place) for place in PLACES), strict=True))
    query = {"lon": "|".join(map(str, lon)), "lat": "|".join(map(str, lat)), "measures": "true"}
    path = "/elevation/1.0/calcul/alti/rest/elevation.json"

    def measures(resource: str) -> list[dict[str, Any]]:
        answer = read(client.get(path, query_string={**query, "resource": resource}))
        return [one["measures"][0] for one in answer["elevations"]]

    found = measures("MAP")
    assert [one["source_name"] for one in found] == [
        "Survey 1",
        *(f"sheet{sheet}.tif" for sheet in SHEETS[1:]),
    ]
    assert [one["acc"] for one in found] == [0.4, 9.0, 9.0, 0.4]
    assert {one["source_measure"] for one in found} == {"Pixel value"}
    assert {one["title"] for one in found} == {"Map"}
    plain = measures("PLAIN")
    assert {(one["source_name"], one["source_measure"]) for one in plain} == {
        ("all", "Fixed value")
    }
    assert [one["z"] for one in found] == [one["z"] for one in plain]
