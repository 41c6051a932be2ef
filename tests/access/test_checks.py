"""``mastaba access check`` finds planted mistakes; ``explain`` and ``matrix`` say what decides."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.access.conftest import MakeGate
from tests.access.identification.conftest import Credentials
from tests.forked import run

from mastaba.api.catalogue import Attribution
from mastaba.api.services import Site
from mastaba.errors import ConfigurationError
from mastaba_access.checks import findings

AREAS = {
    "far": {"wkt": "POLYGON((-170 -80, -169 -80, -169 -79, -170 -79, -170 -80))", "crs": "CRS:84"},
    "world": {"wkt": "POLYGON((-180 -85, 180 -85, 180 85, -180 85, -180 -85))", "crs": "CRS:84"},
}


def rule(**members: Any) -> dict[str, Any]:
    return {"name": members.pop("name", "one"), **members}


ENDPOINT = "http://localhost/wmts"
OPEN = rule(name="open", allow={})


def of(**what: Any) -> dict[str, Any]:
    return {"what": {name: [value] for name, value in what.items()}}


FORMATS = ["image/heic", "image/png", "image/jpeg"]
FAR = "the area 'far' is outside the layer"
PLANTED: dict[str, tuple[list[dict[str, Any]], str]] = {
    "a layer for nobody": ([rule(**of(layers="RGB_*"), allow={})], "nobody may see the layer 'GR"),
    "an unknown service": ([rule(**of(services="wfs"), deny={}), OPEN], "no service 'wfs' is"),
    "an unknown virtual": ([rule(**of(services="wms@x"), deny={}), OPEN], "no service 'wms@x'"),
    "an unknown layer": ([rule(**of(layers="NOPE"), deny={}), OPEN], "no layer matches 'NOPE'"),
    "an unknown keyword": ([rule(**of(layers="keyword:x"), deny={}), OPEN], "'keyword:x'"),
    "an unknown style": ([rule(**of(styles="x"), deny={}), OPEN], "no layer has the style 'x'"),
    "an unknown group": ([rule(who=["group:x"], deny={}), OPEN], "there is no group 'x'"),
    "nothing": ([rule(**of(services="tms", abilities="maps"), deny={}), OPEN], "never matches"),
    "a rule behind all": ([OPEN, rule(**of(layers="RGB_*"), deny={})], "the rule 'one' never"),
    "a limit behind an allow": ([OPEN, rule(limit={"pixels": 9})], "the limit 'one' never"),
    "referer alone": ([rule(who=["referer:*.org"], allow={}), OPEN], "anybody can send it"),
    "an address": ([rule(who=["address:10.0.0.0/8"], deny={}), OPEN], "without trusted_fronts"),
    "an area elsewhere": ([rule(limit={"area": "far"}), OPEN], FAR),
    "masked vectors": ([rule(limit={"area": "world"}), OPEN], "vector tiles that the edge"),
    "pixels of tiles": ([rule(**of(services="tms"), limit={"pixels": 9}), OPEN], "limits maps"),
    "tiles of maps": ([rule(**of(services="wms"), limit={"tiles": 9}), OPEN], "queries of heights"),
    "a format of nothing": ([rule(limit={"formats": FORMATS}), OPEN], "in the format image/heic"),
}


def texts(
    make_gate: MakeGate, site: Site, found: list[dict[str, Any]], **further: Any
) -> list[str]:
    document = {"default": "deny", "areas": AREAS, "rules": found}
    gate = make_gate(document, **further)
    return [str(fault) for fault in findings(gate, site)]


@pytest.mark.parametrize("name", PLANTED)
def test_planted_mistakes_are_found(name: str, make_gate: MakeGate, site: Site) -> None:
    found, expected = PLANTED[name]
    assert any(expected in text for text in texts(make_gate, site, found))


RATE = {"name": "slow", "per": "rule", "rate": 9}
OF_RATES: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown group": ({"who": ["group:x"]}, "$.rates[0].who: there is no group 'x'"),
    "an unknown key": ({"who": ["key:7f3k9q2d"]}, "$.rates[0].who: there is no key '7f3k9q2d'"),
    "an unknown label": ({"who": ["label:x"]}, "there is no key with the label 'x'"),
    "an unknown secret": ({"who": ["signed:x"]}, "no secret 'x' in the file of secrets"),
    "an address": ({"who": ["address:10.0.0.0/8"]}, "$.rates[0].who: without trusted_fronts"),
    "nothing": (of(services="tms", abilities="maps"), "the rate 'slow' never applies"),
    "an unknown layer": (of(layers="NOPE"), "no layer matches 'NOPE'"),
}


@pytest.mark.parametrize("name", OF_RATES)
def test_planted_mistakes_of_rates_are_found(name: str, make_gate: MakeGate, site: Site) -> None:
    members, expected = OF_RATES[name]
    gate = make_gate({"default": "deny", "rules": [OPEN], "rates": [{**RATE, **members}]})
    assert any(expected in str(one) for one in findings(gate, site))


def test_names_of_clients_that_exist_are_no_mistakes(
    make_gate: MakeGate, site: Site, tmp_path: Path
) -> None:
    credentials = Credentials(tmp_path)
    key = credentials.key(label="useful", groups=["town"])
    who = ["group:town", "label:useful", "signed:old", f"key:{key[3:11]}", "key:zz*"]
    document = {"default": "allow", "rules": [], "rates": [{**RATE, "who": who}]}
    gate = make_gate(document, **credentials.section())
    assert not any("there is no" in str(one) for one in findings(gate, site))


def test_names_in_the_grants_of_a_key_are_examined(
    make_gate: MakeGate, site: Site, tmp_path: Path
) -> None:
    credentials = Credentials(tmp_path)
    credentials.key(layers=["NOPE", "RGB_JPG"], services=["wfs"])
    found = texts(make_gate, site, [OPEN], **credentials.section())
    assert any("no layer matches 'NOPE' (correct its own grants)" in one for one in found)
    assert any("no service 'wfs' is enabled" in one for one in found)


def test_rules_without_mistakes_have_no_findings(make_gate: MakeGate, site: Site) -> None:
    limit = rule(what={"services": ["wms"]}, limit={"pixels": 4000000})
    assert texts(make_gate, site, [limit, OPEN]) == []


def test_areas_without_common_part_are_found(make_gate: MakeGate, site: Site) -> None:
    box = site.catalogue.layers["RGB_JPG"].geographic_bbox
    x, width = (box.xmin + box.xmax) / 2, box.xmax - box.xmin
    areas = {}
    for name, low, high in (("left", box.xmin, x - width / 9), ("right", x, box.xmax)):
        ring = f"{low} {box.ymin}, {high} {box.ymin}, {high} {box.ymax}, {low} {box.ymin}"
        areas[name] = {"wkt": f"POLYGON(({ring}))", "crs": "CRS:84"}
    limits = [rule(name=name, limit={"area": name}) for name in areas]
    gate = make_gate({"default": "allow", "areas": areas, "rules": limits})
    found = [str(fault) for fault in findings(gate, site)]
    assert any("the areas left, right have nothing of 'RGB_JPG' in common" in one for one in found)


def test_a_default_that_allows_needs_more_than_names(make_gate: MakeGate, site: Site) -> None:
    gate = make_gate({"default": "allow", "rules": [rule(what={"layers": ["RGB_JPG"]}, deny={})]})
    assert any("a layer that is renamed becomes public" in str(one) for one in findings(gate, site))


def test_keys_are_examined(make_gate: MakeGate, site: Site, tmp_path: Path) -> None:
    credentials = Credentials(tmp_path)
    credentials.user("anna", "x")
    credentials.key(until="2020-01-01")
    credentials.key(label="useful", groups=["town"])
    credentials.key(label="useless")
    town = rule(who=["group:town"], what={"layers": ["GREY_*"]}, allow={})
    public = rule(name="public", what={"layers": ["RGB_*"]}, allow={})
    found = texts(make_gate, site, [town, public], **credentials.section())
    assert sum("it has expired" in text for text in found) == 1
    assert sum("it opens nothing that is not public" in text for text in found) == 1
    assert any("passwords of HTTP Basic travel unencrypted" in text for text in found)


RULES = {
    "default": "deny",
    "rules": [
        {"name": "open", "what": {"layers": ["RGB_*", "NOPE"]}, "allow": {}},
        {
            "name": "shop",
            "who": ["anonymous"],
            "what": {"layers": ["GREY_PNG"]},
            "deny": {"as": "lock"},
        },
        {"name": "town", "who": ["group:town"], "allow": {"pixels": 5000}},
    ],
}


@pytest.fixture
def restricted(tiny: Path, tmp_path: Path) -> Path:
    """Return server.json of the tiny installation with rules."""
    server = json.loads(tiny.read_text())
    (tmp_path / "access.json").write_text(json.dumps(RULES))
    server["plugins"] = {"access": {"rules": str(tmp_path / "access.json")}}
    (tmp_path / "server.json").write_text(json.dumps(server))
    return tmp_path / "server.json"


def test_check_prints_findings(restricted: Path) -> None:
    for words in (("access", "check"), ("check",)):
        done = run(*words, "-f", str(restricted))
        assert "no layer matches 'NOPE'" in done.stdout
    (restricted.parent / "access.json").write_text("{}")
    for words in (("access", "check"), ("check",)):
        done = run(*words, "-f", str(restricted))
        assert done.returncode == 1
        assert "default" in done.stdout


def test_explain_names_the_rule_that_decides_and_what_failed(restricted: Path) -> None:
    url = "http://localhost/wms?SERVICE=WMS&REQUEST=GetMap&LAYERS=GREY_PNG"
    options = ("-f", str(restricted), url, "--json")
    locked = json.loads(run("access", "explain", *options).stdout)
    assert (locked["class"], locked["service"], locked["layers"]) == ("open", "wms", ["GREY_PNG"])
    maps = locked["decisions"][0]
    assert (maps["ability"], maps["decision"], maps["decided_by"]) == ("maps", "lock", "shop")
    assert [one["reason"] for one in maps["tried"]] == [
        "layers: RGB_*, NOPE",
        "",
        "who: group:town",
    ]
    town = ("--as", "user:anna", "--group", "town")
    allowed = json.loads(run("access", "explain", *options, *town).stdout)
    maps = allowed["decisions"][0]
    assert (maps["decision"], maps["decided_by"]) == ("allow", "town")
    assert maps["limits"] == {"pixels": 5000}
    assert allowed["cache"] == "private"


def test_matrix_is_csv(restricted: Path) -> None:
    lines = run("access", "matrix", "-f", str(restricted)).stdout.splitlines()
    assert lines[0] == "layer,service,ability,decision,limits"
    assert "GREY_PNG,wms,maps,lock," in lines
    assert "RGB_JPG,tms,tiles,allow," in lines


def _unused(credentials: Credentials) -> dict[str, Any]:
    key = credentials.key(groups=["town"])
    credentials.store.note_use(key[3:11], time.time() - 200 * 86400)
    credentials.store.close()
    return {}


def _readable(credentials: Credentials) -> dict[str, Any]:
    credentials.secrets.chmod(0o644)
    return {}


FURTHER: dict[str, tuple[Callable[[Credentials], dict[str, Any]], str]] = {
    "an unused key": (_unused, "it was not used for 180 days"),
    "a secret for all": (_readable, "secret_file"),
    "an area of nothing": (lambda _: {"limit": {"area": "gone"}}, "there is no area 'gone'"),
}


@pytest.mark.parametrize("name", FURTHER)
def test_further_planted_mistakes_are_found(
    name: str, make_gate: MakeGate, site: Site, tmp_path: Path
) -> None:
    plant, expected = FURTHER[name]
    credentials = Credentials(tmp_path)
    effect = plant(credentials) or {"allow": {}}
    try:
        found = texts(
            make_gate, site, [rule(who=["group:town"], **effect), OPEN], **credentials.section()
        )
    except ConfigurationError as error:
        # What cannot be used stops the start, and the check prints it.
        found = [str(fault) for fault in error.faults]
    assert any(expected in one for one in found), found


def test_links_to_the_server_itself_are_found(make_gate: MakeGate, site: Site) -> None:
    layer = site.catalogue.layers["RGB_JPG"]
    page = replace(layer, attribution=Attribution("x", f"{ENDPOINT}/page"))
    catalogue = replace(site.catalogue, layers={**site.catalogue.layers, "RGB_JPG": page})
    gate = make_gate({"default": "deny", "rules": [OPEN]})
    found = [str(one) for one in findings(gate, replace(site, catalogue=catalogue))]
    assert any("to which no credential is added" in one for one in found)
