"""Collection of the problems of a configuration."""

from __future__ import annotations

from collections.abc import Iterable

from mastaba.model.fault import Fault, Severity


class Faults:
    """Faults of one load, collected so that all are reported at once."""

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
