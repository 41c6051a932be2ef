"""One table of HTTP statuses, and the look-up in it."""

from __future__ import annotations

import pytest

from mastaba import errors
from mastaba_ows.errors import STATUSES, UpstreamError, entry_of


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.RequestError("a"), 400),
        (errors.MissingParameterError("a"), 400),
        (errors.UnsupportedFormatError("a"), 400),
        (errors.UnknownNameError("a"), 404),
        (errors.TileOutOfRangeError("a", ["row"]), 404),
        (errors.RequestTooLargeError("a"), 413),
        (errors.UnsupportedOperationError("a"), 501),
        (UpstreamError("a"), 502),
        (errors.OverloadedError("a"), 503),
        (errors.ObjectNotFoundError("a"), 503),
        (errors.SlabFormatError("a"), 500),
        (ValueError("a"), 500),
    ],
)
def test_status_of_the_nearest_class(error: Exception, status: int) -> None:
    assert entry_of(error, STATUSES) == status


def test_order_of_a_table_does_not_matter() -> None:
    table = {Exception: 1, errors.RequestError: 2, errors.InvalidParameterError: 3}
    assert entry_of(errors.UnknownNameError("a"), table) == 3
    assert entry_of(errors.UnknownNameError("a"), dict(reversed(table.items()))) == 3
