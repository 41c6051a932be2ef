"""Looks for variants that were added, replaced or removed (time.md section 1.2)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, NoReturn

from mastaba.api.dimensions import VariantSource
from mastaba.api.documents import UnusableError
from mastaba_dimensions.listing import Row, rows_of
from mastaba_ows.dimensions import Dimension

_REST: Final = 60.0
"""Seconds after which variants that could not be loaded are tried again."""


class Watch:
    """What looks at the stack or the template of a layer from time to time.

    Args:
        source: of the layer.
        period: seconds between two looks.

    Attributes:
        is_faulty: whether the last look found something else than what is in use, which could not
            be loaded, or nothing that can be read.
    """

    def __init__(self, source: VariantSource, period: float) -> None:
        self._source = source
        self._period = period
        self._looked = self._tried = time.monotonic()
        self._seen: Sequence[Row] | None = []
        self.is_faulty = False

    @classmethod
    def of(cls, source: VariantSource) -> Watch | None:
        """Return the watch that the descriptor of a layer wants, or None."""
        variants = source.document.get("variants")
        period = variants.get("watch") if isinstance(variants, dict) else None
        return None if period is None else cls(source, period)

    def is_due(self) -> bool:
        """Return whether it is time for a look, and remember that."""
        now = time.monotonic()
        if now < self._looked + self._period:
            return False
        self._looked = now
        return True

    def differs(self, listing: Sequence[Row], dimensions: Iterable[Dimension], loader: Any) -> bool:
        """Return whether there are other variants than those listed.

        What could not be loaded and is still the same is tried again after a minute.

        Raises:
            MastabaError: a storage does not answer.
        """
        again = loader.again()
        source = replace(self._source, reader=again.reader, loader=again, refuse=_refused)
        found: Sequence[Row] | None
        # If the layer is loaded, its new variants have another watch.
        self.is_faulty = True
        try:
            found = rows_of(source, dimensions)
        except UnusableError:
            found = None  # whoever loads the layer reports it
        if found == listing:
            self.is_faulty = False
            return False
        now = time.monotonic()
        if found == self._seen and now < self._tried + _REST:
            return False
        self._seen, self._tried = found, now
        return True


def _refused(_key: str, _reason: str, _remedy: str) -> NoReturn:
    raise UnusableError
