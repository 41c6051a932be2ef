"""Collection of the problems of a configuration."""

from __future__ import annotations

from collections.abc import Iterable

from mastaba.model.fault import Fault, Severity


class Faults:
    """Faults of one load, collected so that all are reported at once."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []

    def error(self, file: str, path: str, reason: str, remedy: str = "") -> None:
        """Record a fault: the item cannot be used. The arguments are those of `Fault`."""
        self._faults.append(Fault(Severity.ERROR, file, path, reason, remedy))

    def warning(self, file: str, path: str, reason: str, remedy: str = "") -> None:
        """Record a warning: the item is used, but changed. The arguments are those of `Fault`."""
        self._faults.append(Fault(Severity.WARNING, file, path, reason, remedy))

    def extend(self, faults: Iterable[Fault]) -> None:
        """Record faults of another load."""
        self._faults.extend(faults)

    @property
    def all(self) -> tuple[Fault, ...]:
        """Faults and warnings, in the order in which they were recorded."""
        return tuple(self._faults)

    @property
    def errors(self) -> tuple[Fault, ...]:
        """Faults that are not warnings."""
        return tuple(fault for fault in self._faults if fault.severity is Severity.ERROR)
