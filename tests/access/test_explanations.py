"""Explanations agree with an independent evaluator, and with what the server answers."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from tests.access import evaluator
from tests.access.identification.conftest import Credentials
from tests.access.test_decisions import INDEX, visits
from tests.access.worlds import DATASETS, LAYERS, SERVICES, World
from tests.support.everything import everything
from tests.tiny import tiny_installation
from werkzeug.test import Client

from mastaba.api.tools import create_application
from mastaba.errors import MastabaError
from mastaba_access.explanation import explain, explained, matrix, principal_named
from mastaba_access.gate import RulesGate
from mastaba_access.rules.who import Visit
from mastaba_access.shown import layers_of
from mastaba_access.views import ViewMaker


def compare(seed: int, triples: int, folder: Path) -> None:
    """Compare explanations of random questions with the evaluator."""
    world, decisions = World(seed), set()
    for number, visit in enumerate(visits(world, triples, folder)):
        document, rules, seen, at, found, service, virtual = visit
        ability, layer = world.random.choice(SERVICES[service]), world.random.choice(LAYERS)
        question = (service, virtual, ability, str(layer["id"]))
        ours = explain(rules, found, seen.visit, at, INDEX, question)
        expected, limits = evaluator.evaluate(
            *(document, seen.document, at, service, virtual, layer, ability, None, DATASETS)
        )
        assert ours.decision == expected, (seed, number, question)
        decisions.add(expected)
        for name in evaluator.NUMBERS:
            assert ours.limits.get(name) == limits.get(name)
        # Exactly the rules that are said to apply decide: without the others nothing changes.
        applying = {one.rule for one in ours.tried if one.applies}
        left = [one for one in document["rules"] if one["name"] in applying]
        again, _ = evaluator.evaluate(
            *({**document, "rules": left}, seen.document, at, service, virtual, layer),
            *(ability, None, DATASETS),
        )
        assert again == expected, (seed, number, question)
    assert decisions == {"allow", "hide", "lock"}


def test_explanations_equal_the_evaluator(tmp_path: Path) -> None:
    compare(21, 300, tmp_path)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(22, 32))
def test_ten_thousand_explanations_equal_the_evaluator(seed: int, tmp_path: Path) -> None:
    compare(seed, 1000, tmp_path)


def test_what_everybody_is_refused_is_said(tmp_path: Path) -> None:
    """A segment for a credential leads to nothing that is for operators, whoever asks."""
    credentials = Credentials(tmp_path)
    application = everything(tmp_path, credentials)
    client, site, gate = Client(application), application.site, application.site.gate
    assert isinstance(gate, RulesGate)
    key = credentials.key(groups=["operators"])
    visit = Visit(principal_named(gate, key, (), ""))
    for service, path in (
        ("metrics", "/~{}/metrics"),
        ("metrics", "/metrics/~{}"),
        ("health", "/~{}/healthcheck/info"),
        ("admin", "/admin/~{}/layers"),
        ("auth", "/~{}/auth/check"),
    ):
        url = path.format(key)
        assert client.get(url).status_code == 404
        with pytest.raises(MastabaError, match=rf"^{service} takes no credential .* is 404"):
            explained(gate, site, url, visit, 2e9)
        # The segment alone is what is refused.
        assert explained(gate, site, url.replace(f"/~{key}", ""), visit, 2e9) is not None
    for url in ("/wms//x", "/tms/~a/~b", "/tms/1.0.0/%2F"):
        assert client.get(url).status_code == 400
        with pytest.raises(MastabaError, match="is 400"):
            explained(gate, site, url, visit, 2e9)
    for service, path in (
        ("wms", "/~{}/wms"),
        ("wms", "/wms/~{}?x"),
        ("wms", "https://maps.example.org/wms/~{}"),
        ("auth", "/auth/~{}/session"),
        ("root", "/~{}"),
    ):
        found = explained(gate, site, path.format(key), visit, 2e9)
        assert found is not None
        assert found["service"] == service


@pytest.mark.parametrize(
    ("what", "deny", "decision", "by", "status"),
    [
        ({"services": ["history"]}, {}, "hide", "rule", 404),
        ({"services": ["provenance"]}, {}, "allow", "what other services show", 200),
        ({}, {}, "hide", "what other services show", 404),
        ({"services": ["history"]}, {"as": "lock"}, "lock", "rule", 200),
    ],
)
def test_services_without_abilities_are_explained(
    what: dict[str, Any], deny: dict[str, Any], decision: str, by: str, status: int, tmp_path: Path
) -> None:
    rule = {"name": "rule", "what": {**what, "layers": ["RGB_PNG"]}, "deny": deny}
    document = {"default": "allow", "rules": [rule]}
    application = everything(tmp_path, Credentials(tmp_path), document)
    site, gate = application.site, application.site.gate
    assert isinstance(gate, RulesGate)
    visit = Visit(principal_named(gate, "anonymous", (), ""))
    found = explained(gate, site, "/history/RGB_PNG", visit, 2e9)
    assert found is not None
    (one,) = found["decisions"]
    assert (one["decision"], one["decided_by"]) == (decision, by)
    assert Client(application).get("/history/RGB_PNG").status_code == status


@pytest.mark.parametrize(
    ("address", "rule", "decisions", "status"),
    [
        # Only the main services show the layer: tms does not in the virtual service.
        (
            "/history/v/p/RGB_PNG",
            {"services": ["tms@p"]},
            [("hide", "what other services show")],
            404,
        ),
        ("/history/RGB_PNG", {"services": ["tms@p"]}, [("allow", "what other services show")], 200),
        (
            "/history/v/p/RGB_PNG",
            {"services": ["wmts"]},
            [("allow", "what other services show")],
            200,
        ),
        ("/history/v/p/RGB_PNG", {"services": ["history@p"]}, [("hide", "rule")], 404),
        # The virtual service does not have the layer.
        ("/history/v/p/RGB_JPG", {"services": ["wmts"]}, [], 404),
        ("/tms/v/p/1.0.0/RGB_JPG", {"services": ["wmts"]}, [], 404),
        ("/tms/v/p/1.0.0/RGB_PNG", {"services": ["tms"]}, [("allow", "default")], 200),
    ],
)
def test_virtual_services_are_explained(
    address: str,
    rule: dict[str, Any],
    decisions: list[tuple[str, str]],
    status: int,
    tmp_path: Path,
) -> None:
    denied = {"name": "rule", "what": {**rule, "layers": ["RGB_PNG"]}, "deny": {}}
    virtual = {"p": {"layers": ["RGB_PNG"], "services": {"tms": {}, "history": {}}}}
    document = {"default": "allow", "rules": [denied]}
    application = everything(
        tmp_path, Credentials(tmp_path), document, services={"virtual": virtual}
    )
    site, gate = application.site, application.site.gate
    assert isinstance(gate, RulesGate)
    visit = Visit(principal_named(gate, "anonymous", (), ""))
    found = explained(gate, site, address, visit, 2e9)
    assert found is not None
    assert found["virtual"] == ("p" if "/v/p" in address else "")
    assert found["layers"] == ["RGB_PNG"] * len(decisions)
    assert [(one["decision"], one["decided_by"]) for one in found["decisions"]] == decisions
    assert Client(application).get(address).status_code == status


NAMES = {"RGB_JPG": "jpg", "RGB_PNG": "png", "GREY_PNG": "png"}
MAP = (
    "SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&LAYERS={1}&STYLES=&FORMAT=image/png&CRS=EPSG:3857"
    "&BBOX=0,0,1000000,1000000&WIDTH=8&HEIGHT=8"
)
ADDRESSES = {
    ("wmts", "tiles"): "/wmts{}/1.0.0/{}/normal/PM/2/1/2.{}",
    ("tms", "tiles"): "/tms{}/1.0.0/{}/2/2/1.{}",
    ("wms", "maps"): "/wms{0}?" + MAP,
    ("wms", "info"): "/wms{0}?"
    + MAP.replace("GetMap", "GetFeatureInfo&QUERY_LAYERS={1}&I=3&J=3&INFO_FORMAT=text/plain"),
    ("wms", "legend"): "/wms{}?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetLegendGraphic&LAYER={}"
    "&FORMAT=image/png",
}
AREAS = {"far": {"wkt": "POLYGON((-60 -40, -50 -40, -50 -30, -60 -30, -60 -40))", "crs": "CRS:84"}}
LIMITS: list[dict[str, Any]] = [
    {"pixels": 99},
    {"area": "far"},
    {"resolution": [0, 1]},
    {"formats": ["image/jpeg"]},
]


@pytest.mark.parametrize(
    ("services", "ability", "limit"),
    [
        (["wms"], "maps", {"pixels": 99}),
        (["wms"], "info", {"width": 9}),
        (["wmts"], "info", {"resolution": [25_000, 1e9]}),
        (["wmts"], "tiles", {"scale": [1e8, 1e9]}),
        (["wms", "wmts"], "legend", {"pixels": 99, "resolution": [25_000, 1e9]}),
    ],
)
def test_limits_of_one_ability_are_those_that_the_server_applies_to_others(
    services: list[str], ability: str, limit: dict[str, Any], tmp_path: Path
) -> None:
    """Sizes of maps also to other layers: a view has one limit for all maps."""
    what = {"services": services, "abilities": [ability], "layers": ["RGB_PNG"]}
    document = {"default": "allow", "rules": [{"name": "rule", "what": what, "limit": limit}]}
    application = everything(tmp_path, Credentials(tmp_path), document, prepare=enable_feature_info)
    client, site, gate = Client(application), application.site, application.site.gate
    assert isinstance(gate, RulesGate)
    visit = Visit(principal_named(gate, "anonymous", (), ""))

    def limits(url: str, word: str) -> dict[str, Any]:
        found = explained(gate, site, url, visit, 2e9)
        assert found is not None
        (one,) = (one for one in found["decisions"] if one["ability"] == word)
        cell = {"layer": one["layer"], "service": found["service"], "ability": word}
        (row,) = (row for row in matrix(gate, visit, 2e9, site) if cell.items() <= row.items())
        assert row["limits"] == "; ".join(f"{key}={value}" for key, value in one["limits"].items())
        return dict(one["limits"])

    for layer in ("RGB_PNG", "RGB_JPG"):
        for word in ("maps", "info"):
            url = ADDRESSES["wms", word].format("", layer).replace("WIDTH=8", "WIDTH=13")
            held = limits(url, word)
            is_within = held.get("pixels", 104) >= 104 and held.get("width", 13) >= 13
            assert client.get(url).status_code == (200 if is_within else 400), (word, held)
        # Level 2 has pixels of about 39 km, level 3 of 20 km.
        held = limits(ADDRESSES["wmts", "tiles"].format("", layer, NAMES[layer]), "tiles")
        is_within = held.keys().isdisjoint(("resolution", "scale"))
        url = f"/wmts/1.0.0/{layer}/normal/PM/3/2/4.{NAMES[layer]}"
        assert (client.get(url).status_code == 200) is is_within, held
        assert is_within is (layer == "RGB_JPG" or services == ["wms"] or ability == "legend")


def test_limits_of_sizes_are_shown_where_they_apply(tmp_path: Path) -> None:
    sizes = {"pixels": 99, "width": 98, "height": 97, "layers": 2, "points": 3, "tiles": 4}
    document = {"default": "allow", "rules": [{"name": "rule", "limit": sizes}]}
    limits = {"points": 100, "tiles": 100}
    services = {
        "elevation": {"enabled": True, "limits": limits},
        "terrain": {"enabled": True, "limits": {"tiles": 100}},
        # Tiles of an answer, which no rule limits.
        "wcs": {"enabled": True, "limits": {"tiles": 100}},
    }
    application = everything(tmp_path, Credentials(tmp_path), document, services=services)
    gate = application.site.gate
    assert isinstance(gate, RulesGate)
    visit = Visit(principal_named(gate, "anonymous", (), ""))
    rows = matrix(gate, visit, 2e9, application.site)
    shown = {(row["service"], row["ability"]): row["limits"] for row in rows}
    of_map = "pixels=99; width=98; height=97"
    assert shown["wms", "maps"] == shown["wms", "info"] == f"{of_map}; layers=2"
    assert shown["ogcapi", "maps"] == f"{of_map}; layers=2"
    assert shown["wcs", "coverages"] == shown["ogcapi", "coverages"] == of_map
    assert shown["elevation", "heights"] == "points=3; tiles=4"
    assert shown["terrain", "terrain"] == "tiles=4"
    for place in (("wmts", "tiles"), ("wmts", "info"), ("ogcapi", "tiles"), ("wms", "legend")):
        assert shown[place] == ""
    assert shown["viewer", "pages"] == shown["tms", "tiles"] == ""
    whole = application.site.views.whole("")
    maker = ViewMaker(gate.class_of(visit, 2e9), layers_of(whole.catalogue), whole, "", {})
    for name, tiles in (("elevation", 4), ("terrain", 4), ("wcs", 100)):
        assert maker.view(name).services[name].own["limits"]["tiles"] == tiles


def enable_feature_info(installation: Path) -> None:
    for layer in NAMES:
        descriptor = installation / "layers" / f"{layer}.json"
        document = json.loads(descriptor.read_text())
        descriptor.write_text(json.dumps({**document, "get_feature_info": {"type": "PYRAMID"}}))


def random_rules(source: random.Random, keys: list[str]) -> dict[str, Any]:
    whos = ["anonymous", "known", "group:town", *(f"key:{one[3:11]}" for one in keys)]
    rules = []
    for number in range(source.randint(0, 6)):
        rule: dict[str, Any] = {"name": f"rule {number}"}
        if source.random() < 0.7:
            rule["who"] = [source.choice(("", "not:")) + source.choice(whos)]
        what: dict[str, Any] = {}
        if source.random() < 0.7:
            what["layers"] = source.sample(["RGB_*", *NAMES], 2)
        if source.random() < 0.4:
            what["services"] = source.sample(["wmts", "tms", "wms"], 2)
        limit = source.choice(LIMITS)
        if source.random() < 0.3 and "area" not in limit:
            what["abilities"] = source.sample(["tiles", "maps", "info", "legend"], 2)
        effects = [{"allow": {}}, {"deny": {}}, {"deny": {"as": "lock"}}, {"limit": limit}]
        rules.append({**rule, **({"what": what} if what else {}), **source.choice(effects)})
    return {"default": source.choice(("allow", "deny")), "rules": rules}


def answers(worlds: int, seed: int, folder: Path) -> None:
    """Compare explanations with the statuses of the server."""
    source, credentials = random.Random(seed), Credentials(folder)
    keys = [credentials.key(groups=groups) for groups in ([], ["town"], ["city"])]
    rules = folder / "rules.json"
    rules.write_text('{"default": "allow"}')
    plugins = {"access": credentials.section(rules=str(rules))}
    services = ("wmts", "tms", "wms")
    file = tiny_installation(folder / "i", services=services, server_overrides={"plugins": plugins})
    enable_feature_info(folder / "i")
    application = create_application(str(file))
    client, site, gate = Client(application), application.site, application.site.gate
    assert isinstance(gate, RulesGate)
    statuses = set()
    for number in range(worlds):
        rules.write_text(json.dumps({**random_rules(source, keys), "groups": {}, "areas": AREAS}))
        gate.poll()
        for key in ("", *keys):
            principal = principal_named(gate, key or "anonymous", (), "127.0.0.1")
            for (service, ability), template in ADDRESSES.items():
                for layer, ending in NAMES.items():
                    url = template.format("", layer, ending)
                    shown = f"/~{key}" if key else ""
                    visit = Visit(principal, "127.0.0.1")
                    found = explained(gate, site, url, visit, 2e9)
                    assert found is not None
                    (one,) = (x for x in found["decisions"] if x["ability"] == ability)
                    answer = client.get(template.format(shown, layer, ending))
                    if b"InvalidFormat" in answer.data:
                        continue  # of the maps of this or another layer
                    status = answer.status_code
                    expected = {
                        "allow": (200,),
                        "lock": (403,) if key else (401,),
                        "hide": (400, 404),
                    }[one["decision"]]
                    assert status in expected, (seed, number, service, layer, key, one)
                    statuses.add(one["decision"])
                    cell = {"layer": layer, "service": service, "ability": ability}
                    (row,) = (
                        x for x in matrix(gate, visit, 2e9, site) if cell.items() <= x.items()
                    )
                    assert row["decision"] == one["decision"], (seed, number, cell)
    assert statuses == {"allow", "lock", "hide"}


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(4))
def test_explanations_equal_the_answers_of_the_server(seed: int, tmp_path: Path) -> None:
    answers(15, seed, tmp_path)
