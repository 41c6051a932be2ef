"""Problems of a configuration."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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
