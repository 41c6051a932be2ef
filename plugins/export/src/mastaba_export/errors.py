"""Errors of exports.

::

    MastabaError
    └── ExportError
        ├── InvalidRequestError    inputs that are wrong, or do not fit the layer
        ├── ExportTooLargeError    more than an export may contain
        ├── DestinationError       something else is at the output, or its place cannot be used
        │   ├── WriteError         the output cannot be written now; the export can be resumed
        │   │   └── UploadError    the object store of the output cannot be used now
        │   └── RemovedUploadError the object store has removed the unfinished upload
        ├── EmptyExportError       no tile is stored in the area
        ├── DataChangedError       the data changed after some of it was written
        └── DamagedArchiveError    a file that `verify` examined
"""

from __future__ import annotations

from mastaba.errors import MastabaError


class ExportError(MastabaError):
    """An export is not possible; the message is for users."""


class InvalidRequestError(ExportError):
    """The inputs are wrong, or do not fit the layer.

    Args:
        message: what is wrong, and what to do.
        parameter: name of the input, as in the schema; None if it is no single one.
    """

    def __init__(self, message: str, parameter: str | None = None) -> None:
        super().__init__(message)
        self.parameter = parameter


class ExportTooLargeError(ExportError):
    """The export would be too large.

    Args:
        message: what is too large, and what to do.
        size, limit: numbers of what the message names.
    """

    def __init__(self, message: str, size: int, limit: int) -> None:
        super().__init__(message)
        self.size = size
        self.limit = limit


class DestinationError(ExportError):
    """Something else is at the output, or its place cannot be used."""


class WriteError(DestinationError):
    """The output cannot be written now, as on a full disk; the export can be resumed."""


class UploadError(WriteError):
    """The object store of the output cannot be used now; the export can be resumed."""


class RemovedUploadError(DestinationError):
    """The object store has removed the unfinished upload; the export must begin anew."""


class EmptyExportError(ExportError):
    """No tile is stored in the area."""


class InterruptedExportError(ExportError):
    """The export was stopped while its output was completed; it can be resumed."""


class DataChangedError(ExportError):
    """Slabs were replaced after some of their tiles had been written."""


class DamagedArchiveError(ExportError):
    """A file is not what an export has written."""
