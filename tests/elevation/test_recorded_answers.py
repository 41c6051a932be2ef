"""Heights, profiles, statistics and grids keep every digit of the answers that were recorded."""

from __future__ import annotations

import json
import os

from tests.elevation.conftest import EVERYTHING, Open
from tests.elevation.recorded import FILE, answers


def test_answers_are_those_that_were_recorded(open_with: Open) -> None:
    """In the CRSs of the layers, so that no other version of PROJ changes them."""
    found = answers(open_with({**EVERYTHING, "decimals": 10}))
    if os.environ.get("MASTABA_RECORD"):
        lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in found.items()]
        FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
    known = json.loads(FILE.read_text("utf-8"))
    assert found.keys() == known.keys()
    for name, answer in found.items():
        assert answer == known[name], name
