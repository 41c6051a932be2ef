"""``mastaba check`` without ``--deep`` looks at the form of addresses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.tiny import tiny_installation

from mastaba.commands.main import main


def _faults(file: Path, capsys: pytest.CaptureFixture[str]) -> list[Any]:
    main(["check", "-f", str(file), "--format", "json"])
    found: list[Any] = json.loads(capsys.readouterr().out)["faults"]
    return found


@pytest.mark.sampled(one_in=4)
@pytest.mark.parametrize(
    ("port", "is_usable"),
    [
        (":9000", True),
        ("*:0", True),
        ("[::1]:9000", True),
        ("/run/mastaba.sock", True),
        ("::1:9000", False),
        ("::9000", False),
        ("[::1:9000", False),
        ("127.0.0.1:70000", False),
        ("127.0.0.1:many", False),
        ("127.0.0.1:", False),
        ("127.0.0.1:" + "9" * 5000, False),
        ("9000", False),
        ("/" + "x" * 107, False),
    ],
)
def test_port(
    port: str, is_usable: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tiny_installation(tmp_path, services=["health"], server_overrides={"port": port})
    assert [fault["path"] for fault in _faults(file, capsys)] == ([] if is_usable else ["$.port"])


@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize(
    ("uri", "severity"),
    [
        ("https://maps.example.org/tms", None),
        ("http://localhost/tms", "warning"),
        ("maps.example.org/tms", "error"),
        ("ftp://maps.example.org", "error"),
        ("http://", "error"),
        ("http://a:b/", "error"),
    ],
)
def test_public_addresses(
    uri: str, severity: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tiny_installation(
        tmp_path, services=["tms"], services_overrides={"tms": {"endpoint_uri": uri}}
    )
    found = [(fault["path"], fault["severity"]) for fault in _faults(file, capsys)]
    assert found == ([] if severity is None else [("$.tms.endpoint_uri", severity)])
