import pytest

from mastaba_demo.hydrology import Drainage, drain
from mastaba_demo.settings import Settings


@pytest.fixture(scope="session")
def settings() -> Settings:
    """Return a small part of the demo: two coarse levels and two at the focus."""
    return Settings(levels=(0, 1, 10, 12), last_whole=1, span=2, drainage_size=192)


@pytest.fixture(scope="session")
def drainage(settings: Settings) -> Drainage:
    return drain(settings.drainage_window(), settings.world)
