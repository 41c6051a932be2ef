"""What can be wrong with a configuration, told so that it can be mended."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from mastaba.errors import ConfigurationError


class Severity(StrEnum):
    """ERROR: what it concerns cannot be used. WARNING: it is used, but not as written."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong.

    Attributes:
        file: the file or object at fault.
        path: JSON path in it, such as ``$.logger.level``; ``$`` for the whole document.
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
    """Collects the faults of one load, so that all of them can be told at once."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []

    def error(self, file: str, path: str, reason: str, remedy: str = "") -> None:
        self._faults.append(Fault(Severity.ERROR, file, path, reason, remedy))

    def warning(self, file: str, path: str, reason: str, remedy: str = "") -> None:
        self._faults.append(Fault(Severity.WARNING, file, path, reason, remedy))

    def extend(self, faults: Iterable[Fault]) -> None:
        self._faults.extend(faults)

    @property
    def all(self) -> tuple[Fault, ...]:
        return tuple(self._faults)

    @property
    def errors(self) -> tuple[Fault, ...]:
        return tuple(fault for fault in self._faults if fault.severity is Severity.ERROR)

    def raise_errors(self) -> None:
        """Raise a `ConfigurationError` with every error, when there is one."""
        if self.errors:
            raise ConfigurationError(self.errors)
