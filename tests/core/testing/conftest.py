from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def shared_data() -> Path:
    path = (REPOSITORY / "../shared/data").resolve()
    if not path.is_dir():
        pytest.skip("the real pyramids are not beside the repository (../shared/data)")
    return path
