"""The rules in use, read again when their files change."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Final

from mastaba.api.documents import Fault, Faults, Severity
from mastaba.errors import ConfigurationError
from mastaba_access.rules.file import load_rules
from mastaba_access.rules.ruleset import RuleSet

_last_good: Final[dict[str, RuleSet]] = {}
"""The rules that were usable last, by file: a reload with errors keeps them."""

_Signature = tuple[tuple[str, int, int, int], ...]


class KeptRules:
    """Rules that stay as they were while their file has an error.

    Args:
        file: of the rules.
        abilities: those of each enabled service.

    Attributes:
        now: the rules in use.
        faults: problems of the last load.
        is_outdated: whether the file has errors, so that earlier rules are in use.

    Raises:
        ConfigurationError: the file has an error, and no rules are known that were usable.
    """

    def __init__(self, file: str, abilities: Mapping[str, Sequence[str]]) -> None:
        self.file = file
        self.is_outdated = False
        self.faults: tuple[Fault, ...] = ()
        self._abilities = abilities
        self._files: tuple[str, ...] = (file,)
        self._seen: _Signature = ()
        found = self._load()
        if found is None:
            if file not in _last_good:
                raise ConfigurationError(_errors(self.faults))
            found = _last_good[file]
        self.now = found

    @property
    def state(self) -> str:
        """Which state of the files is in use, the same in all processes of a node."""
        return repr(self._seen)

    def poll(self) -> bool:
        """Read the rules again if a file has changed; return whether other rules are in use."""
        if self._signature() == self._seen:
            return False
        found = self._load()
        if found is None or found.digest == self.now.digest:
            return False
        self.now = found
        return True

    def _load(self) -> RuleSet | None:
        # Before reading: a change during the load is seen by the next call.
        self._seen = self._signature()
        faults = Faults()
        try:
            found = load_rules(self.file, self._abilities, faults)
        except ConfigurationError:
            self.is_outdated, self.faults = True, faults.all
            # A file that is missing, or half written, may be one that no usable rules have named.
            files = tuple(dict.fromkeys((*self._files, *(fault.file for fault in faults.all))))
            if files == self._files:
                return None
            self._files = files
            return self._load()
        self.is_outdated, self.faults = False, faults.all
        if found.files != self._files:
            self._files = found.files
            self._seen = self._signature()
        _last_good[self.file] = found
        return found

    def _signature(self) -> _Signature:
        found = []
        for file in self._files:
            try:
                status = os.stat(file)
            except OSError:
                found.append((file, 0, 0, 0))
            else:
                found.append((file, status.st_mtime_ns, status.st_size, status.st_ino))
        return tuple(found)


def _errors(faults: Sequence[Fault]) -> list[Fault]:
    return [fault for fault in faults if fault.severity is Severity.ERROR]
