"""What ``NAME.history.json`` says about a pyramid (time.md section 4.1)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

KEPT: Final = "kept"
LARGEST: Final = 4 * 1024**2
"""Bytes of a history; a larger one is not used."""

_GENERATION: Final = re.compile(r"[0-9a-f]{12}")
_COUNTS: Final = {"sources": ("added", "removed", "changed"), "slabs": ("written", "linked")}
_LONGEST: Final = 1000
_NOTHING: Final = ()

Box = tuple[float, ...]
"""xmin, ymin, xmax, ymax in the CRS of the tile matrix set; empty for nothing."""


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a pyramid.

    Attributes:
        number: from 1.
        generation: by which it was asked for; it may have several, with the same slabs.
        state: ``kept``, ``pruned``, ``injected`` or ``withdrawn``.
        built: when, as the builder writes it.
        bbox: of what differs from the version before; None for anything.
        since: generation of that version; empty if it is unknown.
        facts: ``sources`` and ``slabs``, numbers by kind.
        descriptor: generation of its descriptor now.
    """

    number: int
    generation: str
    state: str
    built: str
    bbox: Box | None
    since: str
    facts: Mapping[str, Any]
    descriptor: str


@dataclass(frozen=True, slots=True)
class Publication:
    """A publication of a pyramid or of a layer.

    Attributes:
        token: generation; of a layer of several pyramids, theirs in order, joined by dots.
        since: when it began.
        message, by: as its publisher said.
        numbers: of the versions of the pyramids.
        bbox: of what differs from the publication before; None for anything.
    """

    token: str
    since: datetime
    message: str
    by: str
    numbers: tuple[int, ...]
    bbox: Box | None


@dataclass(frozen=True, slots=True)
class History:
    """The history of a pyramid, up to what the server publishes.

    Attributes:
        versions: by each of their generations.
        published: the oldest first.
        current: generation that the server publishes.
    """

    versions: Mapping[str, Version]
    published: tuple[Publication, ...]
    current: str

    @classmethod
    def parse(cls, data: bytes, current: str) -> History | None:
        """Return the history in a document.

        Args:
            current: generation that the server publishes.

        Returns:
            None if this was never published, as the document says: it belongs to another pyramid,
            or was written by hand.

        Raises:
            ValueError: the document is damaged or too large.
        """
        if len(data) > LARGEST:
            raise ValueError(f"it has more than {LARGEST} bytes")
        try:
            document = json.loads(data)
            versions = _versions(document["versions"])
            numbers = {one.number: one.descriptor for one in versions.values()}
            rows = [_row(row, numbers) for row in document["published"]]
        except (KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from None
        while rows and rows[-1][0] != current:
            rows.pop()
        if not rows or any(row[0] not in versions for row in rows):
            return None
        published = []
        before = ""
        for generation, since, message, by in rows:
            version = versions[generation]
            bbox = _difference(versions, before, version)
            number = (version.number,)
            published.append(Publication(generation, since, message, by, number, bbox))
            before = generation
        return cls(versions, tuple(published), current)


def _versions(document: Mapping[str, Any]) -> dict[str, Version]:
    versions = {}
    for number, entry in document.items():
        generation, bbox = _generation(entry["generation"]), entry.get("bbox")
        if bbox is not None and len(bbox) not in (0, 4):
            raise ValueError(f"bbox of version {number} is not a box")
        since = entry.get("since", "")
        if isinstance(since, int):
            since = _generation(document[str(since)]["generation"])
        one = Version(
            int(number),
            generation,
            str(entry.get("state", KEPT)),
            str(entry.get("built", "")),
            None if bbox is None else tuple(map(float, bbox)),
            str(since),
            {kind: _counts(entry.get(kind, {}), names) for kind, names in _COUNTS.items()},
            generation,
        )
        versions[generation] = one
        for former in entry.get("former", ()):
            state = one.state if former["state"] == KEPT else str(former["state"])
            # A lost generation must not hide one that exists.
            versions.setdefault(
                _generation(former["generation"]),
                replace(one, generation=_generation(former["generation"]), state=state),
            )
    return versions


def _counts(counts: Any, names: Sequence[str]) -> dict[str, int]:
    """Return numbers by kind, which older documents have as an object."""
    if isinstance(counts, list):
        return dict(zip(names, map(int, counts), strict=True))
    return {str(key): int(count) for key, count in counts.items()}


def _generation(text: Any) -> str:
    if not isinstance(text, str) or _GENERATION.fullmatch(text) is None:
        raise ValueError(f"{text!r:.40} is not a generation")
    return text


def _row(row: Mapping[str, Any], numbers: Mapping[int, str]) -> tuple[str, datetime, str, str]:
    since = datetime.fromisoformat(str(row["from"]))
    if since.tzinfo is None:
        since = since.replace(tzinfo=UTC)
    message, by = (
        str(row.get(key, usual))[:_LONGEST] for key, usual in (("message", ""), ("by", "update"))
    )
    generation = row.get("generation") or numbers[row["number"]]
    return _generation(generation), since.astimezone(UTC), message, by


def _difference(versions: Mapping[str, Version], before: str, version: Version) -> Box | None:
    """Return the box of what differs between two publications; None for anything."""
    earlier = versions.get(before)
    if earlier is None:
        return None
    if earlier.number == version.number:
        return _NOTHING if version.state == KEPT and earlier.state == KEPT else None
    for later, base in ((version, earlier), (earlier, version)):
        origin = versions.get(later.since)
        if origin is not None and origin.number == base.number:
            return later.bbox
    return None
