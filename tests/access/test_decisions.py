"""Decisions of the plugin against those of an independent evaluator."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.access import evaluator
from tests.access.worlds import DATASETS, LAYERS, SERVICES, STYLES, Seen, World, layers

from mastaba.api.documents import Faults
from mastaba_access.decisions import AccessClass, Outcome
from mastaba_access.rules.file import load_rules
from mastaba_access.rules.limits import Limit
from mastaba_access.rules.ruleset import RuleSet
from mastaba_access.rules.what import Layers

KEY = b"secret"
INDEX = Layers(layers(), DATASETS)


def loaded(document: dict[str, Any], folder: Path) -> RuleSet:
    file = folder / "access.json"
    file.write_text(json.dumps(document))
    faults = Faults()
    rules = load_rules(str(file), SERVICES, faults)
    assert not faults.all
    return rules


def ours(outcome: Outcome, bit: int) -> tuple[str, dict[str, Any]]:
    if not outcome.allowed & bit:
        return ("lock" if outcome.locked & bit else "hide"), {}
    limit: Limit = outcome.limit(bit)
    found = {name: getattr(limit, name) for name in evaluator.NUMBERS}
    return "allow", {
        "areas": set(limit.areas),
        "boxes": set(limit.boxes),
        "cut": limit.cut,
        "formats": None if limit.formats is None else set(limit.formats),
        "resolution": limit.resolution,
        "scale": limit.scale,
        **found,
    }


def visits(
    world: World, count: int, folder: Path
) -> Iterator[tuple[dict[str, Any], RuleSet, Seen, float, AccessClass, str, str]]:
    """Yield rules, visits, their moments and classes, services and virtual services."""
    for number in range(count):
        if number % 10 == 0:
            document = world.document()
            rules = loaded(document, folder)
        seen, at = world.seen(), world.moment()
        found = AccessClass(rules.applying(seen.visit, at), rules.is_open, rules.areas, KEY)
        service = world.random.choice(tuple(SERVICES))
        virtual = world.random.choice(("", "", "partner", "other"))
        yield document, rules, seen, at, found, service, virtual


def compare(seed: int, triples: int, folder: Path) -> None:
    world = World(seed)
    seen_results = set()
    for number, visit in enumerate(visits(world, triples, folder)):
        document, _, seen, at, found, service, virtual = visit
        ability = world.random.choice(SERVICES[service])
        style = world.random.choice((None, None, *STYLES))
        outcome = found.decide(INDEX, service, virtual, ability, style)
        for layer in LAYERS:
            expected = evaluator.evaluate(
                *(document, seen.document, at, service, virtual, layer, ability, style, DATASETS)
            )
            result = ours(outcome, INDEX.bit(str(layer["id"])))
            question = (service, virtual, layer["id"], ability, style)
            assert result == expected, (seed, number, question, seen.document, document)
            seen_results.add(result[0])
            # The compiled form asks for one layer as it asks for all.
            bit = INDEX.bit(str(layer["id"]))
            alone = found.decide(INDEX, service, virtual, ability, style, among=bit)
            assert ours(alone, bit) == result
    assert seen_results == {"allow", "hide", "lock"}


def test_a_thousand_random_decisions_equal_those_of_the_evaluator(tmp_path: Path) -> None:
    compare(1, 1000, tmp_path)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(2, 12))
def test_random_decisions_equal_those_of_the_evaluator(seed: int, tmp_path: Path) -> None:
    compare(seed, 1000, tmp_path)


def test_evaluator_is_short_and_independent() -> None:
    text = Path(evaluator.__file__).read_text()
    assert len(text.splitlines()) <= 200
    assert "mastaba" not in text


def test_nothing_changes_before_the_next_change(tmp_path: Path) -> None:
    """The moment at which a grant ends is never later than the first change of its rules."""
    world = World(5)
    for _ in range(150):
        rules = loaded(world.document(), tmp_path)
        seen, at = world.seen(), world.moment()
        ends = rules.next_change(at)
        assert ends > at
        applying = rules.applying(seen.visit, at)
        last = min(ends - 0.001, at + 9 * 86400)
        for step in range(40):
            moment = at + (last - at) * step / 39
            assert rules.applying(seen.visit, moment) == applying


def test_tags_depend_on_effects_alone(tmp_path: Path) -> None:
    def tag(**rule: Any) -> str:
        rules = loaded({"default": "deny", "rules": [{"name": "x", **rule}]}, tmp_path)
        return AccessClass(rules.rules, rules.is_open, rules.areas, KEY).tag

    first = tag(what={"layers": ["A"]}, allow={})
    assert tag(name="other", who=["key:k*"], what={"layers": ["A"]}, allow={}) == first
    assert tag(what={"layers": ["B"]}, allow={}) != first
    assert tag(what={"layers": ["A"]}, deny={}) != first
    assert tag(what={"layers": ["A"]}, allow={"pixels": 9}) != first
    assert len(first) == 12
