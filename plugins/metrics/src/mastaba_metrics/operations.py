"""The operations that every service has in the table; services declare the others."""

from __future__ import annotations

from typing import Final

OPERATIONS: Final = ("other", "gettile")
"""Requests without a named operation, and stored tiles that are found without the service."""

PAIR: Final = 39
"""Number of cells of one service and operation in the table."""

GET_TILE: Final = PAIR * OPERATIONS.index("gettile")
"""Offset of the cells of a tile."""
