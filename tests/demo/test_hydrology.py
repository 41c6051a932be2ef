import numpy as np

from mastaba_demo.hydrology import Drainage
from mastaba_demo.noise import Field
from mastaba_demo.places import peaks, towns
from mastaba_demo.settings import Settings


def elevation_at(drainage: Drainage, points: np.ndarray) -> Field:
    valleys = drainage.valleys
    columns = np.round((points[:, 0] - valleys.left) / valleys.spacing).astype(int)
    rows = np.round((points[:, 1] - valleys.top) / valleys.spacing).astype(int)
    last = len(drainage.elevation) - 1
    found: Field = drainage.elevation[np.clip(rows, 0, last), np.clip(columns, 0, last)]
    return found


def test_rivers_flow_down_and_are_sorted_by_area(drainage: Drainage) -> None:
    assert len(drainage.rivers) > 10
    areas = [river.area for river in drainage.rivers]
    assert areas == sorted(areas)
    falls = [elevation_at(drainage, river.points[[0, -1]]) for river in drainage.rivers]
    assert np.mean([bool(start >= end) for start, end in falls]) > 0.9


def test_every_river_reaches_another_river_or_the_sea(drainage: Drainage) -> None:
    starts = {tuple(river.points[0]) for river in drainage.rivers}
    for river in drainage.rivers:
        mouth = elevation_at(drainage, river.points[-1:])[0]
        assert tuple(river.points[-1]) in starts or mouth < 60


def test_valleys_fade_out_at_the_border(drainage: Drainage) -> None:
    for field in (drainage.valleys.change, drainage.valleys.floor):
        assert not field[[0, -1]].any()
        assert not field[:, [0, -1]].any()
    assert drainage.valleys.change.min() < -20


def test_places_are_on_land_and_have_different_names(
    drainage: Drainage, settings: Settings
) -> None:
    for places in (peaks(drainage, settings.seed), towns(drainage, settings.seed)):
        assert len(places) >= 3
        assert len({place.name for place in places}) == len(places)
        positions = np.array([(place.x, place.y) for place in places])
        assert (elevation_at(drainage, positions) > 0).all()
        sizes = [place.size for place in places]
        assert sizes == sorted(sizes, reverse=True)
        levels = [place.level for place in places]
        assert levels == sorted(levels)
