"""Where the values of a file come from, for its tags (time.md section 5.5)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from mastaba.api.catalogue import BoundingBox, Layer
from mastaba_documents.times import Precision, parse_time, time_text
from mastaba_server.threads.recent import Recent

SourcesIn = Callable[[Layer, BoundingBox], Sequence[Mapping[str, Any]]]
"""What returns the rows of the sources in a box in CRS84, the largest share first."""

_MOST: Final = 256
"""Files whose origin is kept."""
_VALIDITY: Final = 300.0
"""Seconds after which an origin is found again."""
_LARGEST: Final = 8192
"""Bytes of the list of sources; those with the smallest shares are left out."""


class Origin(NamedTuple):
    """The sources of a file.

    Attributes:
        sources: JSON list, the largest share first; empty if they are unknown.
        date: of all of them, as TIFF writes it (``DateTime``, tag 306); empty if they have several,
            or none that names a day.
    """

    sources: str = ""
    date: str = ""

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, Any]]) -> Origin:
        """Return the origin in rows of sources (docs/source-table.md), the largest share first."""
        shown, size = [], 2
        for row in rows:
            text = json.dumps(row, ensure_ascii=False, separators=(",", ":"))
            size += len(text.encode()) + 1
            if size > _LARGEST:
                break
            shown.append(text)
        dates = {str(row.get("date", "")) for row in rows}
        sources = f"[{','.join(shown)}]" if shown else ""
        return cls(sources, _date(dates.pop()) if len(dates) == 1 else "")


def _date(text: str) -> str:
    found = parse_time(text)
    if found is None or found.precision is None or found.precision < Precision.DAY:
        return ""
    return time_text(found.start, Precision.SECOND).rstrip("Z").replace("-", ":").replace("T", " ")


UNKNOWN: Final = Origin()


class Origins:
    """The origins of the files of a service, each found once for all its ranges.

    Args:
        sources: of a layer in a box.
    """

    def __init__(self, sources: SourcesIn) -> None:
        self._sources = sources
        self._known: Recent[tuple[float, Origin]] = Recent(_MOST)

    def of(self, layer: Layer, box: BoundingBox) -> Origin:
        """Return the origin of a file.

        Args:
            box: CRS84, degrees.

        Raises:
            MastabaError: the sources cannot be read.
        """
        key, now = (layer.key, layer.generation, box), time.monotonic()
        known = self._known.get(key)
        if known is None or now >= known[0]:
            found = Origin.of(self._sources(layer, box))
            known = self._known.add(key, (now + _VALIDITY, found))
        return known[1]
