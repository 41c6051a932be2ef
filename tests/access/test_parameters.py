"""The names of parameters: no credential may have one that a service reads."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.access.identification.conftest import Credentials
from tests.access.test_crawls import crawled, prepare
from tests.series import series_installation
from tests.support.everything import SECRET, SERVICES, everything
from werkzeug.test import Client

from mastaba.api.services import Service
from mastaba.api.tools import Application, create_application
from mastaba.errors import ConfigurationError
from mastaba.plugins.manager import Plugins
from mastaba_wcs.parameters import Parameters

KINDS = Plugins().services
MOST = 60
"""Crawled addresses of each service."""

_WMS = "/wms?SERVICE=WMS&VERSION=1.3.0&STYLES=&CRS=EPSG:3857&BBOX=0,0,4000000,4000000&WIDTH=9"
_WCS = "/wcs?SERVICE=WCS&VERSION={}&REQUEST=GetCoverage&"
_EDR = "/elevation/edr/collections/FLOAT32_ZIP"
_LINE = "coords=LINESTRING(30+40,31+41)"
REQUESTS: dict[str, tuple[str, ...]] = {
    "wms": (
        f"{_WMS}&REQUEST=GetMap&LAYERS=RGB_JPG&HEIGHT=9&FORMAT=image/png",
        f"{_WMS}&REQUEST=GetMap&LAYERS=NONE&HEIGHT=9&FORMAT=image/png&EXCEPTIONS=INIMAGE",
        f"{_WMS}&REQUEST=GetFeatureInfo&LAYERS=RGB_PNG&QUERY_LAYERS=RGB_PNG&HEIGHT=9&I=3&J=3",
        "/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetLegendGraphic&LAYER=GREY_PNG",
        "/wms?SERVICE=WMS&REQUEST=GetCapabilities",
    ),
    "wmts": (
        "/wmts?SERVICE=WMTS&REQUEST=GetTile&VERSION=1.0.0&LAYER=RGB_PNG&STYLE=normal"
        "&FORMAT=image/png&TILEMATRIXSET=PM&TILEMATRIX=2&TILEROW=1&TILECOL=2",
        "/wmts?SERVICE=WMTS&REQUEST=GetFeatureInfo&VERSION=1.0.0&LAYER=RGB_PNG&STYLE=normal"
        "&FORMAT=image/png&TILEMATRIXSET=PM&TILEMATRIX=2&TILEROW=1&TILECOL=2&I=3&J=3",
        "/wmts?SERVICE=WMTS&REQUEST=GetCapabilities",
        "/wmts/1.0.0/RGB_PNG/normal/PM/2/1/2.png?filename=x",
    ),
    "wcs": (
        _WCS.format("2.0.1") + "COVERAGEID=RGB_PNG&SUBSET=x(0,1000000)",
        _WCS.format("1.0.0") + "COVERAGE=RGB_PNG&CRS=EPSG:3857&BBOX=0,0,1000000,1000000"
        "&WIDTH=9&HEIGHT=9&FORMAT=GeoTIFF",
        "/wcs?SERVICE=WCS&REQUEST=DescribeCoverage&VERSION=2.0.1&COVERAGEID=RGB_PNG",
        "/wcs?SERVICE=WCS&REQUEST=GetCapabilities",
    ),
    "tms": ("/tms/1.0.0/RGB_PNG/2/2/1.png?filename=x", "/tms/1.0.0/RGB_PNG/2/2/1.webp"),
    "ogcapi": (
        "/ogcapi/collections?f=json&bbox=0,0,1,1",
        "/ogcapi/collections/RGB_PNG/map?width=9&center=0,0&scale-denominator=1e7",
        "/ogcapi/map?collections=RGB_PNG&bbox=0,0,10,10&bgcolor=red",
        "/ogcapi/collections/RGB_PNG/map/tiles/PM/2/1/2?bgcolor=red",
        "/ogcapi/collections/RGB_PNG/map/tiles/PM/2/1/2?filename=x",
        "/ogcapi/collections/RGB_PNG/coverage?f=tiff&bbox=0,0,20,20&scale-factor=2",
        "/ogcapi/collections/RGB_PNG/coverage?f=tiff&subset=Lat(0:20)",
    ),
    "elevation": (
        *(f"/elevation/points?dataset=FLOAT32_ZIP&{q}" for q in ("coords=POINT(30+40)", "x=1&y=2")),
        f"/elevation/profile?dataset=FLOAT32_ZIP&{_LINE}",
        "/elevation/statistics?dataset=FLOAT32_ZIP&coords=POLYGON((30+40,31+40,31+41,30+40))",
        f"{_EDR}/position?coords=POINT(30+40)&datetime=2020-01-01&z=1",
        f"{_EDR}/radius?coords=POINT(30+40)&within=10&within-units=km",
        f"{_EDR}/area?coords=POLYGON((30+40,31+40,31+41,30+40))&stats=true",
        f"{_EDR}/cube?bbox=30,40,31,41",
        f"{_EDR}/trajectory?{_LINE}",
        f"{_EDR}/corridor?{_LINE}&corridor-width=1&width-units=km",
    ),
    "terrain": (
        "/terrain/FLOAT32_ZIP/style.json",
        "/terrain/FLOAT32_ZIP/mapbox.json",
        "/terrain/FLOAT32_ZIP/mapbox/2/2/1.png",
        "/terrain/FLOAT32_ZIP/mesh/layer.json",
        "/terrain/FLOAT32_ZIP/mesh/2/4/5.terrain",
        "/terrain/FLOAT32_ZIP/contours/2/2/1.pbf",
    ),
    "viewer": ("/viewer/data/place?q=x", "/viewer/data/requests/RGB_PNG?bbox=0,0,9,9&cell=1"),
    "history": ("/history/RGB_PNG", "/history/RGB_PNG/at", "/history/feed.atom", "/history/stac"),
    "provenance": tuple(
        f"/provenance/MAP/{name}" for name in ("at?lon=1&lat=2", "view", "sources", "sources.csv")
    ),
    "export": ("/export/jobs", "/export/processes"),
    "usage": ("/usage", "/usage/slots", "/usage/heat/RGB_PNG"),
    "auth": ("/auth/session", "/auth/sign"),
    "root": ("/", "/?f=json"),
}
"""Further requests, for what is only read if something else is there."""


class Noted(dict[str, str]):
    """Parameters of a request that note which ones are read."""

    names: set[str]

    def get(self, name: str, default: Any = None) -> Any:
        self.names.add(name)
        return super().get(name, default)

    def __getitem__(self, name: str) -> str:
        self.names.add(name)
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self.names.add(str(name))
        return super().__contains__(name)


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory) -> Application:
    folder = tmp_path_factory.mktemp("parameters")
    more = {"ogcapi": {"enabled": True, "coverages": True}}
    return everything(folder, Credentials(folder), services=more, prepare=prepare)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Return the names of the parameters that are read, in lower case."""
    names: set[str] = set()

    def noted(parse: Any) -> Any:
        def parsed(text: str) -> Noted:
            found = Noted(parse(text))
            found.names = names
            return found

        return parsed

    import mastaba_server.web.request as module

    monkeypatch.setattr(module, "parse_query", noted(module.parse_query))
    for method in ("only", "values_of", "__getitem__"):
        plain = getattr(Parameters, method)

        def asked(self: Any, name: str, plain: Any = plain) -> Any:
            names.add(name.lower())
            return plain(self, name)

        monkeypatch.setattr(Parameters, method, asked)
    return names


def addresses(name: str, client: Client) -> Iterator[str]:
    """Yield addresses of a service: some of those in its documents, and those above."""
    path = KINDS[name].default_root_path or f"/{name}"
    if path != "/":
        found = crawled(client, [path, *REQUESTS.get(name, ())], {})
        yield from [one for one in found if one.startswith(path)][:MOST]
    yield from REQUESTS.get(name, ())


def described(document: Any) -> Iterable[str]:
    """Yield the names of the parameters of queries in an OpenAPI document."""
    if isinstance(document, dict):
        if document.get("in") == "query":
            yield document["name"].lower()
        document = document.values()
    if isinstance(document, Iterable) and not isinstance(document, str):
        for one in document:
            yield from described(one)


@pytest.mark.thorough
@pytest.mark.parametrize("name", SERVICES)
def test_services_declare_the_parameters_that_they_read(
    name: str, application: Application, read: set[str]
) -> None:
    client = Client(application, use_cookies=False)
    asked = list(addresses(name, client))
    read.clear()
    for address in asked:
        for headers in ({}, {"Accept": "text/html"}, {"X-Mastaba-Secret": SECRET}):
            answer = client.get(address, headers=headers)
            assert answer.status_code < 500 or answer.status_code in (501, 503), address
    # A layer with a dimension has further ones.
    undeclared = {one for one in read if re.fullmatch(r"[a-z_-]+", one)} - KINDS[name].parameters
    assert undeclared == set()


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("ogcapi", "/ogcapi/api?f=json"),
        ("elevation", "/elevation/edr/api?f=json"),
        ("export", "/export/api?f=json"),
    ],
)
def test_services_declare_the_parameters_that_they_describe(
    name: str, address: str, application: Application
) -> None:
    document = Client(application).get(address).json
    found = set(described(document))
    assert found
    assert found <= KINDS[name].parameters


def test_declared_names_have_the_form_of_names() -> None:
    kinds: list[type[Service]] = list(KINDS.values())
    assert sum(bool(one.parameters) for one in kinds) > 8
    for one in kinds:
        assert all(name == name.lower().strip() != "" for name in one.parameters), one.name
        assert not one.parameters & {"apikey", "api_key", "key", "token", "access_token"}


def test_names_of_dimensions_are_no_names_of_credentials(tmp_path: Path) -> None:
    (tmp_path / "rules.json").write_text(json.dumps({"default": "allow"}))
    for name, listed in (("token", "Token"), ("run", "DIM_RUN")):
        folder = tmp_path / name
        folder.mkdir()
        server = series_installation(
            folder,
            [{name: "1"}, {name: "2"}],
            services=("wms",),
            dimensions=[{"name": name}],
            server_overrides={
                "plugins": {"access": {"rules": str(tmp_path / "rules.json"), "names": [listed]}}
            },
        )
        with pytest.raises(ConfigurationError, match=f"{name} is a dimension of the layer ORTHO"):
            create_application(str(server))
