"""What the public sees otherwise after a change of the rules is announced to caches."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from tests.access.conftest import MakeGate

from mastaba.api.services import Site
from mastaba_access.announcing import changed_layers
from mastaba_access.gate import RulesGate


def document(*rules: dict[str, Any], **further: Any) -> dict[str, Any]:
    named = [{"name": str(number), **rule} for number, rule in enumerate(rules)]
    return {"default": "deny", "rules": named, **further}


HIDDEN = {"what": {"layers": ["RGB_JPG"]}, "deny": {}}
OPEN = {"allow": {}}


def changed(gate: RulesGate, rules: dict[str, Any]) -> None:
    with open(gate.rules.file, "w") as file:
        json.dump(rules, file)
    assert gate.poll()


def test_layers_that_the_public_sees_otherwise_are_announced_once(
    make_gate: MakeGate, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    called, seen = threading.Event(), []

    def announcements(of: Site, changes: Any) -> dict[str, Any]:
        def call() -> None:
            seen.append([one.layer for one in changes])
            called.set()

        return {"edge": call}

    monkeypatch.setattr(site.plugins, "announcements", announcements, raising=False)
    gate = make_gate(document(OPEN))
    changed(gate, document(HIDDEN, OPEN))
    assert called.wait(60)
    assert seen == [["RGB_JPG"]]
    # What a group sees does not concern the public.
    group = {"who": ["group:x"], "what": {"layers": ["GREY_PNG"]}, "allow": {}}
    changed(gate, document(HIDDEN, group, OPEN))
    called.clear()
    changed(gate, document(OPEN))
    assert called.wait(60)
    assert seen == [["RGB_JPG"], ["RGB_JPG"]]


def test_another_area_of_the_same_name_is_a_change(make_gate: MakeGate, site: Site) -> None:
    def of(size: int) -> RulesGate:
        square = f"POLYGON((0 0, {size} 0, {size} {size}, 0 {size}, 0 0))"
        areas = {"a": {"wkt": square, "crs": "CRS:84"}}
        limit = {"what": {"layers": ["RGB_JPG"]}, "limit": {"area": "a"}}
        return make_gate(document(limit, OPEN, areas=areas))

    first, second = (of(size)._grants.in_use.public() for size in (4, 5))
    layers = make_gate(document(OPEN))._spent.layers
    assert changed_layers(site, first, first, layers) == []
    assert changed_layers(site, first, second, layers) == ["RGB_JPG"]
