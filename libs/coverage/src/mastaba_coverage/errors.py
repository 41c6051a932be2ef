"""Errors of extraction."""

from __future__ import annotations

from mastaba.errors import RequestError


class CoverageTooLargeError(RequestError):
    """The answer would exceed a limit.

    Args:
        size: what the answer has, in the unit of the limit.
        limit: the most that is allowed.
        unit: ``bytes``, ``tiles`` or ``slabs``.
    """

    def __init__(self, size: int, limit: int, unit: str) -> None:
        super().__init__(
            f"the coverage has {size} {unit}, and at most {limit} are sent: request a smaller area"
        )
        self.size = size
        self.limit = limit
        self.unit = unit
