"""Heights, profiles and grids keep every digit of the answers that were recorded.

Statistics may differ in the last digits: numpy adds in another order on other processors.
"""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
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
        assert answer == (nearly(known[name]) if "statistics" in name else known[name]), name


def nearly(value: Any) -> Any:
    """Return what equals a value if numbers differ by rounding only."""
    if isinstance(value, dict):
        return {key: nearly(item) for key, item in value.items()}
    return pytest.approx(value, rel=1e-13) if isinstance(value, float) else value
