"""What requests cost, and how they are refused: through the whole application."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from tests.tiny import tiny_installation
from werkzeug.test import Client

from mastaba.api.tools import Application, create_application
from mastaba.api.web import Request
from mastaba_access.commands.access import _explain
from mastaba_access.naming import named_layers
from mastaba_access.rules.what import Layers

Open = Callable[..., Application]
TILE = "/wmts/1.0.0/RGB_JPG/normal/PM/2/1/2.jpg"
MAP = (
    "/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&LAYERS={layers}&STYLES=&FORMAT=image/png&CRS={crs}"
    "&BBOX=0,0,1000000,1000000&WIDTH={size}&HEIGHT={size}"
)


@pytest.fixture
def open_with(tmp_path: Path) -> Open:
    """Return a function that opens an installation with rates."""

    def make(*rates: dict[str, Any], rules: list[dict[str, Any]] | None = None) -> Application:
        file = tmp_path / "rules.json"
        document = {"default": "allow", "rates": list(rates), "rules": rules or []}
        file.write_text(json.dumps(document))
        section = {"access": {"rules": str(file), "rate_headers": True}}
        path = tiny_installation(tmp_path / "i", server_overrides={"plugins": section})
        return create_application(str(path))

    return make


def ask(application: Application, path: str, **options: Any) -> Any:
    environ = {"REMOTE_ADDR": "127.0.0.1"}
    return Client(application).get(path, environ_overrides=environ, **options)


def test_tiles_and_documents_cost_one_on_both_paths(open_with: Open) -> None:
    application = open_with({"name": "all", "per": "address", "rate": 1e-3, "burst": 4})
    headers = {"REMOTE_ADDR": "127.0.0.1"}
    assert application.stored_tile(TILE, "", headers) is not None
    assert application.stored_tile(TILE, "", headers) is not None
    assert ask(application, TILE).status_code == 200
    assert ask(application, "/tms/1.0.0").status_code == 200
    assert application.stored_tile(TILE, "", headers) is None
    refused = ask(application, TILE)
    assert refused.status_code == 429
    assert "ExceptionReport" in refused.text
    assert 900 < int(refused.headers["Retry-After"]) <= 1000
    assert refused.headers["RateLimit-Policy"] == '"all";q=4;w=4000'
    assert "WWW-Authenticate" not in refused.headers
    # Another client, preflights, and services of the server itself.
    assert application.stored_tile(TILE, "", {"REMOTE_ADDR": "127.0.0.2"}) is not None
    assert Client(application).options(TILE).status_code == 204
    assert ask(application, "/healthcheck").status_code == 200


@pytest.mark.parametrize(
    ("path", "cost"),
    [
        (MAP.format(layers="RGB_JPG", crs="EPSG:3857", size=256), 1),
        (MAP.format(layers="RGB_JPG", crs="EPSG:3857", size=512), 4),
        (MAP.format(layers="RGB_JPG,GREY_PNG", crs="EPSG:3857", size=512), 8),
        (MAP.format(layers="RGB_JPG", crs="EPSG:4326", size=512), 8),
        (MAP.format(layers="RGB_JPG", crs="EPSG:3857", size=10**8), 1),
        (MAP.format(layers="RGB_JPG", crs="EPSG:3857", size="1e3"), 1),
        ("/wms?SERVICE=WMS&REQUEST=GetFeatureInfo&QUERY_LAYERS=RGB_JPG", 2),
        ("/wms?SERVICE=WMS&REQUEST=GetCapabilities", 1),
        ("/wms?%ff", 1),
        ("/ogcapi/collections/RGB_JPG/map?width=512&height=512", 4),
        ("/ogcapi/collections/RGB_JPG/map", 1),
        ("/ogcapi/collections", 1),
        ("/healthcheck", 0),
    ],
)
def test_costs(site: Any, path: str, cost: int) -> None:
    assert cost_of(site, path) == cost


def cost_of(site: Any, path: str) -> int:
    from mastaba.api.web import Request

    path, _, query = path.partition("?")
    _, root, *rest = path.split("/")
    service = next(one for one in site.services.values() if one.settings.root_path == f"/{root}")
    below = "".join(f"/{part}" for part in rest)
    return int(service.cost(Request("GET", below, query, {"QUERY_STRING": query})))


def test_a_map_is_refused_in_the_form_of_the_protocol(open_with: Open) -> None:
    maps = {"name": "maps", "what": {"abilities": ["maps"]}, "per": "address", "rate": 1e-3}
    application = open_with({**maps, "burst": 4})
    path = MAP.format(layers="RGB_JPG", crs="EPSG:3857", size=512)
    assert ask(application, path).status_code == 200
    refused = ask(application, path)
    assert refused.status_code == 429
    assert "ServiceExceptionReport" in refused.text
    refused = ask(application, "/ogcapi/collections/RGB_JPG/map")
    assert (refused.status_code, refused.json["status"]) == (429, 429)
    # Capabilities and tiles are not maps.
    assert ask(application, "/wms?SERVICE=WMS&REQUEST=GetCapabilities").status_code == 200
    assert ask(application, TILE).status_code == 200


def test_documents_of_wcs_are_no_coverages(open_with: Open, tmp_path: Path) -> None:
    rate = {"name": "some", "what": {"abilities": ["coverages"]}, "per": "address", "rate": 1e-3}
    open_with({**rate, "burst": 2})
    services = tmp_path / "i" / "services.json"
    section = {"enabled": True, "endpoint_uri": "http://localhost/wcs", "root_path": "/wcs"}
    services.write_text(json.dumps(json.loads(services.read_text()) | {"wcs": section}))
    application = create_application(str(tmp_path / "i" / "server.json"))
    for number in range(4):
        path = f"/wcs?SERVICE=WCS&REQUEST=GetCapabilities&x={number}"
        assert ask(application, path).status_code == 200
    client, address = Client(application), {"REMOTE_ADDR": "127.0.0.1"}
    wanted = "SERVICE=WCS&VERSION=2.0.1&REQUEST=GetCoverage&COVERAGEID=NOWHERE"
    assert ask(application, f"/wcs?{wanted}").status_code == 404
    # What rates have read of a body, the service reads again: it says what is wrong with it.
    text = client.post("/wcs", data="text", content_type="text/csv", environ_overrides=address)
    assert "text/csv" in text.text
    form = "application/x-www-form-urlencoded"
    statuses = [
        client.post("/wcs", data=wanted, content_type=form, environ_overrides=address).status_code
        for _ in range(2)
    ]
    assert statuses == [404, 429]


def test_derived_tiles_of_wmts_cost_what_tiles_cost(open_with: Open) -> None:
    tiles = {"name": "tiles", "what": {"abilities": ["tiles"]}, "per": "address", "rate": 1e-3}
    application = open_with({**tiles, "burst": 3})
    form = {"SERVICE": "WMTS", "VERSION": "1.0.0", "REQUEST": "GetTile", "LAYER": "RGB_JPG"}
    form |= {"STYLE": "normal", "FORMAT": "image/png", "TILEMATRIXSET": "PM"}
    form |= {"TILEMATRIX": "2", "TILEROW": "1", "TILECOL": "2"}
    # Neither is stored, whether the layer offers it or not.
    assert ask(application, TILE.replace(".jpg", ".png")).status_code != 429
    assert ask(application, "/wmts", query_string=form).status_code != 429
    posted = Client(application).post(
        "/wmts",
        data=form | {"FORMAT": "image/jpeg"},
        environ_overrides={"REMOTE_ADDR": "127.0.0.1"},
    )
    assert posted.data.startswith(b"\xff\xd8")
    assert ask(application, TILE.replace(".jpg", ".png")).status_code == 429
    assert ask(application, "/wmts", query_string=form).status_code == 429
    assert ask(application, "/tms/1.0.0/RGB_JPG/2/2/1.jpg?t=123").status_code == 429
    assert ask(application, "/ogcapi/collections/RGB_JPG/map/tiles/PM/2/1/2").status_code == 429
    assert ask(application, "/wmts?SERVICE=WMTS&REQUEST=GetCapabilities").status_code == 200
    assert ask(application, "/tms/1.0.0/RGB_JPG").status_code == 200
    assert ask(application, "/ogcapi/collections/RGB_JPG/map/tiles/PM").status_code == 200
    assert ask(application, "/wmts?SERVICE=WMTS&REQUEST=GetFeatureInfo").status_code == 400


XML = (
    '<GetTile xmlns="http://www.opengis.net/wmts/1.0" service="WMTS" version="1.0.0">'
    "<Layer>RGB_JPG</Layer><Style>normal</Style><Format>image/jpeg</Format>"
    "<TileMatrixSet>PM</TileMatrixSet><TileMatrix>2</TileMatrix><TileRow>1</TileRow>"
    "<TileCol>2</TileCol></GetTile>"
)


def test_layers_in_bodies_have_the_rates_of_layers(open_with: Open) -> None:
    what = {"layers": ["RGB_JPG"]}
    application = open_with(
        {"name": "one", "what": what, "per": "address", "rate": 1e-3, "burst": 2}
    )

    def post(path: str, **options: Any) -> Any:
        environ = {"REMOTE_ADDR": "127.0.0.1"}
        return Client(application).post(path, environ_overrides=environ, **options)

    xml = {"data": XML, "content_type": "text/xml"}
    form = {"SERVICE": "WMTS", "REQUEST": "GetTile", "LAYER": "GREY_PNG"}
    assert post("/wmts", **xml).data.startswith(b"\xff\xd8")
    for _ in range(3):
        # Another layer, or none, is not limited.
        assert post("/wmts", data=form).status_code == 400
        assert post("/wmts", data="<GetTile", content_type="text/xml").status_code == 400
    assert post("/wmts", data=form | {"LAYER": "RGB_JPG"}).status_code == 400
    assert post("/wmts", **xml).status_code == 429
    assert post("/wmts", data=form | {"LAYER": "RGB_JPG"}).status_code == 429
    assert post("/wmts", data=form).status_code == 400


class Broken(BytesIO):
    """The body of a client that has hung up."""

    def readinto(self, _: Any) -> int:
        raise OSError("the connection is broken")


@pytest.mark.parametrize(
    ("path", "read"),
    [
        ("/wms", "mastaba_wms.post.parameters"),
        ("/wmts", "mastaba_wmts.post.as_kvp"),
        ("/wcs", "mastaba_wcs.post.parameters"),
    ],
)
def test_bodies_are_read_once(
    open_with: Open, tmp_path: Path, path: str, read: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those with mistakes, which rates and service see."""
    what = {"abilities": ["maps", "tiles", "coverages"], "layers": ["RGB_JPG"]}
    open_with({"name": "all", "what": what, "per": "address", "rate": 1e-3, "burst": 2})
    services = tmp_path / "i" / "services.json"
    section = {"enabled": True, "endpoint_uri": "http://localhost/wcs", "root_path": "/wcs"}
    services.write_text(json.dumps(json.loads(services.read_text()) | {"wcs": section}))
    application = create_application(str(tmp_path / "i" / "server.json"))
    module, _, name = read.rpartition(".")
    original, calls = getattr(importlib.import_module(module), name), []

    def counted(request: Any) -> Any:
        calls.append(request)
        return original(request)

    monkeypatch.setattr(read, counted)
    client, address = Client(application), {"REMOTE_ADDR": "127.0.0.1"}
    for data in ("<damaged", "<Other/>", "service=none"):
        calls.clear()
        kind = "text/xml" if data.startswith("<") else "application/x-www-form-urlencoded"
        found = client.post(path, data=data, content_type=kind, environ_overrides=address)
        assert found.status_code in (400, 501)
        assert len(calls) == 1
    environ = {**address, "wsgi.input": Broken(b"x"), "CONTENT_LENGTH": "5"}
    gone = client.open(path, method="POST", environ_overrides=environ)
    assert gone.status_code == 499
    service = application.site.services[path[1:]]
    request = Request("POST", "", "", {"wsgi.input": Broken(b"x"), "CONTENT_LENGTH": "5"})
    assert service.ability_of(request) == ""


@pytest.mark.parametrize("effect", [{"deny": {}}, {"deny": {"as": "lock"}}])
def test_a_rate_does_not_tell_that_a_hidden_layer_exists(
    open_with: Open, effect: dict[str, Any]
) -> None:
    layers = {"layers": ["RGB_PNG", "RGB_JPG"]}
    application = open_with(
        {"name": "one", "what": layers, "per": "address", "rate": 1e-3, "burst": 2},
        rules=[{"name": "hidden", "what": {"layers": ["RGB_PNG"]}, **effect}],
    )
    paths = (
        "/wmts/1.0.0/RGB_PNG/normal/PM/2/1/2.png",
        "/tms/1.0.0/RGB_PNG/2/2/1.png",
        MAP.format(layers="RGB_PNG", crs="EPSG:3857", size=9),
        "/ogcapi/collections/RGB_PNG/map?width=9&height=9",
    )
    statuses = [ask(application, path).status_code for path in paths for _ in range(2)]
    # A locked layer is described, so its rate may show.
    assert (429 in statuses) == ("as" in effect["deny"])
    assert ask(application, TILE).status_code == (429 if "as" in effect["deny"] else 200)


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/A.B;time=1950/2/2/1.png", ""),
        ("/A.B~7/2/2/1.png", ""),
        ("/1.0.0/A.B;time=1950,2000/normal", ""),
        ("", "LAYERS=C,A.B%3Btime%3D1950"),
        ("/points", "dataset=A.B"),
    ],
)
def test_values_and_versions_belong_to_their_layer(open_with: Open, path: str, query: str) -> None:
    layer = open_with().site.catalogue.layers["RGB_JPG"]
    layers = Layers(dict.fromkeys(("A.B", "C", "D"), layer))
    named = named_layers(path, query, layers)
    assert named & layers.bit("A.B")
    assert not named & layers.bit("D")


def test_explanations_show_rates(
    open_with: Open, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from argparse import Namespace

    maps = {"name": "maps", "what": {"abilities": ["maps"]}, "per": "address", "rate": 40}
    open_with(maps, {"name": "keys", "per": "key", "rate": 1})
    given = Namespace(
        file=str(tmp_path / "i" / "server.json"),
        url=MAP.format(layers="RGB_JPG", crs="EPSG:3857", size=256),
        principal="anonymous",
        group=[],
        address="",
        referer="",
        at=None,
        json=False,
    )
    assert _explain(given) == 0
    shown = [line for line in capsys.readouterr().out.splitlines() if line.startswith("rate")]
    assert shown == ["rate 'maps' (maps), per address: 40 a second, burst 400"]


def test_mistakes_in_rates_are_found(open_with: Open) -> None:
    what = {"services": ["wfs"], "layers": ["NOPE"]}
    site = open_with({"name": "one", "what": what, "per": "address", "rate": 1}).site
    assert site.gate is not None
    found = {str(fault.path): fault.reason for fault in site.gate.findings(site)}
    assert found["$.rates[0].what.services[0]"] == "no service 'wfs' is enabled"
    assert found["$.rates[0].what.layers[0]"] == "no layer matches 'NOPE'"
    assert "share the rate" in found["$.rates[0].per"]
