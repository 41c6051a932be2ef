"""One thing that is wrong with a configuration, told so that it can be mended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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
