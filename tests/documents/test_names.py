"""Which files in a folder are pyramids."""

from __future__ import annotations

import pytest

from mastaba_documents.names import is_beside_pyramid

NAMES = frozenset(
    (
        *("ortho.json", "ortho.history.json", "ortho_1.json", "ortho_2.json"),
        *("ortho_1950.json", "ortho_1950.history.json", "ortho_1950_1.json"),
        *("dem_2023.json", "ortho_1950.layer.json", "ortho_sources.json"),
    )
)


@pytest.mark.parametrize("name", sorted(NAMES))
def test_pyramids_are_told_from_what_is_beside_them(name: str) -> None:
    pyramids = {"ortho.json", "ortho_1950.json", "dem_2023.json"}
    assert is_beside_pyramid(name, NAMES) == (name not in pyramids)
