"""Errors of counting."""

from __future__ import annotations

from mastaba.errors import MastabaError


class UsageError(MastabaError):
    """Usage cannot be counted or read; the message says why."""
