"""The gate: grants, places, changes of rules and keys."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.access.conftest import MakeGate
from tests.access.identification.conftest import Credentials
from tests.tiny import tiny_installation
from werkzeug.test import Client

from mastaba.api.access import Form, Grant, Principal, Shown
from mastaba.api.services import Site
from mastaba.api.tools import create_application
from mastaba.errors import (
    AccessError,
    ConfigurationError,
    OverloadedError,
    RestrictedCredentialError,
    UnknownCredentialError,
)
from mastaba_access.auth.signing import NotAllowedError
from mastaba_access.gate import RulesGate
from mastaba_server.processes.scoreboard import Obstacle

RULES: dict[str, Any] = {
    "default": "deny",
    "rules": [
        {"name": "open", "what": {"layers": ["RGB_JPG"]}, "allow": {}},
        {"name": "town", "who": ["group:town"], "what": {"layers": ["GREY_*"]}, "allow": {}},
        {"name": "ops", "who": ["label:ops"], "what": {"abilities": ["status"]}, "allow": {}},
    ],
}


@pytest.fixture
def credentials(tmp_path: Path) -> Credentials:
    return Credentials(tmp_path)


def grant(gate: RulesGate, key: str | None = None, form: Form = Form.PATH, **headers: str) -> Grant:
    address = headers.setdefault("REMOTE_ADDR", "192.0.2.1")
    return gate.grant([] if key is None else [Shown(form, key)], headers, address)


def layers(gate: RulesGate, site: Site, found: Grant) -> set[str]:
    return set(gate.catalogue(found.tag, site, "", "wmts").layers)


def test_a_section_without_rules_fails(site: Site) -> None:
    with pytest.raises(ConfigurationError, match="nothing says who may see what"):
        RulesGate(site, {})


def test_addresses_without_a_place_for_credentials_are_refused(
    make_gate: MakeGate, site: Site
) -> None:
    whole = site.catalogue
    layer, readers = whole.layers["RGB_PNG"], whole.readers["RGB_PNG"]
    service = replace(whole.services["wmts"], endpoint_uri="http://maps.example/wmts?map=x")
    try:
        site.catalogue = replace(whole, layers={"~x": layer}, readers={"~x": readers})
        with pytest.raises(ConfigurationError, match="layer ~x begins like a credential"):
            make_gate(RULES)
        site.catalogue = replace(whole, services={**whole.services, "wmts": service})
        with pytest.raises(ConfigurationError, match="endpoint_uri of wmts has a query"):
            make_gate(RULES)
    finally:
        site.catalogue = whole


def test_grants_of_a_class_share_a_tag(
    make_gate: MakeGate, credentials: Credentials, site: Site
) -> None:
    gate = make_gate(RULES, **credentials.section())
    public = grant(gate)
    assert (public.principal.id, public.tag, public.is_restricted) == ("anonymous", "", False)
    assert layers(gate, site, public) == {"RGB_JPG"}
    one, other, stranger = (
        grant(gate, credentials.key(groups=groups)) for groups in (["town"], ["town"], [])
    )
    assert one.tag == other.tag != ""
    assert one.in_addresses
    assert one.is_restricted
    assert layers(gate, site, one) == {"RGB_JPG", "GREY_PNG"}
    # A key without rules sees what everybody sees.
    assert (stranger.tag, stranger.is_restricted) == ("", False)
    assert not grant(gate, credentials.key(), Form.HEADER).in_addresses


def test_unknown_credentials_are_refused_and_counted(
    make_gate: MakeGate, credentials: Credentials
) -> None:
    gate = make_gate(RULES, **credentials.section())
    for _ in range(31):
        with pytest.raises(UnknownCredentialError):
            grant(gate, "mk_nonsense")
    with pytest.raises(AccessError) as caught:
        grant(gate, credentials.key())
    assert caught.value.status == 429
    # Others, and requests without credentials from there, are answered.
    assert grant(gate).tag == ""
    assert grant(gate, credentials.key(), REMOTE_ADDR="192.0.2.2").tag == ""


def test_a_key_that_was_valid_counts_once_a_minute(
    make_gate: MakeGate, credentials: Credentials
) -> None:
    revoked = [credentials.key(revoked=1.0) for _ in range(31)]
    gate = make_gate(RULES, **credentials.section())
    valid = credentials.key()
    for text in [revoked[0]] * 100 + revoked[1:30]:
        with pytest.raises(UnknownCredentialError):
            grant(gate, text)
    assert not grant(gate, valid).principal.is_anonymous
    # The 31st of them is one too many.
    with pytest.raises(UnknownCredentialError):
        grant(gate, revoked[30])
    with pytest.raises(AccessError) as caught:
        grant(gate, valid)
    assert caught.value.status == 429


def test_forms_without_identifier_and_empty_credentials_are_none(make_gate: MakeGate) -> None:
    gate = make_gate(RULES)
    assert grant(gate, "whatever", Form.BASIC).principal.is_anonymous
    gate = make_gate(RULES)
    assert grant(gate, "", Form.QUERY).principal.is_anonymous


def test_keys_are_restricted_to_addresses_and_pages(
    make_gate: MakeGate, credentials: Credentials
) -> None:
    gate = make_gate(RULES, **credentials.section())
    key = credentials.key(groups=["town"], addresses=["10.0.0.0/8"], referers=["*.example.org"])
    page = "https://maps.example.org/a"
    found = grant(gate, key, REMOTE_ADDR="10.1.1.1", HTTP_REFERER=page)
    assert found.narrow is not None
    inside = {"REMOTE_ADDR": "10.9.9.9", "HTTP_REFERER": page}
    assert found.narrow(inside) is found.narrow(inside)
    assert found.narrow(inside).tag == found.tag
    for refused in ({**inside, "REMOTE_ADDR": "192.0.2.1"}, {"REMOTE_ADDR": "10.1.1.1"}):
        with pytest.raises(RestrictedCredentialError):
            found.narrow(refused)


def test_rules_by_address_narrow_the_grant_of_the_public(make_gate: MakeGate, site: Site) -> None:
    inside = {"name": "office", "who": ["address:10.0.0.0/8"], "allow": {}}
    gate = make_gate({"default": "deny", "rules": [inside]})
    public = grant(gate)
    assert public.narrow is not None
    assert layers(gate, site, public) == set()
    office = public.narrow({"REMOTE_ADDR": "10.2.3.4"})
    assert layers(gate, site, office) == set(site.catalogue.layers)
    assert public.narrow({"REMOTE_ADDR": "192.0.2.9"}).tag == ""


def test_changed_rules_hold_without_a_reload(
    make_gate: MakeGate, site: Site, tmp_path: Path
) -> None:
    gate = make_gate(RULES)
    before = grant(gate)
    assert not gate.poll()
    changed = {"default": "allow", "rules": []}
    (tmp_path / "access.json").write_text(json.dumps(changed))
    assert gate.poll()
    assert gate.epoch > before.epoch
    assert layers(gate, site, grant(gate)) == set(site.catalogue.layers)
    assert not gate.poll()


def test_faulty_rules_keep_those_before_them_and_show_in_health(
    make_gate: MakeGate, site: Site, tmp_path: Path
) -> None:
    gate = make_gate(RULES)
    file = tmp_path / "access.json"
    file.write_text('{"default": "open"}')
    assert not gate.poll()
    assert layers(gate, site, grant(gate)) == {"RGB_JPG"}
    assert Obstacle.RULES in site.scoreboard.obstacles
    # Also a whole reload, which opens another gate.
    again = RulesGate(site, {"rules": str(file)})
    assert layers(again, site, grant(again)) == {"RGB_JPG"}
    file.write_text(json.dumps(RULES))
    gate.poll()
    assert Obstacle.RULES not in site.scoreboard.obstacles


@pytest.mark.parametrize("text", [None, '{"type": "Poly'], ids=["missing", "half written"])
def test_an_area_that_comes_after_its_rule_is_read(
    make_gate: MakeGate, site: Site, tmp_path: Path, text: str | None
) -> None:
    gate = make_gate(RULES)
    area = tmp_path / "area.geojson"
    if text is not None:
        area.write_text(text)
    rules = {"default": "allow", "areas": {"town": {"path": area.name}}, "rules": []}
    (tmp_path / "access.json").write_text(json.dumps(rules))
    assert not gate.poll()
    assert Obstacle.RULES in site.scoreboard.obstacles
    assert not gate.poll()
    ring = [[2, 48], [3, 48], [3, 49], [2, 48]]
    area.write_text(json.dumps({"type": "Polygon", "coordinates": [ring]}))
    assert gate.poll()
    assert Obstacle.RULES not in site.scoreboard.obstacles
    assert layers(gate, site, grant(gate)) == set(site.catalogue.layers)


SUSPENDED = ["claim:suspended=true"]


@pytest.mark.parametrize(
    ("more", "may_sign"),
    [
        ({"rules": [{"name": "x", "who": ["claim:role=editor"], "allow": {}}]}, True),
        ({"rules": [{"name": "x", "who": ["not:group:town"], "allow": {}}]}, True),
        ({"rules": [{"name": "x", "who": SUSPENDED, "deny": {}}]}, False),
        ({"rules": [{"name": "x", "who": SUSPENDED, "limit": {"pixels": 9}}]}, False),
        ({"rules": [{"name": "x", "who": SUSPENDED, "allow": {"pixels": 9}}]}, False),
        ({"rules": [{"name": "x", "who": ["not:claim:suspended=true"], "allow": {}}]}, False),
        (
            {
                "groups": {"bad": SUSPENDED},
                "rules": [{"name": "x", "who": [["known", "not:group:bad"]], "allow": {}}],
            },
            False,
        ),
        ({"rates": [{"name": "x", "who": SUSPENDED, "per": "user", "rate": 1}]}, False),
    ],
)
def test_what_is_signed_escapes_no_rule_about_claims(
    make_gate: MakeGate, credentials: Credentials, more: dict[str, Any], may_sign: bool
) -> None:
    """Neither addresses nor sessions have the claims of the token."""
    gate = make_gate({"default": "allow", **more}, **credentials.section())
    anna = Principal("anna", "user", claims={"suspended": True}, is_strong=True)
    for principal, is_signed in ((anna, may_sign), (replace(anna, claims={}), True)):
        found = gate._grants._placed(principal, {}, "", in_addresses=False, epoch=0)
        assert found.may_sign == is_signed
        if is_signed:
            assert gate.signed(found).startswith("s1.")
        else:
            with pytest.raises(NotAllowedError):
                gate.signed(found)


def test_a_signed_address_has_no_abilities_of_its_issuer(make_gate: MakeGate) -> None:
    abilities = {"abilities": ["status"]}
    rule = {"name": "x", "who": ["user:anna"], "what": abilities, "allow": {}}
    gate = make_gate({"default": "allow", "rules": [rule]})
    anna = Principal("anna", "user")
    for principal, expected in (
        (anna, {"status"}),
        (Principal("main", "signed", issuer=anna), set()),
    ):
        found = gate._grants._placed(principal, {}, "", in_addresses=False, epoch=0)
        assert found.abilities == expected


def test_an_identifier_that_fails_does_not_end_the_looking(
    make_gate: MakeGate, credentials: Credentials, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = credentials.key()
    gate = make_gate(RULES, **credentials.section())
    grant(gate, key)

    def fail() -> bool:
        raise ZeroDivisionError

    for name in ("basic", "front"):
        monkeypatch.setattr(gate.identifiers[name], "poll", fail)
    assert not gate.poll()
    epoch = gate.epoch
    record = credentials.store.find(key[3:11])
    assert record is not None
    credentials.store.save([replace(record, revoked=1.0)], "revoked")
    assert gate.poll()
    assert gate.epoch > epoch


def test_revoked_keys_end_with_the_next_poll(make_gate: MakeGate, credentials: Credentials) -> None:
    gate = make_gate(RULES, **credentials.section())
    key = credentials.key(groups=["town"])
    found = grant(gate, key)
    gate.poll()
    (record,) = credentials.store.records()
    credentials.store.save([replace(record, revoked=1.0)], "revoked")
    assert gate.poll()
    assert gate.epoch > found.epoch
    with pytest.raises(UnknownCredentialError):
        grant(gate, key)


def test_processes_share_the_epoch(make_gate: MakeGate) -> None:
    gate = make_gate(RULES)
    child = os.fork()
    if child == 0:
        gate.raise_epoch()
        os._exit(0)
    os.waitpid(child, 0)
    assert gate.epoch == 1


def test_abilities_without_layers_must_be_named(
    make_gate: MakeGate, credentials: Credentials
) -> None:
    gate = make_gate(RULES, **credentials.section())
    assert grant(gate, credentials.key(label="ops")).abilities == {"status"}
    assert not grant(gate, credentials.key(groups=["town"])).abilities
    everything = make_gate({"default": "allow", "rules": [{"name": "all", "allow": {}}]})
    assert not grant(everything).abilities


def test_an_unknown_class_is_an_overload_not_a_view(make_gate: MakeGate, site: Site) -> None:
    with pytest.raises(OverloadedError):
        make_gate(RULES).catalogue("0123456789ab", site, "", "wmts")


def test_basic_is_offered_to_those_who_can_ask(
    make_gate: MakeGate, credentials: Credentials
) -> None:
    credentials.user("anna", "secret")
    gate = make_gate(RULES, **credentials.section())
    of_page = gate.challenges({"HTTP_SEC_FETCH_MODE": "navigate"})
    of_image = gate.challenges({"HTTP_SEC_FETCH_MODE": "no-cors"})
    assert any(text.startswith("Basic") for text in of_page)
    assert of_page == gate.challenges({})
    assert [text for text in of_page if not text.startswith("Basic")] == list(of_image)


def test_rules_with_periods_end_grants(make_gate: MakeGate) -> None:
    rule = {
        "name": "soon",
        "until": "2099-01-01T00:00:00Z",
        "hours": "00:00-24:00 UTC",
        "allow": {},
    }
    gate = make_gate({"default": "deny", "rules": [rule]})
    assert time.time() < grant(gate).ends <= time.time() + 3600


def test_a_clock_that_is_set_back_ends_what_was_granted(
    make_gate: MakeGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server whose clock is an hour ahead opens too early, and must close again."""
    now = 4_000_000_000.0
    monkeypatch.setattr(time, "time", lambda: now)
    opens = {"name": "opens", "from": "2096-10-01T00:00:00Z", "allow": {}}
    gate = make_gate({"default": "deny", "rules": [opens]})
    early, epoch = grant(gate), gate.epoch
    assert not gate.poll()
    now -= 86400 * 7
    assert gate.poll()
    assert gate.epoch > epoch
    assert grant(gate).tag != early.tag
    assert not gate.poll()
    # The rule opens in time, too.
    now += 86400 * 7
    assert gate.poll()
    assert grant(gate).tag == early.tag


@pytest.mark.parametrize("has_secrets", [True, False])
def test_documents_have_the_same_etag_in_all_processes(
    tmp_path: Path, credentials: Credentials, has_secrets: bool
) -> None:
    """Without a file of secrets in those of one start, with it on all nodes."""
    rules = tmp_path / "access.json"
    rules.write_text(json.dumps({"default": "allow", "rules": []}))
    keys = [credentials.key(), credentials.key()]
    if not has_secrets:
        credentials.secrets.unlink()
    access = credentials.section(rules=str(rules))
    file = tiny_installation(tmp_path / "i", server_overrides={"plugins": {"access": access}})

    def etags() -> list[str]:
        client = Client(create_application(str(file)))
        paths = [f"/wmts/~{key}/1.0.0/WMTSCapabilities.xml" for key in keys]
        return [client.get(path).headers["ETag"] for path in paths]

    first, second = etags(), etags()
    assert first == second
    assert len(set(first)) == 2
