"""The file of rules: what it may contain, and what is said about mistakes."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from mastaba.api.documents import Faults
from mastaba.errors import ConfigurationError
from mastaba_access.rules.file import load_rules
from mastaba_access.rules.periods import Hours, moment
from mastaba_access.rules.schema import ACCESS_SCHEMA

ABILITIES = {"wms": ("maps", "info", "legend"), "wmts": ("tiles", "info", "legend")}
SQUARE = "POLYGON((0 0, 1 0, 1 1, 0 1, 0 0))"


def problems(document: Any, folder: Path) -> list[str]:
    file = folder / "access.json"
    file.write_text(document if isinstance(document, str) else json.dumps(document))
    faults = Faults()
    try:
        load_rules(str(file), ABILITIES, faults)
    except ConfigurationError:
        assert faults.errors
    else:
        assert not faults.errors
    assert all(fault.remedy for fault in faults.errors)
    return [f"{fault.path}: {fault.reason}" for fault in faults.errors]


def rule(**members: Any) -> dict[str, Any]:
    return {"default": "deny", "rules": [{"name": "one", **members}]}


def area(**members: Any) -> dict[str, Any]:
    return {"default": "deny", "areas": {"a": members}}


FAULTS: dict[str, tuple[Any, str]] = {
    "not JSON": ("{", "$: is not valid JSON"),
    "no default": ({}, "$.default: is missing"),
    "another default": ({"default": "open"}, "$.default: cannot be"),
    "unknown key": ({"default": "deny", "rule": []}, "$.rule: unknown key"),
    "unknown key of a rule": (rule(allow={}, whom=[]), "$.rules[0].whom: unknown key"),
    "no effect": (rule(), "$.rules[0]: must have one of"),
    "two effects": (rule(allow={}, deny={}), "$.rules[0]: must have one of"),
    "unknown selector": (rule(who=["keys:1"], allow={}), "$.rules[0].who[0]: 'keys:1' is not"),
    "empty who": (rule(who=[], allow={}), "$.rules[0].who: must have at least"),
    "no value": (rule(who=["key:"], allow={}), "$.rules[0].who[0]: 'key:' has no value"),
    "not a network": (rule(who=["address:10.0.0"], allow={}), "'10.0.0' is not an address"),
    "claim without pattern": (rule(who=["claim:role"], allow={}), "claim:PATH=PATTERN"),
    "unknown ability": (rule(what={"abilities": ["look"]}, allow={}), "'look' is not an ability"),
    "styles allowed": (rule(what={"styles": ["x"]}, allow={}), "styles can only be hidden"),
    "styles locked": (rule(what={"styles": ["x"]}, deny={"as": "lock"}), "styles can only"),
    "status of a layer": (
        rule(what={"abilities": ["status"], "layers": ["A"]}, allow={}),
        "$.rules[0].what.layers: status and usage do not belong",
    ),
    "not a date": (rule(**{"from": "2026-11-01"}, allow={}), "$.rules[0].from: '2026-11-01' is"),
    "dates in disorder": (
        rule(**{"from": "2026-11-02T00:00:00Z", "until": "2026-11-01T00:00:00Z"}, deny={}),
        "$.rules[0].until: is not after",
    ),
    "not hours": (rule(hours="Mo-Fr 8-18", allow={}), "$.rules[0].hours: 'Mo-Fr 8-18' is not"),
    "unknown zone": (rule(hours="08:00-18:00 Europe/Atlantis", allow={}), "unknown time zone"),
    "no time": (rule(hours="08:00-08:00 UTC", allow={}), "contains no time"),
    "unknown day": (rule(hours="Mx 08:00-09:00 UTC", allow={}), "days are Mo"),
    "hour 25": (rule(hours="08:00-25:00 UTC", allow={}), "not a time of day"),
    "unknown area": (rule(allow={"area": "b"}), "$.rules[0].allow.area: there is no area 'b'"),
    "range in disorder": (rule(limit={"resolution": [5, 1]}), "nothing is within these limits"),
    "half a range": (rule(limit={"scale": [5]}), "$.rules[0].limit.scale: must have at least"),
    "a time": (rule(limit={"time": ["2020-01-01", "x"]}), "$.rules[0].limit.time: "),
    "a date": (rule(limit={"time": ["2020-02-31", ""]}), "$.rules[0].limit.time: "),
    "no times": (rule(limit={"time": ["2021", "2020"]}), "$.rules[0].limit: nothing is within"),
    "no pixels": (rule(limit={"pixels": 0}), "$.rules[0].limit.pixels: 0 is too small"),
    "area of an ability": (
        {
            **area(wkt=SQUARE, crs="CRS:84"),
            "rules": [{"name": "x", "what": {"abilities": ["maps"]}, "limit": {"area": "a"}}],
        },
        "$.rules[0].what.abilities: an area holds for all that the service 'wms' shows",
    ),
    "area without polygon": (area(), "$.areas.a: must have the key 'path'"),
    "WKT without CRS": (area(wkt=SQUARE), "$.areas.a: must have the key 'path'"),
    "unknown CRS": (area(wkt=SQUARE, crs="EPSG:999999"), "$.areas.a.crs"),
    "a line": (area(wkt="LINESTRING(0 0, 1 1)", crs="CRS:84"), "$.areas.a: is not an area"),
    "no such file": (area(path="gone.geojson"), "$: does not exist"),
    "same names": (
        {"default": "deny", "rules": [{"name": "x", "deny": {}}, {"name": "x", "allow": {}}]},
        "$.rules[1].name: the rule 1 has the same name",
    ),
    "a group in itself": (
        {"default": "deny", "groups": {"a": ["group:b"], "b": ["not:group:a"]}},
        "$.groups: the groups a → b → a contain each other",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_mistakes_are_reported_with_path_and_remedy(name: str, tmp_path: Path) -> None:
    document, expected = FAULTS[name]
    found = problems(document, tmp_path)
    assert any(expected in one for one in found), found


def test_all_mistakes_are_reported_at_once(tmp_path: Path) -> None:
    document = rule(who=["x"], hours="y", allow={})
    document["groups"] = {"g": ["z"]}
    assert len(problems(document, tmp_path)) == 3


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"gone\.yaml: \$: does not exist"):
        load_rules(str(tmp_path / "gone.yaml"), ABILITIES, Faults())


def test_schema_is_valid_and_describes_every_member() -> None:
    jsonschema.Draft202012Validator.check_schema(dict(ACCESS_SCHEMA))

    def check(node: Any) -> None:
        for member in node.get("properties", {}).values():
            assert member["description"]
            check(member)
            check(member.get("items", {}))

    check(ACCESS_SCHEMA)


@pytest.mark.parametrize(
    ("text", "when", "expected"),
    [
        ("Mo-Fr 08:00-18:00 Europe/Paris", "2026-11-25T07:00:00Z", True),
        ("Mo-Fr 08:00-18:00 Europe/Paris", "2026-11-25T06:59:59Z", False),
        ("Mo-Fr 08:00-18:00 Europe/Paris", "2026-11-25T17:00:00Z", False),
        ("Mo-Fr 08:00-18:00 Europe/Paris", "2026-07-22T06:00:00Z", True),
        ("Fr 22:00-06:00 UTC", "2026-11-28T05:59:59Z", True),
        ("Fr 22:00-06:00 UTC", "2026-11-27T05:59:59Z", False),
        ("Sa-Mo 00:00-24:00 UTC", "2026-11-23T23:59:59Z", True),
        ("Sa-Mo 00:00-24:00 UTC", "2026-11-24T00:00:00Z", False),
        ("23:00-24:00 UTC", "2026-11-24T23:30:00Z", True),
    ],
)
def test_hours(text: str, when: str, expected: bool) -> None:
    assert Hours.parse(text).holds(moment(when)) is expected


def test_hours_change_when_the_clock_is_set() -> None:
    """On 25 October 2026 the hour from 2 to 3 is repeated in Paris."""
    hours = Hours.parse("So 02:30-03:00 Europe/Paris".replace("So", "Su"))
    at, changes = moment("2026-10-24T22:00:00Z"), []
    end = moment("2026-10-25T03:00:00Z")
    while at < end:
        before, at = hours.holds(at), hours.next_change(at)
        if at < end and hours.holds(at) is not before:
            changes.append(datetime.fromtimestamp(at, UTC).strftime("%H:%M"))
    assert changes == ["00:30", "01:00", "01:30", "02:00"]
