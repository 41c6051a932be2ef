"""What newcomers add takes few files: a parameter of WMS, an option of a storage driver.

Formats are in tests/test_further_encoder.py, metrics in tests/metrics, the rule by which layers are
merged in tests/test_merged_layers.py.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from tests.sources import parsed, walked

REPOSITORY = Path(__file__).parents[1]
WMS = REPOSITORY / "plugins/wms/src/mastaba_wms"
DRIVERS = sorted(REPOSITORY.glob("plugins/storage_*"))
# Read by all drivers, or by libraries of ours.
SHARED = frozenset({"SSL_NO_VERIFY", "NETWORK_TIMEOUT", "OBJECT_READ_TIMEOUT"})
READERS = frozenset({"text", "integer", "flag", "items"})


def modules_with(pattern: str, *folders: Path) -> set[str]:
    return {
        str(path.relative_to(REPOSITORY))
        for folder in folders
        for path in folder.rglob("*.py")
        if re.search(pattern, path.read_text("utf-8"))
    }


@pytest.mark.parametrize(
    ("name", "reader"),
    [
        ("dpi", "resolution_factor"),
        ("bgcolor", "background_colour"),
        ("feature_count", "feature_count"),
    ],
)
def test_a_parameter_of_wms_takes_at_most_three_modules(name: str, reader: str) -> None:
    """One declares it, one reads it, one uses what was read."""
    assert re.search(rf"^def {reader}\(", (WMS / "params.py").read_text("utf-8"), re.MULTILINE)
    assert len(modules_with(rf'"{name}"|\b{reader}\(', WMS)) <= 3


@pytest.mark.parametrize("driver", DRIVERS, ids=lambda path: path.name)
def test_an_option_of_a_driver_takes_one_module_and_its_manual(driver: Path) -> None:
    names = {
        node.args[0].value
        for path in (driver / "src").rglob("*.py")
        for node in walked(parsed(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in READERS
        and "environment" in ast.unparse(node.func.value)
        and isinstance(node.args[0], ast.Constant)
    }
    assert names
    manual = (driver / "README.md").read_text("utf-8")
    sources = [REPOSITORY / "core/src", *REPOSITORY.glob("libs/*/src"), *REPOSITORY.glob("plugins")]
    for name in sorted(names - SHARED):
        assert len(modules_with(rf'"{name}"', *sources)) == 1, name
        assert name in manual, name
