"""Every address that the documents of all services lead to, asked by those who may not see it."""

from __future__ import annotations

import html
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.access.identification.conftest import Credentials
from tests.history.conftest import MIDDLE, OLD, history_of
from tests.history.test_values import write_history
from tests.series import series_installation
from tests.sizes import sized
from tests.support.everything import SERVICES, everything
from werkzeug.test import Client

from mastaba.api.catalogue import digest_of
from mastaba.api.tools import Application, create_application
from mastaba.plugins.manager import Plugins

HIDDEN, TITLE = "RGB_PNG", "a title that nobody may see"
YEARS = ("1950", "1975", "1999", "2023")
PAGES = {"Accept": "text/html"}
MOST_ADDRESSES, MOST_OF_A_KIND = sized((250, 1), (3000, 3))
DOCUMENTS = (
    *("/", "/?f=json", "/tms/1.0.0", "/ogcapi?f=json", "/ogcapi/api?f=json"),
    *("/ogcapi/collections?f=json", "/elevation", "/elevation/edr/collections", "/terrain"),
    *("/viewer", "/history", "/provenance", "/styles", "/export/processes", "/export/jobs"),
    *("/history/stac", "/healthcheck", "/metrics", "/usage", "/admin", "/auth/check"),
    *(f"/{name}?SERVICE={name}&REQUEST=GetCapabilities" for name in ("wms", "wmts", "wcs")),
)
OF_LAYER = (
    *("/tms/1.0.0/{}", "/tms/1.0.0/{}/metadata.json", "/tms/1.0.0/{}/2/2/1.png"),
    *("/wmts/1.0.0/{}/normal/PM/2/1/2.png", "/ogcapi/collections/{}?f=json", "/styles/{}.json"),
    *("/ogcapi/collections/{}/coverage?f=tiff", "/ogcapi/collections/{}/map?width=9&height=9"),
    *("/history/{}", "/history/{}/at", "/history/{}/feed.atom", "/history/{}/feed.json"),
    *("/history/stac/{}", "/history/stac/{}/items", "/history/stac/{};time=1950"),
    *(f"/history/{{}}/{OLD}", f"/history/{{}}/changes/{OLD}..{MIDDLE}", "/provenance/{}"),
    *("/viewer/{}", "/viewer/data/layers/{}.json", "/viewer/data/stored/{}/PM/3/2/4"),
    *("/viewer/compare/RGB_JPG/{}", "/viewer/data/requests/{}", "/usage/heat/{}"),
    *(f"/tms/1.0.0/{{}}~{OLD}/2/2/1.png", "/tms/1.0.0/{}~none", "/tms/1.0.0/{};time=1950"),
    "/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&LAYERS={}&STYLES=&CRS=EPSG:3857"
    "&BBOX=0,0,1000000,1000000&WIDTH=9&HEIGHT=9&FORMAT=image/png",
    "/wcs?SERVICE=WCS&VERSION=2.0.1&REQUEST=DescribeCoverage&COVERAGEID={}",
)


def prepare(installation: Path, *, is_absent: bool = False) -> None:
    """Give the hidden layer a past, a title and coverages, or leave it out."""
    pyramids, layers = installation / "pyramids", installation / "layers"
    current = digest_of(json.loads((pyramids / f"{HIDDEN}.json").read_text()))
    (pyramids / f"{HIDDEN}.history.json").write_text(json.dumps(history_of(current)))
    file = layers / f"{HIDDEN}.json"
    more = {"title": TITLE, "coverages": True, "wcs": {"enabled": True}}
    file.write_text(json.dumps(json.loads(file.read_text()) | more))
    if is_absent:
        listed = installation / "layers.txt"
        lines = listed.read_text().splitlines()
        listed.write_text("\n".join(one for one in lines if HIDDEN not in one))


def crawled(client: Client, starts: Iterable[str], headers: Mapping[str, str]) -> list[str]:
    """Return addresses that documents and pages lead to, of each kind a few."""
    found = dict.fromkeys(starts)
    waiting, kinds = list(found), Counter[str]()
    while waiting and len(found) < MOST_ADDRESSES:
        address = waiting.pop(0)
        for accepted in ({}, PAGES):
            answer = client.get(address, headers={**headers, **accepted})
            if answer.status_code >= 400 or b"\0" in answer.data:
                continue
            text = html.unescape(answer.data.decode("utf-8", "replace")).replace("\\/", "/")
            for one in re.findall(r'http://localhost(/[^"\'<>\s]*)', text):
                linked = re.sub(r"\{[^}]*\}", "2", one)
                kind = re.sub(r"\d+|RGBA?_[A-Z]+|GREYA?_[A-Z]+|FLOAT32_[A-Z]+", "#", linked)
                kinds[kind] += 1
                if linked not in found and kinds[kind] <= MOST_OF_A_KIND:
                    found[linked] = None
                    waiting.append(linked)
    return list(found)


@pytest.fixture(scope="module")
def credentials(tmp_path_factory: pytest.TempPathFactory) -> Credentials:
    return Credentials(tmp_path_factory.mktemp("credentials"))


def test_a_hidden_layer_is_as_one_that_never_existed(
    credentials: Credentials, tmp_path_factory: pytest.TempPathFactory
) -> None:
    rules = [
        {"name": "staff", "who": ["group:staff"], "allow": {}},
        {"name": "hidden", "what": {"layers": [HIDDEN]}, "deny": {}},
    ]
    applications: list[Application] = []
    for is_absent in (False, True):
        folder = tmp_path_factory.mktemp("everything")
        document = {"default": "allow", "rules": rules}
        made = partial(prepare, is_absent=is_absent)
        sections = {"ogcapi": {"enabled": True, "coverages": True}}
        application = everything(folder, credentials, document, services=sections, prepare=made)
        applications.append(application)
    # Some documents say since when they are valid.
    applications[1].site.started = applications[0].site.started
    whole, without = (Client(one, use_cookies=False) for one in applications)
    staff = {"X-API-Key": credentials.key(groups=["staff"])}
    starts = [*(one.format(HIDDEN) for one in OF_LAYER), *DOCUMENTS]
    other = {"X-API-Key": credentials.key(groups=["others"])}
    past = {"Accept-Datetime": "Mon, 02 Feb 2026 00:00:00 GMT"}
    shown = 0
    for address in crawled(whole, starts, staff):
        seen = whole.get(address, headers=staff)
        shown += HIDDEN.encode() in seen.data
        sent = [{}, PAGES, other, past, {"If-None-Match": seen.headers.get("ETag", "*")}]
        for headers in sent:
            for method in ("GET", "HEAD", "POST"):
                answers = [
                    client.open(address, method=method, headers=headers)
                    for client in (whole, without)
                ]
                text = answers[0].data + str(answers[0].headers).encode()
                assert TITLE.encode() not in text, (method, address, headers)
                assert HIDDEN in address or HIDDEN.encode() not in text, (method, address, headers)
                if HIDDEN in address:
                    first, second = (_whole(one) for one in answers)
                    assert first == second, (method, address, headers)
    assert shown > 20


def _whole(answer: Any) -> tuple[int, dict[str, str], bytes]:
    kept = {name: value for name, value in answer.headers.items() if name != "Date"}
    return answer.status_code, kept, answer.data


def test_virtual_services_name_no_other_layers(
    credentials: Credentials, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Nor does a key change that, which sees more of them than the public."""
    chosen = ["RGB_JPG", "FLOAT32_ZIP", "VECTOR"]
    kinds = Plugins().services
    viewed = [name for name in SERVICES if kinds[name].is_viewed and name not in ("root", "export")]
    virtual = {"p": {"layers": chosen, "services": {name: {} for name in viewed}}}
    rules = [
        {"name": "staff", "who": ["group:staff"], "allow": {}},
        {"name": "hidden", "what": {"layers": ["VECTOR"]}, "deny": {}},
    ]
    application = everything(
        tmp_path_factory.mktemp("virtual"),
        credentials,
        {"default": "allow", "rules": rules},
        services={"virtual": virtual, "ogcapi": {"enabled": True, "coverages": True}},
        prepare=prepare,
    )
    client = Client(application, use_cookies=False)
    others = application.site.catalogue.layers.keys() - chosen
    key = credentials.key(groups=["staff"])
    named: set[str] = set()
    for segment in ("", f"/~{key}"):
        roots = [f"{one}{segment}" for one in application.site.roots if one.endswith("/v/p")]
        assert len(roots) > len(viewed) - 2
        starts = [*roots, *(f"{one}?f=json" for one in roots)]
        starts += [
            f"{root}?SERVICE={name}&REQUEST=GetCapabilities"
            for root in roots
            if (name := root.split("/")[1]) in ("wms", "wmts", "wcs")
        ]
        starts += [f"/tms/v/p{segment}/1.0.0", f"/elevation/v/p{segment}/edr/collections"]
        starts += [f"/history/v/p{segment}/{HIDDEN}", f"/tms/v/p{segment}/1.0.0/{HIDDEN}~{OLD}"]
        for address in crawled(client, starts, {}):
            for headers in ({}, PAGES):
                answer = client.get(address, headers=headers)
                text = f"{answer.data.decode('utf-8', 'replace')} {answer.headers}"
                words = set(re.findall(r"[A-Z0-9_]{6,}", text))
                unseen = others if segment else {*others, "VECTOR"}
                assert not words & unseen - set(re.findall(r"[A-Z0-9_]{6,}", address)), address
                assert TITLE not in text, address
                assert application.site.mark not in text, address
                named |= words & set(chosen)
    assert named == set(chosen)


def test_times_outside_a_limit_are_nowhere(tmp_path: Path, credentials: Credentials) -> None:
    """In the main services and in a virtual one, without and with a key that sees other times."""
    services = ("wms", "wmts", "tms", "ogcapi", "wcs", "viewer", "stylesheets", "history")
    others = {"virtual": {"p": {"layers": ["ORTHO"], "services": {name: {} for name in services}}}}
    rules = [
        _limit(["anonymous"], ["1950", "1980"]),
        _limit(["group:later"], ["1999", "1999"]),
        {"name": "all", "allow": {}},
    ]
    (tmp_path / "rules.json").write_text(json.dumps({"default": "deny", "rules": rules}))
    access = {"rules": str(tmp_path / "rules.json"), **credentials.section()}
    file = series_installation(
        tmp_path / "series",
        [{"time": year} for year in YEARS],
        services=services,
        services_overrides=others,
        server_overrides={"plugins": {"access": access}},
        names={"template": "ORTHO_{time}", "listed": True},
        dimensions=[{"name": "time", "nearest": True}],
    )
    for number, year in enumerate(YEARS):
        write_history(tmp_path / f"series/pyramids/value_{number}.json", 5, f"flown in {year}")
    client = Client(create_application(str(file)), use_cookies=False)
    key = credentials.key(groups=["later"])
    for below in ("", "/v/p"):
        for segment, shown in (("", {"1950", "1975"}), (f"/~{key}", {"1999"})):
            start = below + segment
            starts = [f"/{name}{start}" for name in ("viewer", "styles", "ogcapi", "history")]
            starts += [f"/history{start}/{name}" for name in ("stac", "feed.atom", "ORTHO")]
            starts += [
                f"/{name}{start}?SERVICE={name}&REQUEST=GetCapabilities"
                for name in ("wms", "wmts", "wcs")
            ]
            for year in YEARS:
                starts += [f"/tms{start}/1.0.0/ORTHO;time={year}", f"/viewer{start}/ORTHO_{year}"]
                starts.append(f"/history{start}/ORTHO;time={year}/feed.json")
                starts.append(f"/ogcapi{start}/collections/ORTHO;time={year}?f=json")
                starts.append(f"/ogcapi{start}/collections/ORTHO_{year}?f=html")
            seen = set()
            for address in crawled(client, starts, {}):
                # Its examples are the same for everybody.
                if "/api" in address or start not in address:
                    continue
                for headers in ({}, PAGES):
                    answer = client.get(address, headers=headers)
                    assert answer.status_code < 500, address
                    text = re.sub(r"w3\.org/\d+", "", answer.data.decode("utf-8", "replace"))
                    found = {year for year in YEARS if re.search(rf"(?<![\d.]){year}(?!\d)", text)}
                    found -= set(re.findall(r"\d{4}", address))
                    assert b"\0" in answer.data or found <= shown, (address, found)
                    seen |= found
            assert seen & shown


def _limit(who: list[str], times: list[str]) -> dict[str, Any]:
    what = {"layers": ["ORTHO"]}
    return {"name": times[0], "who": who, "what": what, "limit": {"time": times}}
