"""Registries: read-only mappings that know where each thing comes from."""

from __future__ import annotations

import pytest

from mastaba.errors import UnknownPluginError
from mastaba.plugins.registry import Registry

ITEMS = [("b", 1, "plugin-x"), ("a", 2, "plugin-y"), ("c", 3, "plugin-x")]


@pytest.fixture
def registry() -> Registry[int]:
    return Registry("thing", ITEMS)


def test_registry_is_a_mapping_in_the_order_given(registry: Registry[int]) -> None:
    assert dict(registry) == {"b": 1, "a": 2, "c": 3}
    assert list(registry) == ["b", "a", "c"]
    assert len(registry) == 3
    assert "a" in registry
    assert "z" not in registry
    assert 5 not in registry


def test_error_for_an_unknown_name_lists_the_known_ones(registry: Registry[int]) -> None:
    with pytest.raises(UnknownPluginError, match=r"no thing 'z' \(installed: a, b, c\)"):
        registry["z"]
    with pytest.raises(UnknownPluginError, match="none"):
        Registry("thing")["z"]


def test_get_of_an_unknown_name_gives_the_default(registry: Registry[int]) -> None:
    assert registry.get("a") == 2
    assert registry.get("z") is None
    assert registry.get("z", 7) == 7


def test_registry_lists_what_a_plugin_provides(registry: Registry[int]) -> None:
    assert registry.provided_by("plugin-x") == ["b", "c"]
    assert registry.provided_by("plugin-z") == []
