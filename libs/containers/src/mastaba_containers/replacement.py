"""Archives that are replaced while they are served."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Mapping
from typing import Final

logger: Final = logging.getLogger("mastaba")


class LoadedFacts:
    """What was found in an archive at load, and stays published when it is replaced.

    Args:
        name: of the archive, for messages.
        facts: by the words of messages, as in ``{"bounds": ...}``.
    """

    __slots__ = ("_facts", "_name", "_told")

    def __init__(self, name: str, facts: Mapping[str, object]) -> None:
        self._name = name
        self._facts = facts
        self._told: list[Hashable] = []

    def compare(self, facts: Mapping[str, object], version: Hashable) -> None:
        """Log once for each version, in each process, what is different in it."""
        changed = [word for word, value in self._facts.items() if facts[word] != value]
        if changed and self._told != [version]:
            self._told = [version]
            words = " and ".join(changed)
            logger.warning(
                "%s was replaced by an archive with other %s: reload to publish them",
                *(self._name, words),
            )
