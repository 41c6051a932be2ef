"""Locked layers: clients are asked for a credential before limits of answers are checked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.access.identification.conftest import Credentials
from tests.access.test_views import rules
from tests.tiny import tiny_installation
from werkzeug.test import Client

from mastaba.api.tools import create_application

LAYER = "RGB_PNG"
PROCESSES = "/export/processes"


@pytest.mark.parametrize(
    "address",
    [
        f"/wcs?service=WCS&version=2.0.1&request=GetCoverage&coverageId={LAYER}",
        f"/ogcapi/collections/{LAYER}/coverage?f=geotiff",
        f"{PROCESSES}/export-coverage/execution",
        f"{PROCESSES}/export-coverage/estimate",
        f"{PROCESSES}/export-tiles/execution",
    ],
)
def test_a_credential_is_asked_for_before_limits_are_checked(tmp_path: Path, address: str) -> None:
    credentials = Credentials(tmp_path)
    lock = {"who": ["anonymous"], "what": {"layers": [LAYER]}, "deny": {"as": "lock"}}
    (tmp_path / "rules.json").write_text(json.dumps(rules(lock, default="allow")))
    access = credentials.section(rules=str(tmp_path / "rules.json"))
    export = {"directory": str(tmp_path / "export"), "limits": {"max_tiles": 1}}
    own: dict[str, Any] = {
        "wcs": {"limits": {"tiles": 1}},
        "ogcapi": {"coverages": {"limits": {"tiles": 1}}},
        "export": export,
    }
    file = tiny_installation(
        tmp_path / "site",
        services=("tms",),
        services_overrides={name: {"enabled": True, **one} for name, one in own.items()},
        server_overrides={"plugins": {"access": access}},
    )
    layer = next((tmp_path / "site").rglob(f"layers/{LAYER}.json"))
    enabled = {"coverages": True, "export": {"enabled": True}, "wcs": {"enabled": True}}
    layer.write_text(json.dumps({**json.loads(layer.read_text()), **enabled}))
    client = Client(create_application(str(file)), use_cookies=False)
    statuses = []
    for headers in ({}, {"X-API-Key": credentials.key()}):
        if address.startswith(PROCESSES):
            form = "cog" if "coverage" in address else "mbtiles"
            inputs = {"inputs": {"layer": LAYER, "format": form}}
            answer = client.post(address, json=inputs, headers=headers)
        else:
            answer = client.get(address, headers=headers)
        statuses.append(answer.status_code)
    assert statuses == [401, 413]
