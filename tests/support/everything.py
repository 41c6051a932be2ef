"""An installation with every service that is installed, behind access rules."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.access.identification.conftest import Credentials
from tests.tiny import tiny_installation

from mastaba.api.tools import Application, create_application
from mastaba.plugins.manager import Plugins

SERVICES = sorted(Plugins().services)
FRONT = "10.0.0.1"
"""Address of the trusted front server."""

SECRET = "a secret of operators"
"""Of the administration."""

RULES: dict[str, Any] = {
    "default": "allow",
    "rules": [
        {
            "name": "operators",
            "who": ["group:operators"],
            "what": {"abilities": ["status", "usage"]},
            "allow": {},
        }
    ],
}
"""Everybody sees all layers; the group ``operators`` also the state of the server."""


def everything(
    folder: Path,
    credentials: Credentials,
    rules: dict[str, Any] | None = None,
    *,
    services: Mapping[str, Any] | None = None,
    prepare: Callable[[Path], None] | None = None,
) -> Application:
    """Write the installation, and return its application.

    Args:
        rules: document of the rules; `RULES` by default.
        services: further sections of services.json.
        prepare: changes the files of the installation, whose folder it gets.
    """
    (folder / "rules.json").write_text(json.dumps(RULES if rules is None else rules))
    overrides: dict[str, Any] = {name: {"enabled": True} for name in SERVICES if name != "root"}
    overrides["admin"] |= {"secret": SECRET}
    overrides["export"] |= {"directory": str(folder / "export")}
    credentials.key()  # creates the store
    access = {
        "rules": str(folder / "rules.json"),
        "trusted_fronts": [FRONT],
        **credentials.section(),
    }
    plugins = {"access": access, "usage": {"directory": str(folder / "usage")}}
    file = tiny_installation(
        folder / "installation",
        services_overrides={**overrides, **(services or {})},
        server_overrides={"plugins": plugins},
    )
    if prepare is not None:
        prepare(folder / "installation")
    return create_application(str(file))
