"""Rates by layer hold for every name that a protocol has for a layer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.series import LEVELS, series_installation, write_value
from werkzeug.test import Client

from mastaba.api.tools import create_application
from mastaba.api.web import Request
from mastaba_access.naming import named_layers
from mastaba_access.rules.what import Layers
from mastaba_writer.installation import layer_document

HEIGHTS = "TIFF_ZIP_FLOAT32"
MAP = "/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&STYLES=&FORMAT=image/png&CRS=EPSG:3857&LAYERS="
PLACE = "&BBOX=0,0,9,9&WIDTH=9&HEIGHT=9"
TILE = "/wmts?SERVICE=WMTS&VERSION=1.0.0&REQUEST=GetTile&STYLE=normal&FORMAT=image/png&LAYER="
OF_TILE = "&TILEMATRIXSET=PM&TILEMATRIX=2&TILEROW=1&TILECOL=2"
ALTI = "/elevation/1.0/calcul/alti/rest/elevation.json?lon=1&lat=1"

NAMED = (
    *(f"{MAP}{name}{PLACE}" for name in ("ORTHO_1950", "OTHER,ORTHO_1950", "ORTHO%3Btime=1950")),
    *(f"{TILE}{name}{OF_TILE}" for name in ("ORTHO_1950", "ORTHO%3Btime=1950")),
    "/wmts/1.0.0/ORTHO_1950/normal/PM/2/1/2.png",
    "/tms/1.0.0/ORTHO_1950/2/2/1.png",
    "/ogcapi/collections/ORTHO_1950/map",
    "/ogcapi/map",
    "/ogcapi/map?collections=OTHER,%20ORTHO",
    "/ogcapi/map?collections=http://localhost/ogcapi/collections/ORTHO",
    "/elevation/points?dataset=best&coords=POINT(1+1)",
    "/elevation/points?dataset=UPPER&coords=POINT(1+1)",
    "/elevation/v1/best?locations=1,1",
    "/elevation/v1/LOWER,UPPER?locations=1,1",
    "/elevation/maps/api/elevation/json?locations=1,1",
    "/elevation/maps/api/elevation/json?locations=1,1&dataset=LOWER",
    "/elevation/rest/services/height?lon=1&lat=1&sr=4326&dataset=LOWER",
    "/elevation/edr/collections/best/position?coords=POINT(1+1)",
    ALTI,
    f"{ALTI}&resource=",
    f"{ALTI}&resource=alias",
    "/elevation/resources/alias",
    "/wcs?SERVICE=WCS&VERSION=2.0.1&REQUEST=DescribeCoverage&COVERAGEID=UPPER",
    "/wcs?SERVICE=WCS&VERSION=2.0.1&REQUEST=DescribeCoverage&COVERAGEID=LOWER,_x31_950",
    "/wcs?SERVICE=WCS&VERSION=1.0.0&REQUEST=DescribeCoverage&COVERAGE=_x31_950",
    "/terrain/best/mapbox/2/2/1.png",
)
OTHERS = (
    f"{MAP}OTHER{PLACE}",
    f"{TILE}OTHER{OF_TILE}",
    "/ogcapi/map?collections=OTHER",
    "/elevation/points?dataset=LOWER&coords=POINT(1+1)",
    "/elevation/v1/LOWER?locations=1,1",
    "/elevation/edr/collections/LOWER/position?coords=POINT(1+1)",
    f"{ALTI}&resource=LOWER",
    "/elevation/resources",
    "/elevation/resources/LOWER",
    "/wcs?SERVICE=WCS&VERSION=2.0.1&REQUEST=DescribeCoverage&COVERAGEID=LOWER",
    "/terrain/LOWER/mapbox/2/2/1.png",
)


def opened(folder: Path, *, heights: tuple[str, ...] = ("UPPER", "LOWER"), **elevation: Any) -> Any:
    """Return an application with a rate for requests that name ORTHO or UPPER."""
    others = {"OTHER": layer_document(write_value(folder, "other", (1, 2, 3)))}
    for name in heights:
        path = write_value(folder, name, (100,), format=HEIGHTS, levels=LEVELS)
        others[name] = layer_document(path, wcs={"enabled": True})
    rate = {"name": "one", "what": {"layers": ["ORTHO", "UPPER", "1950"]}, "per": "address"}
    rules = folder / "rules.json"
    rates = [{**rate, "rate": 1e-3, "burst": 1}]
    rules.write_text(json.dumps({"default": "allow", "rates": rates}))
    server = series_installation(
        folder,
        names="ORTHO_{time}",
        others=others,
        services=("wms", "wmts", "tms", "wcs", "ogcapi", "elevation", "terrain"),
        services_overrides={
            "elevation": {"enabled": True, **elevation},
            "global": {"map": {"limits": {"layers_count": 2}}},
        },
        server_overrides={"plugins": {"access": {"rules": str(rules)}}},
    )
    return create_application(str(server))


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory) -> Any:
    facades = {
        "edr": True,
        "ign": {"default_resource": "best", "aliases": {"alias": "UPPER"}},
        "swisstopo": {"dataset": "UPPER", "crs": [4326]},
        "google": {"dataset": "best"},
    }
    stack = {"id": "best", "layers": ["UPPER", "LOWER"]}
    heights = ("UPPER", "LOWER", "1950")
    folder = tmp_path_factory.mktemp("names")
    return opened(folder, heights=heights, datasets=[stack], facades=facades)


def statuses(application: Any, path: str, address: str) -> list[int]:
    """Return the statuses of two requests of a client."""
    client, environ = Client(application), {"REMOTE_ADDR": address}
    return [client.get(path, environ_overrides=environ).status_code for _ in range(2)]


@pytest.mark.parametrize(("number", "path"), [*enumerate(NAMED)], ids=NAMED)
def test_a_rate_counts_all_names_of_its_layers(application: Any, number: int, path: str) -> None:
    first, second = statuses(application, path, f"10.0.0.{number}")
    assert (first, second) == (200, 429)


@pytest.mark.parametrize(("number", "path"), [*enumerate(OTHERS)], ids=OTHERS)
def test_a_rate_leaves_other_layers_alone(application: Any, number: int, path: str) -> None:
    assert statuses(application, path, f"10.0.1.{number}") == [200, 200]


def test_the_only_dataset_need_not_be_named(tmp_path: Path) -> None:
    application = opened(tmp_path, heights=("UPPER",))
    path = "/elevation/points?coords=POINT(1+1)"
    assert statuses(application, path, "10.0.0.1") == [200, 429]


def test_the_map_of_all_collections_costs_what_it_draws(application: Any) -> None:
    service = application.site.services["ogcapi"]
    query = "width=512&height=512"
    assert service.cost(Request("GET", "/map", query, {})) == 4 * 2
    assert service.cost(Request("GET", "/map", f"{query}&collections=OTHER", {})) == 4


def test_names_of_layers_with_dots_and_extensions(application: Any) -> None:
    layer = application.site.catalogue.layers["OTHER"]
    layers = Layers({"A.B": layer, "A": layer})
    for path in ("/A.B.json", "/A.B;time=2000.5", "/A.B~7.8/feed.atom", "/A.B"):
        assert named_layers(path, "", layers) == layers.bit("A.B"), path
    assert named_layers("/A.feed.atom", "", layers) == layers.bit("A")


def test_addresses_with_very_many_names_name_all_layers(application: Any) -> None:
    layer = application.site.catalogue.layers["OTHER"]
    layers = Layers({"A": layer, "B": layer})
    names = ",".join(f"x{number}" for number in range(80))
    assert named_layers("", f"LAYERS={names}", layers) == layers.all
    assert named_layers("", f"LAYERS={'x,' * 80}A", layers) == layers.bit("A")
    # Each part of a name may be looked up, too.
    dotted = ",".join(f"x{number}.a.b.c" for number in range(20))
    assert named_layers("", f"LAYERS={dotted}", layers) == layers.all


def test_names_of_layers_with_commas(application: Any) -> None:
    layer = application.site.catalogue.layers["OTHER"]
    layers = Layers({"A,B": layer, "A": layer})
    assert named_layers("", "LAYER=A,B", layers) == layers.all
    assert named_layers("/A,B/1", "", layers) == layers.all


OF_HEIGHTS = (
    "/elevation/points?dataset={}&coords=POINT(1+1)",
    "/elevation/edr/collections/{}",
    "/elevation/edr/collections/{}/position?coords=POINT(1+1)",
    "/terrain/{}/mapbox/2/2/1.png",
)
WITHOUT_HEIGHTS = (
    "OTHER",
    "ORTHO",
    "ORTHO;time=x",
    "ORTHO;time=1950",
    "ORTHO~2020-01-01T00:00:00Z",
)


@pytest.mark.parametrize(("group", "path"), [*enumerate(OF_HEIGHTS, 2)], ids=OF_HEIGHTS)
def test_layers_without_heights_are_as_unknown_as_others(
    application: Any, group: int, path: str
) -> None:
    for number, name in enumerate(WITHOUT_HEIGHTS):
        unknown = name.replace("OTHER", "NOPE").replace("ORTHO", "NOPE")
        first, second = (
            # An address of its own, because of the rate.
            Client(application).get(
                path.format(one), environ_overrides={"REMOTE_ADDR": f"10.0.{group}.{number}"}
            )
            for one in (name, unknown)
        )
        assert [first.status_code, second.status_code] == [404, 404]
        assert first.text.replace(name, unknown) == second.text
