"""Layers that addresses name: few of many names are looked up."""

from __future__ import annotations

from typing import Any

from mastaba_usage.naming import UNKNOWN, Known, named


class Table:
    """The values of a layer, which counts what it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def named(self, name: str) -> dict[str, str] | None:
        self.asked += 1
        return {"time": "1950"} if name == "ORTHO_1950" else None


def test_few_parts_of_a_path_are_looked_up() -> None:
    table: Any = Table()
    known = Known({"ORTHO"}, {"ORTHO": table})
    path = "/x" * 32_000
    assert named(path, "", known) == ([], "")
    assert table.asked <= 20
    assert named("/a/b/c/d/e/f/tms/1.0.0/ORTHO_1950/4/9/6.jpg", "", known) == (["ORTHO"], "")
    assert named("/a/b/c/d/e/f/wmts/1.0.0/ORTHO/normal/PM/4/9/6.jpg", "", known) == (["ORTHO"], "")


def test_few_names_in_a_parameter_are_looked_up() -> None:
    table: Any = Table()
    known = Known({"ORTHO"}, {"ORTHO": table})
    many = ",".join(str(number) for number in range(1000))
    assert named("/wms", f"layers={many}", known) == ([UNKNOWN], "")
    assert table.asked == 64
    # A name that is repeated counts once.
    names = ",".join(["x"] * 100 + ["ORTHO_1950"])
    assert named("/wms", f"layers={names}", known) == ([UNKNOWN, "ORTHO"], "")
    assert table.asked == 66
