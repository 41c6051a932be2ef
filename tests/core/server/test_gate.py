"""Credentials are taken out of requests, and each client sees its view."""

from __future__ import annotations

import base64
import gc
import json
import logging
import random
import re
import threading
import weakref
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.core.server.test_tile_table import FEW, Requests, Transport
from tests.key_gate import GatePlugin, KeyGate, Rights
from werkzeug.test import Client

from mastaba import hookimpl
from mastaba.api.catalogue import Catalogue
from mastaba.errors import ConfigurationError, StorageUnavailableError
from mastaba.model.settings import VirtualSettings
from mastaba.plugins.manager import Plugins
from mastaba.services.base import Site
from mastaba.site.application import Application
from mastaba.wsgi import create_application
from mastaba_conformance.tiny_installation import tiny_installation
from mastaba_server.transport import http
from mastaba_server.transport.connection import Connection
from mastaba_server.transport.fastcgi.connection import FastCGIConnection
from mastaba_server.transport.http import HTTPConnection

KEY, OTHER = "mk_all_0123456789", "mk_few_0123456789"
HIDDEN = "RGB_PNG"
TILE = "/wmts/1.0.0/{}/normal/PM/2/1/2.{}"
KVP = (
    "SERVICE=WMTS&VERSION=1.0.0&REQUEST=GetTile&LAYER={}&STYLE=normal&FORMAT=image/png"
    "&TILEMATRIXSET=PM&TILEMATRIX=2&TILEROW=1&TILECOL=2"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    caching = {"layers": "public, max-age=60, s-maxage=600, stale-if-error=9"}
    shared = {"cors": True, "generation_headers": True, "caching": caching}
    return tiny_installation(
        tmp_path_factory.mktemp("i"),
        services_overrides={"viewer": {"enabled": True}, "global": shared},
        server_overrides={"logger": {"level": "info", "access": "text"}},
    )


def gate(**others: Any) -> KeyGate:
    classes = {
        "": Rights(hidden=frozenset((HIDDEN,)), locked=frozenset(("GREY_PNG",))),
        "all": Rights(abilities=frozenset(("status",))),
        "few": Rights(hidden=frozenset((HIDDEN, "RGB_JPG")), locked=frozenset(("GREY_PNG",))),
    }
    return KeyGate(classes=classes, keys={KEY: "all", OTHER: "few"}, **others)


def application(folder: Path, used: KeyGate, **plugins: object) -> Application:
    given = Plugins(extra={"test_gate": GatePlugin(used), **plugins})
    return create_application(str(folder), given)


@pytest.fixture(scope="module")
def served(folder: Path) -> Application:
    return application(folder, gate())


@pytest.fixture
def client(served: Application) -> Client:
    return Client(served, use_cookies=False)


def tile_of(served: Application, target: str, headers: Mapping[str, str] | None = None) -> Any:
    """Return what the table answers."""
    path, _, query = target.partition("?")
    return served.stored_tile(path, query, {"REMOTE_ADDR": "192.0.2.7", **(headers or {})})


WAYS: Mapping[str, Callable[[str, str], tuple[str, dict[str, str]]]] = {
    "path": lambda path, key: (path.replace("/wmts", f"/wmts/~{key}", 1), {}),
    "encoded path": lambda path, key: (path.replace("/wmts", f"/wmts/%7E{key}", 1), {}),
    "query": lambda path, key: (f"{path}?apikey={key}", {}),
    "spelt otherwise": lambda path, key: (f"{path}?%41piKey={key}&x=1", {}),
    "bearer": lambda path, key: (path, {"HTTP_AUTHORIZATION": f"bearer {key}"}),
    "header": lambda path, key: (path, {"HTTP_X_API_KEY": key}),
    "cookie": lambda path, key: (path, {"HTTP_COOKIE": f"a=b; __Host-mastaba={key}"}),
}


@pytest.mark.parametrize("way", WAYS)
def test_each_form_opens_what_is_hidden_otherwise(client: Client, way: str) -> None:
    path = TILE.format(HIDDEN, "png")
    assert client.get(path).status_code == 404
    address, headers = WAYS[way](path, KEY)
    response = client.get(address, environ_overrides=headers)
    assert (response.status_code, response.mimetype) == (200, "image/png")
    address, headers = WAYS[way](path, "mk_unknown")
    assert client.get(address, environ_overrides=headers).status_code == 401
    address, headers = WAYS[way](path, OTHER)
    assert client.get(address, environ_overrides=headers).status_code == 404


def test_hidden_layer_is_as_one_that_never_existed(client: Client) -> None:
    for address in (
        TILE.format("{}", "png"),
        f"/wmts?{KVP}",
        "/tms/1.0.0/{}/2/2/1.png",
        "/tms/1.0.0/{}",
        "/ogcapi/collections/{}",
        "/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&LAYERS={}&STYLES=&CRS=EPSG:3857"
        "&BBOX=0,0,9,9&WIDTH=9&HEIGHT=9&FORMAT=image/png",
        "/viewer/{}",
    ):
        hidden, unknown = (client.get(address.format(name)) for name in (HIDDEN, "XYZ_XYZ"))
        assert hidden.status_code == unknown.status_code
        assert hidden.data.replace(HIDDEN.encode(), b"XYZ_XYZ") == unknown.data
        assert list(hidden.headers) == list(unknown.headers)
        assert hidden.headers["Cache-Control"] == "no-store"


DOCUMENTS = (
    "/wms?SERVICE=WMS&REQUEST=GetCapabilities",
    "/wms?SERVICE=WMS&REQUEST=GetCapabilities&VERSION=1.1.1",
    "/wmts?SERVICE=WMTS&REQUEST=GetCapabilities",
    "/wmts/1.0.0/WMTSCapabilities.xml",
    "/tms/1.0.0",
    "/tms/1.0.0/RGB_JPG",
    "/ogcapi",
    "/ogcapi/collections",
    "/ogcapi/collections/RGB_JPG",
    "/ogcapi/api?f=json",
    "/viewer",
    "/viewer/RGB_JPG",
    "/?f=xml",
    "/?f=html",
)


@pytest.mark.parametrize("address", DOCUMENTS)
def test_addresses_in_documents_contain_the_credential(
    served: Application, client: Client, address: str
) -> None:
    mark = served.site.mark
    root = re.match(r"/\w*", address)[0].rstrip("/")  # type: ignore[index]
    with_key = address.replace(root, f"{root}/~{KEY}", 1) if root else f"/~{KEY}{address}"
    plain, keyed = client.get(address), client.get(with_key)
    by_header = client.get(address, headers={"Authorization": f"Bearer {KEY}"})
    assert plain.status_code == keyed.status_code == by_header.status_code == 200
    for response in (plain, keyed, by_header):
        assert mark not in response.text + str(response.headers)
    assert "/~" not in plain.text
    assert "/~" not in by_header.text
    if "viewer" not in address:
        assert HIDDEN not in plain.text
    found = keyed.text.replace("%2F", "/")
    addresses = re.findall(r"http://localhost/\w+(?=[/?\"'<&])[^\"'<\s]*", found)
    assert addresses
    unseen = [one for one in addresses if f"/~{KEY}" not in one]
    assert [one for one in unseen if not one.endswith("/healthcheck")] == []
    assert keyed.headers["Cache-Control"] == "private, no-cache"
    assert "Authorization" in keyed.headers.get("Vary", "") + str(keyed.headers.getlist("Vary"))
    if plain.headers.get("ETag"):
        etags = {one.headers["ETag"] for one in (plain, keyed, by_header)}
        assert len(etags) >= 2
        assert keyed.headers["ETag"] not in (plain.headers["ETag"], by_header.headers["ETag"])
        again = client.get(with_key, headers={"If-None-Match": keyed.headers["ETag"]})
        assert (again.status_code, again.data) == (304, b"")
        other = client.get(address, headers={"If-None-Match": keyed.headers["ETag"]})
        assert other.status_code == 200


def test_addresses_of_documents_can_be_followed(client: Client) -> None:
    text = client.get(f"/wmts/~{KEY}?SERVICE=WMTS&REQUEST=GetCapabilities").text
    (template,) = re.findall(rf'template="(\S*/{HIDDEN}/\S*TileRow\S*png)"', text)
    style, *_ = re.findall(r"<ows:Identifier>(normal)</ows:Identifier>", text)
    address = template.removeprefix("http://localhost").format(
        style=style, Style=style, TileMatrixSet="PM", TileMatrix="2", TileRow="1", TileCol="2"
    )
    assert client.get(address).mimetype == "image/png"


def test_documents_are_equal_on_nodes_with_one_secret(folder: Path) -> None:
    address = f"/wmts/~{KEY}?SERVICE=WMTS&REQUEST=GetCapabilities"
    first, second = (Client(application(folder, gate())).get(address) for _ in range(2))
    assert first.data == second.data
    assert first.headers["ETag"] == second.headers["ETag"]


def test_generations_are_those_of_views(served: Application, client: Client) -> None:
    found = {
        client.get(f"/wmts{way}?SERVICE=WMTS&REQUEST=GetCapabilities").headers["Mastaba-Generation"]
        for way in ("", f"/~{KEY}", f"/~{OTHER}")
    }
    assert len(found) == 3
    whole = served.site.catalogue.generation
    assert served.site.view("all").catalogue.generation == whole


LOCKED = (
    TILE.format("GREY_PNG", "png"),
    f"/wmts?{KVP.format('GREY_PNG')}",
    "/tms/1.0.0/GREY_PNG/2/2/1.png",
    "/ogcapi/collections/GREY_PNG/map/tiles/PM/2/1/2",
    "/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&LAYERS=GREY_PNG&STYLES=&CRS=EPSG:3857"
    "&BBOX=-2e7,-2e7,2e7,2e7&WIDTH=99&HEIGHT=99&FORMAT=image/png&EXCEPTIONS=INIMAGE",
)


@pytest.mark.parametrize("address", LOCKED)
def test_data_of_a_locked_layer_ask_for_a_credential(client: Client, address: str) -> None:
    response = client.get(address)
    assert response.status_code == 401, response.text
    assert response.mimetype.split("/")[1].endswith(("xml", "json"))
    assert response.headers.getlist("WWW-Authenticate")[1].startswith("Basic")
    assert response.headers["Cache-Control"] == "no-store"
    image = client.get(address, headers={"Sec-Fetch-Mode": "no-cors"})
    assert [one[:6] for one in image.headers.getlist("WWW-Authenticate")] == ["ApiKey"]
    assert client.head(address).status_code == 401
    assert client.get(address, headers={"Authorization": f"Bearer {OTHER}"}).status_code == 403
    assert client.get(address, headers={"Authorization": f"Bearer {KEY}"}).status_code == 200


@pytest.mark.parametrize(
    "address",
    [
        "/tms//1.0.0",
        "/wmts//1.0.0/WMTSCapabilities.xml",
        "/wmts/./1.0.0/WMTSCapabilities.xml",
        "/tms/../wmts/1.0.0/WMTSCapabilities.xml",
        "/wmts/%2e%2e/wmts/1.0.0/WMTSCapabilities.xml",
        "/wmts/1.0.0%2FWMTSCapabilities.xml",
        "/wmts/1.0.0/WMTSCapabilities.xml%00",
        f"/wmts/~{KEY}/~{KEY}/1.0.0/WMTSCapabilities.xml",
        f"/wmts?SERVICE=WMTS&REQUEST=GetCapabilities&apikey={KEY}&KEY={OTHER}",
    ],
)
def test_address_with_two_readings_is_refused(served: Application, address: str) -> None:
    path = address.partition("?")[0]
    base = {"REQUEST_URI": path} if "%" in path else {}
    response = Client(served).get(address, environ_base=base)
    assert response.status_code == 400
    assert KEY not in response.text
    assert Client(served).get("/tms/1.0.0/").status_code == 200


@pytest.mark.parametrize("path", ["/unknown/path", "/wmts", "/healthcheck"])
def test_a_gate_whose_store_does_not_answer_is_not_a_bug(folder: Path, path: str) -> None:
    class BrokenGate(KeyGate):
        def grant(self, shown: Any, headers: Any, address: str) -> Any:
            if shown:
                raise StorageUnavailableError("s3://secret does not answer")
            return super().grant(shown, headers, address)

    client = Client(application(folder, BrokenGate(classes={"": Rights()})))
    answer = client.get(path, headers={"X-API-Key": "mk_any_0123456789"})
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "10")
    assert "secret" not in answer.text


def test_preflights_need_no_credential(client: Client) -> None:
    wanted = {
        "Origin": "https://one.example",
        "Access-Control-Request-Method": "GET",
        "Access-Control-Request-Headers": "authorization, x-api-key",
    }
    response = client.options("/wmts/~mk_unknown/1.0.0/x", headers=wanted)
    assert response.status_code == 204
    assert "Authorization" in response.headers["Access-Control-Allow-Headers"]


class Recorder:
    """A plugin that notes the environment of each request, and counts."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []
        self.tiles: list[tuple[Any, Any, int]] = []
        self.requests: list[tuple[Any, int, int | None]] = []
        self.virtual: list[str] = []

    @hookimpl
    def wsgi_middleware(self, site: Any) -> Any:
        def wrap(inner: Any) -> Any:
            return _Noting(inner, self.seen)

        return wrap

    @hookimpl
    def request_meters(self, site: Any) -> Any:
        return self

    def tile(
        self,
        grant: Any,
        group: Any,
        response: Any,
        service: str,
        virtual: str,
        place: tuple[int, int],
    ) -> None:
        self.tiles.append((grant.principal.id, group and group.layer, response.status))

    def request(self, environ: Mapping[str, Any], status: int, size: int | None) -> None:
        grant = environ.get("mastaba.grant")
        self.virtual.append(environ["mastaba.virtual"])
        self.requests.append((getattr(grant, "principal", grant), status, size))


class _Noting:
    def __init__(self, inner: Any, seen: list[dict[str, Any]]) -> None:
        self._inner, self._seen = inner, seen

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        environ.pop("werkzeug.request", None)
        self._seen.append(dict(environ))
        return self._inner(environ, start_response)

    def around_tiles(self, service: str, find: Any) -> Any:
        return find


def test_nothing_behind_the_door_sees_a_credential(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recorder, used = Recorder(), gate(front="192.0.2.9")
    client = Client(application(folder, used, test_recorder=recorder), use_cookies=False)
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.INFO, "mastaba.access")
    secret = base64.b64encode(b"user:mk_basic").decode()
    for key in (KEY, "mk_wrong"):
        for way, make in WAYS.items():
            address, headers = make(TILE.format("RGB_JPG", "jpg"), key)
            if "path" in way:
                headers["HTTP_REFERER"] = f"http://localhost/viewer/~{key}"
            headers |= {"REMOTE_ADDR": "192.0.2.9", "REQUEST_URI": address, "RAW_URI": address}
            headers["HTTP_X_FORWARDED_FOR"] = "198.51.100.7, 203.0.113.5"
            client.get(address, environ_overrides=headers)
    client.get("/wmts", headers={"Authorization": f"Basic {secret}"})
    assert len(recorder.seen) == 2 * len(WAYS) + 1
    for environ in recorder.seen[:-1]:
        assert environ["REMOTE_ADDR"] == "203.0.113.5"
        assert "HTTP_X_FORWARDED_FOR" not in environ
        assert environ["PATH_INFO"] == TILE.format("RGB_JPG", "jpg")
    texts = [repr(one) for one in recorder.seen] + [one.getMessage() for one in caplog.records]
    for hidden in (KEY, "mk_wrong", secret, "apikey"):
        assert [one for one in texts if hidden in one] == []
    assert "203.0.113.5 GET /wmts/1.0.0/RGB_JPG" in caplog.text
    lines = [one for one in texts if "GET /wmts/1.0.0/RGB_JPG" in one]
    assert len([one for one in lines if " key=id-of-mk class=all virtual=-" in one]) == len(WAYS)
    assert len([one for one in lines if " 401 " in one and " key=- class=- " in one]) == len(WAYS)
    assert [one[1] for one in recorder.requests[-8:-1]] == [401] * 7


def test_tiles_of_the_table_are_counted_with_their_grants(folder: Path) -> None:
    recorder = Recorder()
    served = application(folder, gate(), test_recorder=recorder)
    Client(served).get(f"/wmts/~{KEY}?SERVICE=WMTS&REQUEST=GetCapabilities")
    path = TILE.format("RGB_JPG", "jpg")
    assert tile_of(served, path).status == 200
    assert tile_of(served, path.replace("/wmts", f"/wmts/~{KEY}")).status == 200
    assert tile_of(served, TILE.format(HIDDEN, "png")) is None
    assert recorder.tiles == [
        ("anonymous", "RGB_JPG", 200),
        ("id-of-mk", "RGB_JPG", 200),
    ]


def test_table_shares_tiles_and_asks_the_gate_once(folder: Path) -> None:
    used = gate()
    served = application(folder, used)
    hidden = TILE.format(HIDDEN, "png")
    with_key = hidden.replace("/wmts", f"/wmts/~{KEY}")
    assert tile_of(served, with_key) is None  # unknown until the general path has asked
    assert Client(served).get(with_key).status_code == 200
    assert tile_of(served, with_key).status == 200
    assert tile_of(served, f"/wmts?{KVP.format(HIDDEN)}&apikey={KEY}") is None
    assert Client(served).get(f"{hidden}?apikey={KEY}").status_code == 200
    for target in (
        f"{hidden}?apikey={KEY}",
        f"/wmts?{KVP.format(HIDDEN)}&apikey={KEY}",
        f"/wmts?apikey={KEY}&{KVP.format(HIDDEN)}",
    ):
        assert tile_of(served, target).status == 200
    for target in (
        hidden,
        f"{hidden}?apikey={OTHER}",
        f"{with_key}?apikey={KEY}",
        f"{hidden}?apikey={KEY}&apikey={OTHER}",
        f"{hidden}?ApiKey={KEY}",
        f"{hidden}?xapikey={KEY}",
        with_key.replace(f"~{KEY}", f"~{KEY}/~{KEY}"),
    ):
        assert tile_of(served, target) is None, target
    assert tile_of(served, hidden, {"HTTP_AUTHORIZATION": f"Bearer {KEY}"}) is None
    assert used.calls.count((("path", KEY),)) == 1  # type: ignore[comparison-overlap]
    used.now += 1
    assert tile_of(served, with_key) is None
    del used.keys[KEY]
    assert Client(served).get(with_key).status_code == 401
    assert tile_of(served, with_key) is None


def test_restricted_key_is_tested_for_each_request(folder: Path) -> None:
    used = gate(referers={KEY: "//partner.example/"})
    served = application(folder, used)
    address = TILE.format(HIDDEN, "png").replace("/wmts", f"/wmts/~{KEY}")
    right = {"HTTP_REFERER": "https://partner.example/map"}
    for _ in range(2):
        response = Client(served).get(address, headers={"Referer": right["HTTP_REFERER"]})
        assert response.status_code == 200
        assert Client(served).get(address).status_code == 403
    assert tile_of(served, address, right).status == 200
    assert tile_of(served, address) is None
    shared = right.copy()
    tile_of(served, address, shared)
    assert shared == right


@pytest.mark.parametrize(
    ("way", "key", "control"),
    [
        ("path", "", "public, max-age=60, s-maxage=600, stale-if-error=9"),
        ("path", KEY, "private, max-age=60"),
        ("bearer", KEY, "private, max-age=60"),
    ],
)
def test_caches_get_what_they_may_store(client: Client, way: str, key: str, control: str) -> None:
    path = TILE.format("RGB_JPG", "jpg")
    address, headers = WAYS[way](path, key) if key else (path, {})
    response = client.get(address, environ_overrides=headers)
    assert response.headers["Cache-Control"] == control
    assert ("Authorization" in str(response.headers.getlist("Vary"))) is (way == "bearer")


def test_pages_send_no_referrer(client: Client) -> None:
    assert client.get(f"/viewer/~{KEY}").headers.getlist("Referrer-Policy") == ["no-referrer"]


@pytest.mark.parametrize("path", ["info", "threads", "depends"])
def test_details_of_the_server_need_an_ability(client: Client, path: str) -> None:
    address = f"/healthcheck/{path}"
    assert client.get(address).status_code == 401
    few, all_of_it = ({"Authorization": f"Bearer {one}"} for one in (OTHER, KEY))
    assert client.get(address, headers=few).status_code == 403
    assert client.get(address, headers=all_of_it).status_code == 200


def test_public_health_names_no_layer_and_no_generation(served: Application) -> None:
    client = Client(served)
    for path in ("", "/live", "/ready"):
        response = client.get(f"/healthcheck{path}")
        assert response.status_code == 200
        assert served.site.catalogue.generation not in response.text


def test_two_gates_are_a_conflict(folder: Path) -> None:
    with pytest.raises(Exception, match="test_another and test_gate both control access"):
        application(folder, gate(), test_another=GatePlugin(gate()))


def test_withheld_abilities_are_offered_nowhere(folder: Path) -> None:
    rights = Rights(
        withheld=frozenset(
            (("wms", "legend"), ("wms", "info"), ("wmts", "info"), ("ogcapi", "maps"))
        )
    )
    client = Client(application(folder, KeyGate(classes={"": rights})))
    text = client.get("/wms?SERVICE=WMS&REQUEST=GetCapabilities&VERSION=1.3.0").text
    assert 'queryable="1"' not in text
    assert "GetLegendGraphic" not in re.sub(r"(?s)<Capability>.*?</Request>", "", text)
    legend = "/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetLegendGraphic&FORMAT=image/png"
    assert client.get(f"{legend}&LAYER=GREY_PNG&STYLE=ember&SLD_VERSION=1.1.0").status_code == 400
    info = f"{KVP.format('RGB_PNG')}&INFOFORMAT=text/plain&I=1&J=1".replace(
        "GetTile", "GetFeatureInfo"
    )
    assert client.get(f"/wmts?{info}").status_code == 501
    links = json.dumps(client.get("/ogcapi/collections/RGB_PNG?f=json").json)
    assert "/rel/map" not in links
    assert "tilesets" in links
    assert client.get("/ogcapi/collections/RGB_PNG/map?width=9").status_code == 404


@pytest.mark.thorough
@pytest.mark.parametrize("protocol", [HTTPConnection, FastCGIConnection])
def test_table_and_general_path_answer_the_same_to_each_client(
    folder: Path, protocol: type[Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "_date", lambda now: "Server: x\r\nDate: x\r\n")
    served = application(folder, gate())
    mixed = random.Random(7)
    client = Client(served, use_cookies=False)
    for key in (KEY, OTHER):
        client.get(f"/wmts/~{key}/x")
        client.get(f"/wmts?apikey={key}")
    etag = client.get(TILE.format("RGB_JPG", "jpg")).headers["ETag"]
    transport = Transport(served, protocol)
    for count, (method, target, headers) in enumerate(Requests(3, [etag, '"x"'])):
        if count == FEW:
            break
        key = mixed.choice((KEY, OTHER, "mk_unknown", ""))
        way = mixed.randrange(5)
        if way < 2:
            root = target[: target.find("/", 1) if target.find("/", 1) > 0 else None]
            root = root.partition("?")[0]
            target = f"{root}/~{key}{target[len(root) :]}"
        elif way == 2:
            name = mixed.choice(("apikey", "key", "ApiKey", "%61pikey"))
            target += f"{'&' if '?' in target else '?'}{name}={key}"
        elif way == 3:
            headers = {**headers, "Authorization": f"Bearer {key}"}
        transport.check(method, target, headers)
    assert transport.answered > FEW / 12


def with_partner(site: Site, **others: Any) -> Site:
    """Return a site with the virtual service ``partner`` of two layers."""
    before, catalogue = site.catalogue.services["wmts"], site.catalogue
    own = replace(
        before, endpoint_uri="http://localhost/v/partner/wmts", root_path="/v/partner/wmts"
    )
    settings = replace(catalogue.settings, provider="Partner")
    virtual = VirtualSettings(
        ("RGB_P*", "GREY_PNG"),
        settings=settings,
        services={"wmts": own},
        root_path="/v/partner",
        **{"exclusive": False, **others},
    )
    return site.changed(replace(catalogue, virtual={"partner": virtual}))


@pytest.mark.parametrize("exclusive", [False, True])
def test_virtual_service_publishes_some_layers(folder: Path, exclusive: bool) -> None:
    site = create_application(str(folder), Plugins()).site
    served = Application(with_partner(site, exclusive=exclusive))
    client = Client(served)
    document = "/wmts?SERVICE=WMTS&REQUEST=GetCapabilities"
    text = client.get(f"/v/partner{document}").text
    assert "<ows:Identifier>RGB_PNG<" in text
    assert "RGB_JPG" not in text
    assert "<ows:ProviderName>Partner<" in text
    assert "http://localhost/v/partner/wmts" in text
    main = client.get(document).text
    assert ("<ows:Identifier>RGB_PNG<" in main) is not exclusive
    assert "/v/partner" not in main
    for name, extension in (("RGB_PNG", "png"), ("RGB_JPG", "jpg")):
        path = TILE.format(name, extension)
        own, first = client.get(f"/v/partner{path}"), client.get(path)
        assert own.status_code == (200 if name == "RGB_PNG" else 404)
        assert first.status_code == (404 if exclusive and name == "RGB_PNG" else 200)
        for address, response in ((f"/v/partner{path}", own), (path, first)):
            quick = tile_of(served, address)
            assert (quick is None) is (response.status_code == 404)
            assert quick is None or quick.body == response.data


def test_class_of_clients_sees_its_part_of_a_virtual_service(folder: Path) -> None:
    served = Application(with_partner(application(folder, gate()).site))
    client = Client(served)
    path = f"/v/partner{TILE.format(HIDDEN, 'png')}"
    assert client.get(path).status_code == 404
    with_key = path.replace("/wmts", f"/wmts/~{KEY}")
    assert client.get(with_key).status_code == 200
    assert tile_of(served, with_key).status == 200
    assert tile_of(served, path) is None
    text = client.get(f"/v/partner/wmts/~{KEY}?SERVICE=WMTS&REQUEST=GetCapabilities").text
    assert f"http://localhost/v/partner/wmts/~{KEY}" in text
    assert served.site.mark not in text


def test_meters_know_the_virtual_service(folder: Path) -> None:
    recorder = Recorder()
    served = Application(with_partner(application(folder, gate(), test_recorder=recorder).site))
    client, path = Client(served), TILE.format("GREY_PNG", "png")
    for address in (f"/v/partner{path}", path, "/v/partner/unknown", "/unknown"):
        client.get(address)
    assert recorder.virtual == ["partner", "", "partner", ""]


def test_services_json_names_virtual_services(tmp_path: Path) -> None:
    virtual = {
        "partner": {
            "layers": ["RGB_PNG", "keyword:none"],
            "title": "For partners",
            "provider": "Partner",
            "map": {"limits": {"width": 77}},
            "services": {"wmts": {}, "wms": {"title": "Maps"}, "tms": {"root_path": "/partner"}},
        }
    }
    file = tiny_installation(tmp_path, services_overrides={"virtual": virtual})
    client = Client(create_application(str(file), Plugins()))
    text = client.get("/wmts/v/partner?SERVICE=WMTS&REQUEST=GetCapabilities").text
    assert "<ows:Title>For partners<" in text
    assert "<ows:ProviderName>Partner<" in text
    assert "/wmts/v/partner" in text
    assert "RGB_JPG" not in text
    assert "<Title>Maps<" in client.get("/wms/v/partner?SERVICE=WMS&REQUEST=GetCapabilities").text
    assert client.get("/partner/1.0.0/RGB_PNG/2/2/1.png").status_code == 200
    assert client.get("/partner/1.0.0/RGB_JPG/2/2/1.jpg").status_code == 404
    listed = client.get("/v/partner?f=xml").text
    assert "/v/partner" in listed
    assert "/ogcapi" not in listed
    assert "/v/partner" not in client.get("/?f=xml").text


@pytest.mark.parametrize(
    ("name", "section", "reason"),
    [
        ("Partner", {"layers": ["A"]}, "not a valid name"),
        ("partner", {}, "needs layers"),
        ("partner", {"layers": ["A"], "owner": "x"}, "unknown keys: owner"),
        ("partner", {"layers": ["A"], "services": {"wfs": {}}}, "not enabled: wfs"),
        ("partner", {"layers": ["A"], "services": {"wms": []}}, "an object of objects"),
        ("partner", {"layers": ["A"], "exclusive": 1}, "exclusive"),
        ("partner", {"layers": ["A"], "fee": 5}, "fee"),
    ],
)
def test_wrong_virtual_service_is_reported(
    tmp_path: Path, name: str, section: dict[str, Any], reason: str
) -> None:
    file = tiny_installation(tmp_path, services_overrides={"virtual": {name: section}})
    with pytest.raises(ConfigurationError, match=reason):
        create_application(str(file), Plugins())


def test_lines_of_tiles_say_who_asked(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mastaba.access")
    served = application(folder, gate())
    path = TILE.format("RGB_JPG", "jpg")
    for key, line in ((f"~{KEY}/", "key=id-of-mk class=all"), ("", "key=- class=-")):
        address = path.replace("/wmts/", f"/wmts/{key}")
        Client(served).get(address)
        caplog.clear()
        assert tile_of(served, address).status == 200
        assert f" {line} virtual=-" in caplog.text
        assert KEY not in caplog.text


def test_layer_named_like_the_place_of_virtual_services_is_left_out(tmp_path: Path) -> None:
    virtual = {"grey": {"layers": ["*"], "services": {"tms": {}}}}
    file = tiny_installation(tmp_path, services_overrides={"virtual": virtual})
    (tmp_path / "layers" / "RGB_PNG.json").rename(tmp_path / "layers" / "v.json")
    listed = tmp_path / "layers.txt"
    listed.write_text(listed.read_text().replace("/RGB_PNG.json", "/v.json"))
    catalogue = create_application(str(file)).site.catalogue
    assert "v" not in catalogue.layers
    assert catalogue.missing_layers == {"v"}


def test_a_view_that_is_being_made_stops_no_other(folder: Path) -> None:
    begun, go_on = threading.Event(), threading.Event()

    class SlowGate(KeyGate):
        def catalogue(self, tag: str, site: Site, virtual: str, service: str = "") -> Catalogue:
            if tag == "slow":
                begun.set()
                assert go_on.wait(60)
            return super().catalogue(tag, site, virtual, service)

    rights = {"": Rights(), "slow": Rights()}
    site = application(folder, SlowGate(classes=rights)).site
    made: list[Site] = []
    threads = [threading.Thread(target=lambda: made.append(site.view("slow"))) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert begun.wait(60)
    assert site.view("") is site.view("")
    go_on.set()
    for thread in threads:
        thread.join()
    assert made[0] is made[1]


def test_open_views_are_few_if_they_are_large(
    served: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    views, size = served.site.views, len(served.site.catalogue.layers)
    for most in (5, 2):
        monkeypatch.setattr("mastaba.services.views._MOST_LAYERS", most * (size + 230))
        for number in range(8):
            views._add((str(number), ""), served.site)
        assert list(views._open)[-most:] == [(str(number), "") for number in range(8 - most, 8)]
        assert len(views._open) == most


def test_an_eighth_of_the_views_is_closed_at_a_time(
    served: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time takes a collection, for which a request waits."""
    views, size = served.site.views, len(served.site.catalogue.layers)
    monkeypatch.setattr("mastaba.services.views._MOST_LAYERS", 16 * (size + 230))
    stayed: list[tuple[int, ...]] = []
    monkeypatch.setattr(views, "_open", {})
    monkeypatch.setattr(
        views, "closed", lambda: stayed.append(tuple(int(tag) for tag, _ in views._open))
    )
    for number in range(22):
        views._add((str(number), ""), served.site)
    assert stayed == [tuple(range(3, 17)), tuple(range(6, 20))]
    assert len(views._open) == 16


def test_closed_views_do_not_stay_in_memory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are cycles, and a process that allocates little collects none for long."""
    rights = {str(number): Rights(hidden=frozenset(("RGB_PNG",))) for number in range(40)}
    site = application(folder, KeyGate(classes={"": Rights(), **rights})).site
    size = len(site.catalogue.layers) + 230
    monkeypatch.setattr("mastaba.services.views._MOST_LAYERS", 16 * size)
    gc.disable()
    try:
        known = []
        for tag in rights:
            view = site.view(tag)
            assert view.services["tms"].site is not site
            known.append(weakref.ref(view))
            del view
    finally:
        gc.enable()
    assert sum(one() is not None for one in known) <= 16


def test_the_epochs_of_a_gate_end() -> None:
    gate = KeyGate(now=5)
    epochs = gate.epochs
    with pytest.raises(IndexError):
        epochs[1]
    assert list(epochs) == [5]
    assert 6 not in epochs
    gate.now = 6
    assert epochs[0] == epochs[-1] == 6
