"""What ``mastaba check`` says about layers with dimensions."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.series import series_installation

from mastaba.commands.main import main

YEARS = [{"time": year} for year in ("1950", "1975", "2023")]


@pytest.mark.parametrize(("size", "is_enough"), [(5, False), (6, True)])
def test_it_proposes_a_cache_for_all_values_of_a_layer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], size: int, is_enough: bool
) -> None:
    """Each of the three values has two levels."""
    file = series_installation(tmp_path, YEARS, server_overrides={"cache": {"size": size}})
    assert main(["check", "-f", str(file)]) == 0
    printed = capsys.readouterr().out
    assert ("$.cache.size" in printed) != is_enough
    if not is_enough:
        assert "is 5; the values of the layer ORTHO have 6 levels together" in printed
        assert "set at least 6" in printed


def test_a_value_that_cannot_be_opened_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = series_installation(tmp_path, YEARS)
    (tmp_path / "pyramids/value_1.json").write_text("{}")
    assert main(["check", "-f", str(file)]) == 1
    assert "ORTHO;time=1975 cannot be opened" in capsys.readouterr().out
