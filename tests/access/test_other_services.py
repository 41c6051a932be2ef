"""Services without abilities: history, sources and styles show what others do, within the rules."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from tests.access.conftest import MakeGate
from tests.access.identification.conftest import Credentials
from tests.access.test_views import ALICE, published, rules, view
from tests.history.conftest import LAYER, MIDDLE, OLD, history_of
from tests.tiny import tiny_installation
from werkzeug.test import Client

from mastaba.api.access import LockedReader, Principal
from mastaba.api.catalogue import digest_of
from mastaba.api.services import Site
from mastaba.api.tools import create_application
from mastaba_access.checks import findings
from mastaba_access.identifiers.signed import secrets_of
from mastaba_access.identifiers.tokens import Token, sign

OTHERS = ("history", "provenance", "stylesheets")
NO_HISTORY = {"what": {"services": ["history"], "layers": [LAYER]}, "deny": {}}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    folder = tmp_path_factory.mktemp("others")
    return create_application(str(tiny_installation(folder, services=("wmts", *OTHERS)))).site


def test_a_rule_about_such_a_service_holds_for_it(make_gate: MakeGate, site: Site) -> None:
    gate = make_gate(rules(NO_HISTORY, {"allow": {}}))
    for service in ("wmts", *OTHERS):
        found = view(gate, site, service)
        assert set(found.layers) == set(site.catalogue.layers)
        assert published(found, "history") == published(site.catalogue, "history") - {LAYER}
        assert published(found, "provenance") == published(site.catalogue, "provenance") != set()
    assert not any("never matches" in str(fault) for fault in findings(gate, site))


def test_a_rule_above_decides_first(make_gate: MakeGate, site: Site) -> None:
    gate = make_gate(rules({"who": ["group:staff"], "allow": {}}, NO_HISTORY, {"allow": {}}))
    assert view(gate, site, "history", ALICE) is site.catalogue
    assert LAYER not in published(view(gate, site, "history"), "history")


def test_without_such_a_rule_they_show_what_any_service_shows(
    make_gate: MakeGate, site: Site
) -> None:
    gate = make_gate(rules({"what": {"services": ["wmts"], "layers": [LAYER]}, "allow": {}}))
    for service in OTHERS:
        assert published(view(gate, site, service), service) == {LAYER}


def test_a_signed_address_for_some_services_opens_no_other(make_gate: MakeGate, site: Site) -> None:
    gate = make_gate(rules({"allow": {}}))
    signed = Principal("s1", "signed", scope={"s": ["wmts", "stylesheets"]})
    shown = {name: published(view(gate, site, name, signed), name) for name in ("wmts", *OTHERS)}
    for name in ("wmts", "stylesheets"):
        assert shown[name] == published(site.catalogue, name) != set()
    assert shown["history"] == shown["provenance"] == set()


def test_locks_and_limits_hold_for_it_alone(make_gate: MakeGate, site: Site) -> None:
    whole = site.catalogue
    west, south, east, north = (
        getattr(whole.layers[LAYER].geographic_bbox, name)
        for name in ("xmin", "ymin", "xmax", "ymax")
    )
    ring = f"{west} {south}, {east} {south}, {west} {north}, {west} {south}"
    areas = {"part": {"wkt": f"POLYGON(({ring}))", "crs": "CRS:84"}}
    locked = {"what": {"services": ["history"]}, "deny": {"as": "lock"}}
    limited = {"what": {"services": ["provenance"]}, "limit": {"area": "part"}}
    gate = make_gate(rules(locked, limited, {"allow": {}}, areas=areas))
    assert view(gate, site, "wmts").readers[LAYER] is whole.readers[LAYER]
    history = view(gate, site, "history").readers[LAYER]
    assert all(isinstance(one, LockedReader) for one in history.values())
    sources = view(gate, site, "provenance").readers[LAYER]
    assert all(one.is_masked for one in sources.values())


class Versions:
    """A server with a layer that has a kept version.

    Attributes:
        client: of it.
        version: name of the layer with a token.
    """

    def __init__(
        self, folder: Path, credentials: Credentials, *found: dict[str, Any], **more: Any
    ) -> None:
        self._credentials = credentials
        (folder / "rules.json").write_text(json.dumps(rules(*found, default="allow", **more)))
        virtual = {"p": {"layers": [LAYER], "services": {"tms": {}}}}
        access = credentials.section(rules=str(folder / "rules.json"))
        file = tiny_installation(
            folder / "site",
            services=("history", "tms"),
            services_overrides={"virtual": virtual},
            server_overrides={"plugins": {"access": access}},
        )
        pyramids = folder / "site/pyramids"
        descriptor = (pyramids / f"{LAYER}.json").read_bytes()
        current = digest_of(json.loads(descriptor))
        (pyramids / f"{LAYER}.history.json").write_text(json.dumps(history_of(current)))
        (pyramids / f"{LAYER}_3.json").write_bytes(descriptor)
        self.client = Client(create_application(str(file)), use_cookies=False)
        self.version = f"{LAYER}~{current}"

    def signed(self, **scope: Any) -> str:
        found = secrets_of(self._credentials.section())
        assert found is not None
        return sign(Token(found.first, int(time.time()) + 3600, scope, None), found)


def test_signed_addresses_show_no_history(tmp_path: Path) -> None:
    found = Versions(tmp_path, Credentials(tmp_path))
    for services, shown in ((["tms"], []), (["tms", "history"], [LAYER])):
        segment = f"/~{found.signed(s=services)}"
        assert found.client.get(f"/tms{segment}/1.0.0/{LAYER}").status_code == 200
        listed = found.client.get(f"/history{segment}").json["layers"]
        assert [one["layer"] for one in listed] == shown
        unknown, known = (
            found.client.get(f"/history{segment}/{name}") for name in ("NO_LAYER", LAYER)
        )
        assert (known.status_code == 200) is bool(shown)
        if not shown:
            assert known.text.replace(LAYER, "NO_LAYER") == unknown.text


@pytest.mark.parametrize("how", ["whole", "area", "levels", "locked"])
def test_of_a_part_no_counts_of_the_whole_are_shown(tmp_path: Path, how: str) -> None:
    credentials = Credentials(tmp_path)
    areas = {"part": {"wkt": "POLYGON((28 35, 40 35, 28 44, 28 35))", "crs": "CRS:84"}}
    found: dict[str, list[dict[str, Any]]] = {
        "whole": [],
        "area": [{"limit": {"area": "part"}}],
        "levels": [{"limit": {"resolution": [0, 20_000]}}],
        "locked": [{"who": ["anonymous"], "deny": {"as": "lock"}}],
    }
    client = Versions(tmp_path, credentials, *found[how], areas=areas).client
    (version,) = client.get(f"/history/{LAYER}/{OLD}").json["versions"]
    assert (("slabs" in version), ("sources" in version)) == (how == "whole",) * 2
    changes = client.get(f"/history/{LAYER}/changes/{OLD}..{MIDDLE}")
    assert changes.status_code == (401 if how == "locked" else 200)


@pytest.mark.parametrize("is_locked", [False, True])
def test_messages_about_what_is_outside_are_not_shown(tmp_path: Path, is_locked: bool) -> None:
    """The second version, and the rollback from it, changed a box in the south."""
    credentials = Credentials(tmp_path)
    areas = {"north": {"wkt": "POLYGON((40 40, 60 40, 60 55, 40 40))", "crs": "CRS:84"}}
    limit = {"who": ["anonymous"], "limit": {"area": "north"}}
    what = {"services": ["history"]}
    lock = {"who": ["anonymous"], "what": what, "deny": {"as": "lock"}}
    found = [limit, lock] if is_locked else [limit]
    client = Versions(tmp_path, credentials, *found, areas=areas).client
    shown, whole = (
        [
            {
                row["message"]
                for row in client.get(f"/history/{LAYER}{path}", headers=one).json[name]
            }
            for path, name in (
                ("", "published"),
                (f"/{OLD}", "published"),
                (f"/{MIDDLE}", "published"),
            )
        ]
        for one in ({}, {"X-API-Key": credentials.key()})
    )
    assert whole == [
        {"first", 'a < b & "c"', "back", "", "third"},
        {"first", "back"},
        {'a < b & "c"'},
    ]
    assert shown == [{"first", "", "third"}, {"first", ""}, {""}]
    for feed in ("feed.json", "feed.atom"):
        text = client.get(f"/history/{LAYER}/{feed}").text
        assert "third" in text
        assert "back" not in text


@pytest.mark.parametrize("denied", [False, True])
def test_links_in_headers_lead_where_the_client_may_go(tmp_path: Path, denied: bool) -> None:
    credentials = Credentials(tmp_path)
    found = Versions(tmp_path, credentials, *([NO_HISTORY] if denied else []))
    segment = f"/~{credentials.key()}"
    document = f"1.0.0/{found.version}/metadata.json"
    for path, place in (("/tms", ""), (f"/tms{segment}", segment)):
        answer = found.client.get(f"{path}/{document}")
        assert answer.status_code == 200
        links = ", ".join(answer.headers.getlist("Link"))
        expected = f'<http://localhost/history{place}/{LAYER}>;rel="original"'
        assert ("/history" in links) is not denied
        assert denied or expected in links
    # The virtual service has no history.
    for place in ("", segment):
        answer = found.client.get(f"/tms/v/p{place}/{document}")
        assert answer.status_code == 200
        assert "/history" not in ", ".join(answer.headers.getlist("Link"))
