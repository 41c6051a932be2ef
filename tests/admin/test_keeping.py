"""The directory of kept layers."""

from __future__ import annotations

import pytest

from mastaba_admin.keeping import kept_layers


def test_a_directory_that_cannot_be_one_is_reported() -> None:
    with pytest.raises(OSError, match="null byte"):
        kept_layers("a\0b")
