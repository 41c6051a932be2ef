"""Errors of this service, and their statuses."""

from __future__ import annotations

from typing import Final

from mastaba.errors import RequestError
from mastaba_ows.errors import STATUSES


class GoneError(RequestError):
    """The version existed, and its slabs have been removed or replaced."""


HISTORY_STATUSES: Final = {**STATUSES, GoneError: 410}
