"""Directories of layers that services keep."""

from __future__ import annotations

from mastaba.config.faults import Faults
from mastaba.config.kept_layers import kept_layers


def test_a_directory_that_cannot_be_one_is_reported() -> None:
    faults = Faults()
    assert kept_layers("a\0b", faults) == {}
    (fault,) = faults.all
    assert "cannot be read" in fault.reason
