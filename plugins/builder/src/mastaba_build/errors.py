"""Errors of a build; each class has its exit status."""

from __future__ import annotations

from typing import ClassVar


class BuildError(Exception):
    """A build cannot continue; the message says what is wrong, where, and what to do."""

    status: ClassVar[int] = 1


class PlanError(BuildError):
    """The configuration, a source or a tile matrix set does not allow a build."""

    status = 2


class LockedError(BuildError):
    """Another process builds the same pyramid."""

    status = 3


class VerificationError(BuildError):
    """What is stored differs from what the journal or the build record says."""

    status = 4


class SourceError(BuildError):
    """A source cannot be read, or has changed; the slab fails."""


class ServiceError(SourceError):
    """A service gives no valid answer after all attempts; the slab is not tried again."""


class StoppedError(BuildError):
    """The build stops, and the same command resumes it."""


class OutputError(StoppedError):
    """The output cannot be written or read."""
