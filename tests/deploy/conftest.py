"""The samples of deploy/."""

from __future__ import annotations

from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def deploy() -> Path:
    """Return the folder of the samples."""
    return REPOSITORY / "deploy"
