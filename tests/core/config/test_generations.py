"""Generations: equal for equal files, and different whenever what is published differs."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

SERVICES, LAYER = "services.json", "layers/L.json"
PYRAMID, STYLE = "pyramids/P.json", "styles/ember.json"


def test_equal_files_have_equal_generations(installation: Any) -> None:
    _, first, _ = installation.load()
    _, second, _ = installation.load()

    assert re.fullmatch("[0-9a-f]{12}", first.generation)
    assert re.fullmatch("[0-9a-f]{12}", first.layers["L"].pyramid.generation)
    assert first.generation == second.generation
    assert first.layers["L"].generation == second.layers["L"].generation


@pytest.mark.parametrize(
    ("file", "path", "value", "changed"),
    [
        (SERVICES, "$.global.provider", "Another", {"catalogue"}),
        (LAYER, "$.title", "Another", {"catalogue", "layer"}),
        (STYLE, "$.title", "Another", {"catalogue", "layer"}),
        ("tilematrixsets/PM.json", "$.title", "Another", {"catalogue", "layer"}),
        (PYRAMID, "$.levels[0].tile_limits.max_row", 14, {"catalogue", "layer", "pyramid"}),
    ],
)
def test_generation_changes_with_the_files_it_depends_on(
    installation: Any, file: str, path: str, value: object, changed: set[str]
) -> None:
    def generations() -> dict[str, str]:
        _, catalogue, _ = installation.load()
        layer = catalogue.layers["L"]
        return {
            "catalogue": catalogue.generation,
            "layer": layer.generation,
            "pyramid": layer.pyramid.generation,
        }

    before = generations()
    installation.set(file, path, value)
    after = generations()
    assert {name for name in before if before[name] != after[name]} == changed


def test_turning_services_off_changes_the_generation(installation: Any) -> None:
    _, catalogue, _ = installation.load()
    off = replace(catalogue, settings=replace(catalogue.settings, enabled=False))
    assert off.generation != catalogue.generation


def test_secrets_are_not_in_the_generation(installation: Any) -> None:
    _, catalogue, _ = installation.load()
    name, settings = next(iter(catalogue.services.items()))

    def with_own(own: dict[str, Any]) -> str:
        return replace(catalogue, services={name: replace(settings, own=own)}).generation

    assert with_own({"secret": "a"}) == with_own({"secret": "b"})
    assert with_own({"other": "a"}) != with_own({"other": "b"})
