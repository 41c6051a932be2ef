"""Problems of documents: each with its file, its path in it, a reason and a remedy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import NoReturn


class Severity(StrEnum):
    """Severity of a problem.

    Attributes:
        ERROR: the item cannot be used.
        WARNING: the item is used, but changed.
    """

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Fault:
    """One problem.

    Attributes:
        severity: how serious it is.
        file: the file or object with the problem.
        path: JSON path in the file, such as ``$.logger.level``; ``$`` for the whole document.
        reason: what is wrong.
        remedy: what to do about it.
    """

    severity: Severity
    file: str
    path: str
    reason: str
    remedy: str = ""

    def __str__(self) -> str:
        remedy = f" ({self.remedy})" if self.remedy else ""
        return f"{self.severity}: {self.file}: {self.path}: {self.reason}{remedy}"


class Faults:
    """Problems of one load, collected so that all are reported at once."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []

    def error(self, file: str, path: str, reason: str, remedy: str = "") -> None:
        """Record an error: the item cannot be used. The arguments are those of `Fault`."""
        self._faults.append(Fault(Severity.ERROR, file, path, reason, remedy))

    def warning(self, file: str, path: str, reason: str, remedy: str = "") -> None:
        """Record a warning: the item is used, but changed. The arguments are those of `Fault`."""
        self._faults.append(Fault(Severity.WARNING, file, path, reason, remedy))

    def extend(self, faults: Iterable[Fault]) -> None:
        """Record problems of another load."""
        self._faults.extend(faults)

    @property
    def all(self) -> tuple[Fault, ...]:
        """Errors and warnings, in the order in which they were recorded."""
        return tuple(self._faults)

    @property
    def errors(self) -> tuple[Fault, ...]:
        """Problems that are not warnings."""
        return tuple(fault for fault in self._faults if fault.severity is Severity.ERROR)


class UnusableError(Exception):
    """The item that is being loaded cannot be used. The reason is recorded."""


class FileFaults:
    """Problems of one file. The arguments of the methods are those of `Fault`.

    Args:
        faults: gets the problems.
        file: path of the file.

    Attributes:
        all: problems of all files.
        file: as given.
    """

    def __init__(self, faults: Faults, file: str) -> None:
        self.all = faults
        self.file = file
        self._is_unusable = False

    def error(self, path: str, reason: str, remedy: str) -> None:
        """Record an error."""
        self._is_unusable = True
        self.all.error(self.file, path, reason, remedy)

    def warning(self, path: str, reason: str, remedy: str) -> None:
        """Record a warning."""
        self.all.warning(self.file, path, reason, remedy)

    def refuse(self, path: str, reason: str, remedy: str) -> NoReturn:
        """Record an error, and raise `UnusableError`."""
        self.error(path, reason, remedy)
        raise UnusableError

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Load a part of the file. If it is unusable, go on, to find all problems at once."""
        try:
            yield
        except UnusableError:
            self._is_unusable = True

    def require_usable(self) -> None:
        """Raise `UnusableError` if there was an error, or a failed attempt."""
        if self._is_unusable:
            raise UnusableError
