"""Gates over the tiny installation."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from mastaba.api.services import Site
from mastaba.api.tools import create_application
from mastaba_access.gate import RulesGate

MakeGate = Callable[..., RulesGate]


@pytest.fixture(scope="module")
def site(tiny: Path) -> Site:
    """Return the site of the tiny installation, without a gate."""
    return create_application(str(tiny)).site


@pytest.fixture
def make_gate(site: Site, tmp_path: Path) -> MakeGate:
    """Return a function that opens a gate for rules and further settings."""

    def make(document: Mapping[str, Any], **settings: Any) -> RulesGate:
        file = tmp_path / "access.json"
        file.write_text(json.dumps(document))
        site.plugin_settings = {"access": {"rules": str(file), **settings}}
        return RulesGate(site, site.plugin_settings["access"])

    return make
