"""HTTP statuses of errors, the same in all protocols."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mastaba.errors import (
    AccessError,
    StorageError,
    TileNotFoundError,
    TileOutOfRangeError,
    UnknownNameError,
)
from mastaba_server.web.statuses import SERVER_STATUSES, entry_of

STATUSES: Final[Mapping[type[BaseException], int]] = {
    **SERVER_STATUSES,
    UnknownNameError: 404,
    TileOutOfRangeError: 404,
    TileNotFoundError: 404,
    StorageError: 503,
}
"""HTTP status by class of errors. A service whose standard says otherwise adds to a copy."""


def status_of(error: Exception, table: Mapping[type[BaseException], int] | None = None) -> int:
    """Return the status of an error in a table, or its own if it is an `AccessError`."""
    return error.status if isinstance(error, AccessError) else entry_of(error, table or STATUSES)
