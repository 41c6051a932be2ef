"""A tiny installation with a layer that has a history."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.tiny import tiny_installation
from werkzeug.test import Client

from mastaba.api.catalogue import digest_of
from mastaba.api.tools import create_application

OLD, MIDDLE, BROKEN = "00000000000a", "00000000000b", "00000000000c"
BOX = [3000000.0, 3000000.0, 4000000.0, 4000000.0]
LAYER = "RGB_PNG"


def history_of(current: str) -> dict[str, Any]:
    """Return the history of a pyramid whose third version is published, after a rollback."""

    def version(number: int, generation: str, **more: Any) -> dict[str, Any]:
        return {
            "generation": generation,
            "built": f"2026-0{number}-01T00:00:00Z",
            "bbox": None,
            "sources": {"added": number, "removed": 0, "changed": 0},
            "slabs": {"written": 1, "linked": 2},
            "message": "",
            "state": "kept",
            **more,
        }

    rows = [
        (OLD, 1, "2026-01-01T12:00:00.000Z", "first"),
        (MIDDLE, 2, "2026-02-01T12:00:00.500Z", 'a < b & "c"'),
        (OLD, 1, "2026-02-02T00:00:00.000Z", "back"),
        (BROKEN, 4, "2026-02-03T00:00:00.000Z", ""),
        (current, 3, "2026-03-01T12:00:00.000Z", "third"),
        ("00000000000f", 5, "2026-04-01T12:00:00.000Z", "not loaded yet"),
    ]
    return {
        "versions": {
            "1": version(1, OLD),
            "2": version(2, MIDDLE, bbox=BOX, since=OLD),
            "4": version(4, BROKEN, bbox=BOX, since=OLD, state="withdrawn"),
            "3": version(3, current, bbox=[], since=BROKEN),
            "5": version(5, "00000000000f", since=current),
        },
        "published": [
            {"generation": one, "number": number, "from": since, "message": text, "by": "build"}
            for one, number, since, text in rows
        ],
    }


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes the installation, with settings of server.json."""

    def write_it(**overrides: Any) -> Path:
        file = tiny_installation(tmp_path, services=["history", "tms"], server_overrides=overrides)
        pyramids = tmp_path / "pyramids"
        current = digest_of(json.loads((pyramids / f"{LAYER}.json").read_text()))
        text = json.dumps(history_of(current))
        (pyramids / f"{LAYER}.history.json").write_text(text)
        changes = {
            "since": OLD,
            "level": "4",
            # Levels have the columns 9 and 10, and the rows 5 and 6.
            "tiles": [[5, 9, 10], [6, 9, 10], [7, 9, 9]],
            "added": [[5, 10, 10], [6, 10, 10]],
            "removed": [],
            "slabs": {},
        }
        (pyramids / f"{LAYER}_2.changes.json").write_text(json.dumps(changes))
        return file

    return write_it


@pytest.fixture
def current(write: Callable[..., Path], tmp_path: Path) -> str:
    """The generation that is published."""
    write()
    return digest_of(json.loads((tmp_path / f"pyramids/{LAYER}.json").read_text()))


@pytest.fixture
def client(write: Callable[..., Path]) -> Client:
    return Client(create_application(str(write())))
