import numpy as np
import pytest

from mastaba_demo.contours import trace


def test_a_hill_gives_one_closed_line_with_the_hill_on_its_right() -> None:
    rows, columns = np.mgrid[:41, :41]
    distance = np.hypot(columns - 20.0, rows - 19.0)
    (line,) = trace((12 - distance).astype(np.float32), 0)
    assert np.array_equal(line[0], line[-1])
    radius = np.hypot(line[:, 0] - 20, line[:, 1] - 19)
    assert radius == pytest.approx(12, abs=0.05)
    x, y = line[:, 0], line[:, 1]
    # Rows grow downward, so a positive area is on the right of the line.
    assert (x[:-1] * y[1:] - x[1:] * y[:-1]).sum() > 0


def test_a_slope_gives_an_open_line_at_the_interpolated_position() -> None:
    field = np.tile(np.array([0.0, 1.0, 3.0], np.float32), (4, 1))
    (line,) = trace(field, 2)
    assert sorted(line.tolist()) == [[1.5, row] for row in range(4)]


def test_saddles_and_flat_ground_leave_no_loose_ends() -> None:
    field = np.random.default_rng(3).normal(size=(30, 30)).astype(np.float32)
    for line in trace(field, 0):
        closed = np.array_equal(line[0], line[-1])
        ends = line[[0, -1]]
        on_border = ((ends <= 0) | (ends >= 29)).any(axis=1)
        assert closed or on_border.all()
    assert trace(np.zeros((5, 5), np.float32), 0) == []
