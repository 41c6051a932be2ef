"""Errors of extraction. Each protocol gives them its own codes."""

from __future__ import annotations

from mastaba.errors import InvalidParameterError, RequestError, SlabFormatError


class CoverageTooLargeError(RequestError):
    """The answer would exceed a limit.

    Args:
        size: what the answer has, in the unit of the limit; at least, if it is only estimated.
        limit: the most that is allowed.
        unit: ``bytes``, ``pixels``, ``tiles`` or ``slabs``.
        advice: what to request instead.
    """

    def __init__(
        self, size: int, limit: int, unit: str, advice: str = "request a smaller area"
    ) -> None:
        super().__init__(f"the coverage has {size} {unit}, and at most {limit} are sent: {advice}")
        self.size = size
        self.limit = limit
        self.unit = unit


class OutsideCoverageError(RequestError):
    """No cell of the coverage is in the requested area."""


class InvalidIntervalError(InvalidParameterError):
    """An interval of a trim has no extent, or is not finite.

    Args:
        message: what is wrong.
        axis: ``x`` or ``y``.
    """

    def __init__(self, message: str, axis: str) -> None:
        super().__init__(message, "trim")
        self.axis = axis


class InvalidScalingError(InvalidParameterError):
    """A size, resolution or factor is not possible."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "scaling")


class UnknownFieldError(InvalidParameterError):
    """There is no field of this name.

    Args:
        message: what is wrong.
        field: the name.
    """

    def __init__(self, message: str, field: str) -> None:
        super().__init__(message, "fields")
        self.field = field


class UnknownLevelError(InvalidParameterError):
    """There is no level of this name."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "level")


class NotCopyableError(SlabFormatError):
    """Stored tiles differ from what the tags of a file would declare, so they are decoded."""
