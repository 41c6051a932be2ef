"""Rules by address mean the client, also behind a trusted front server over HTTP."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.tiny import tiny_installation
from werkzeug.test import Client

from mastaba.wsgi import create_application

OFFICE, FRONT = "203.0.113.0/24", "127.0.0.0/8"
PATH = "/tms/1.0.0/RGB_PNG/4/9/6.png"


@pytest.mark.parametrize(
    ("network", "address", "status"),
    [
        (OFFICE, "203.0.113.9", 200),
        (OFFICE, "8.8.8.8", 404),
        (FRONT, "8.8.8.8", 404),
    ],
)
def test_a_rule_by_address_means_the_client(
    tmp_path: Path, network: str, address: str, status: int
) -> None:
    rules = [
        {"name": "office", "who": [f"address:{network}"], "what": {"layers": ["*"]}, "allow": {}}
    ]
    file = tmp_path / "rules.json"
    file.write_text(json.dumps({"default": "deny", "rules": rules}))
    section = {"rules": str(file), "trusted_fronts": ["127.0.0.1"]}
    installation = tiny_installation(
        tmp_path / "tiny", services=["tms"], server_overrides={"plugins": {"access": section}}
    )
    application = create_application(str(installation))
    headers = {"X-Forwarded-For": address}
    place = {"REMOTE_ADDR": "127.0.0.1"}
    client = Client(application)
    for _ in range(2):
        answer = client.get(PATH, headers=headers, environ_overrides=place)
        assert answer.status_code == status
    environ = {"HTTP_X_FORWARDED_FOR": address, **place}
    quick = application.stored_tile(PATH, "", environ)
    assert (quick is not None and quick.status == 200) == (status == 200)
