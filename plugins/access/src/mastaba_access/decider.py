"""What checks, explanations and the administration know about the gate."""

from __future__ import annotations

from typing import Protocol

from mastaba.api.access import Identifier
from mastaba_access.decisions import AccessClass
from mastaba_access.rules.kept import KeptRules
from mastaba_access.rules.who import Visit


class Decider(Protocol):
    """What decides: the gate.

    Attributes:
        rules: those in use.
        identifiers: by name.
    """

    rules: KeptRules
    identifiers: dict[str, Identifier]

    def class_of(self, visit: Visit, at: float) -> AccessClass:
        """Return the class of a principal at a place and a moment, Unix seconds."""

    def poll(self) -> bool:
        """Apply changes of files and stores in this process; return whether there were any."""
