import numpy as np
import pytest

from mastaba_demo.noise import Grid, Window
from mastaba_demo.settings import Settings
from mastaba_demo.terrain import evaluate

MARGIN = 5
SIZE = 64


def at_focus(settings: Settings, level: int) -> tuple[int, int, int]:
    world = 256 * 2**level
    return world, int(settings.focus[0] * world), int(settings.focus[1] * world)


@pytest.mark.parametrize("level", [0, 3, 7, 12])
def test_neighbouring_windows_agree_where_they_overlap(settings: Settings, level: int) -> None:
    world, left, top = at_focus(settings, level)
    left, top = left // SIZE * SIZE, top // SIZE * SIZE
    first = evaluate(Window(world, left, top, SIZE), settings.world, MARGIN)
    for down, right in ((0, 1), (1, 0), (1, 1)):
        window = Window(world, left + right * SIZE, top + down * SIZE, SIZE)
        second = evaluate(window, settings.world, MARGIN)
        rows, columns = slice(down * SIZE, None), slice(right * SIZE, None)
        end_row, end_column = 2 * MARGIN + (not down) * SIZE, 2 * MARGIN + (not right) * SIZE
        for name in ("elevation", "moisture", "temperature", "grain", "parcel"):
            one = getattr(first, name)[rows, columns]
            other = getattr(second, name)[:end_row, :end_column]
            assert one.shape == other.shape
            np.testing.assert_allclose(one, other, atol=2e-3, err_msg=name)


def test_a_window_of_any_size_has_the_same_terrain(settings: Settings) -> None:
    world, left, top = at_focus(settings, 9)
    large = evaluate(Window(world, left, top, 2 * SIZE), settings.world, MARGIN)
    small = evaluate(Window(world, left + SIZE, top, SIZE), settings.world, MARGIN)
    part = large.part(SIZE, 0, SIZE)
    np.testing.assert_allclose(part.elevation, small.elevation, atol=2e-3)


def test_the_world_wraps(settings: Settings) -> None:
    world = 256 * 2**3
    inside = evaluate(Window(world, 0, 700, SIZE), settings.world, MARGIN)
    beyond = evaluate(Window(world, world, 700, SIZE), settings.world, MARGIN)
    np.testing.assert_allclose(inside.elevation, beyond.elevation, atol=0.5)


def test_levels_show_the_same_land(settings: Settings) -> None:
    world, left, top = at_focus(settings, 6)
    wide = evaluate(Window(world, left, top, SIZE), settings.world, 0).elevation
    near = evaluate(Window(2 * world, 2 * left, 2 * top, 2 * SIZE), settings.world, 0).elevation
    reduced = near.reshape(SIZE, 2, SIZE, 2).mean(axis=(1, 3))
    assert ((wide > 0) == (reduced > 0)).mean() > 0.95
    assert np.corrcoef(wide.ravel(), reduced.ravel())[0, 1] > 0.98


def test_a_world_has_land_and_sea_and_depends_on_its_seed(settings: Settings) -> None:
    window = Window(256, 0, 0, 256)
    first = evaluate(window, settings.world, 0).elevation
    again = evaluate(window, settings.world, 0).elevation
    other = evaluate(window, Settings(seed=12).world, 0).elevation
    assert np.array_equal(first, again)
    assert not np.allclose(first, other)
    assert 0.2 < (first > 0).mean() < 0.7
    assert first.max() > 2500
    assert first.min() < -2500


def test_refinement_keeps_common_nodes_and_is_exact_for_cubics() -> None:
    grid = Grid(Window(1024, 100, 36, 64), 4)

    def cubic(of: Grid) -> np.ndarray:
        x, y = of.x() * 10 - 1, of.y() * 10
        return np.add.outer(y**3 - y, x**3 + x * x).astype(np.float32)

    refined = grid.refine(cubic(grid))
    exact = cubic(grid.finer())
    assert refined.shape == exact.shape
    np.testing.assert_allclose(refined[2:-2, 2:-2], exact[2:-2, 2:-2], atol=1e-5)
