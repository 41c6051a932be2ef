"""Limits of what a rule allows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mastaba_documents.times import Time, interval_of, parse_time

_CUTS: Final = ("keep", "mask", "drop")
"""From the most generous to the strictest."""

_NUMBERS: Final = ("pixels", "width", "height", "layers", "points", "tiles")

Range = tuple[float, float]
EVERYTHING: Final[Range] = (0.0, math.inf)

Times = tuple[str, str]
ALWAYS: Final[Times] = ("", "")


@dataclass(frozen=True, slots=True)
class Limit:
    """Limits, of one rule or of several together.

    Attributes:
        areas: names of areas; only what is in all of them is shown.
        boxes: likewise of boxes west, south, east, north in WGS 84 degrees.
        cut: what happens to cut tiles; empty for the default, ``mask``.
        resolution: least and greatest size of a pixel, metres.
        scale: least and greatest scale denominator.
        time: first and last time of variants, both included, ISO 8601 in UTC; empty for no limit.
        formats: media types in lower case; None for all.
        pixels, width, height, layers: of a map; None for no limit.
        points, tiles: of a query of heights; None for no limit.
    """

    areas: frozenset[str] = frozenset()
    boxes: frozenset[tuple[float, ...]] = frozenset()
    cut: str = ""
    resolution: Range = EVERYTHING
    scale: Range = EVERYTHING
    time: Times = ALWAYS
    formats: frozenset[str] | None = None
    pixels: int | None = None
    width: int | None = None
    height: int | None = None
    layers: int | None = None
    points: int | None = None
    tiles: int | None = None

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Limit:
        """Return the limits in the body of a rule, which is valid."""
        formats = body.get("formats")
        numbers: dict[str, Any] = {name: body.get(name) for name in _NUMBERS}
        return cls(
            areas=frozenset([body["area"]] if "area" in body else ()),
            cut=body.get("cut", ""),
            resolution=_range(body.get("resolution", EVERYTHING)),
            scale=_range(body.get("scale", EVERYTHING)),
            time=_times(body.get("time", ALWAYS)),
            formats=None if formats is None else frozenset(map(media_type, formats)),
            **numbers,
        )

    @property
    def is_empty(self) -> bool:
        """Whether nothing can be within these limits, whatever the layer."""
        ranges = (self.resolution, self.scale)
        first, last = self.time
        is_never = bool(first and last) and _order(first) > _order(last)
        return is_never or any(low > high for low, high in ranges) or self.formats == frozenset()

    @property
    def sizes(self) -> dict[str, Any]:
        """Limits of maps and queries: the smallest of any layer holds for all of a service."""
        found = {name: getattr(self, name) for name in _NUMBERS}
        return {name: value for name, value in found.items() if value is not None}

    def to_json(self) -> dict[str, Any]:
        """Return what differs from no limit, for explanations and digests."""
        found: dict[str, Any] = {
            "areas": sorted(self.areas),
            "boxes": sorted(map(list, self.boxes)),
            "cut": self.cut,
            "formats": sorted(self.formats) if self.formats is not None else None,
            **self.sizes,
        }
        for name in ("resolution", "scale"):
            low, high = getattr(self, name)
            if (low, high) != EVERYTHING:
                found[name] = [low, None if math.isinf(high) else high]
        if self.time != ALWAYS:
            found["time"] = list(self.time)
        return {key: value for key, value in found.items() if value not in (None, [], "")}


NO_LIMIT: Final = Limit()


def combined(limits: Iterable[Limit]) -> Limit:
    """Return what is within all of some limits; it may be empty."""
    result = NO_LIMIT
    for one in limits:
        formats = result.formats
        if one.formats is not None:
            formats = one.formats if formats is None else formats & one.formats
        numbers: dict[str, Any] = {
            name: _least(getattr(result, name), getattr(one, name)) for name in _NUMBERS
        }
        result = Limit(
            areas=result.areas | one.areas,
            boxes=result.boxes | one.boxes,
            cut=max(result.cut, one.cut, key=_strictness),
            resolution=_common(result.resolution, one.resolution),
            scale=_common(result.scale, one.scale),
            time=_common_times(result.time, one.time),
            formats=formats,
            **numbers,
        )
    return result


def media_type(text: str) -> str:
    """Return a media type in the spelling in which they are compared."""
    return text.replace(" ", "").lower()


def _range(found: Iterable[float]) -> Range:
    low, high = found
    return float(low), float(high)


def _common(one: Range, other: Range) -> Range:
    return max(one[0], other[0]), min(one[1], other[1])


def _times(found: Sequence[str | int]) -> Times:
    """Return the first and the last instant of two times.

    Raises:
        ValueError: a text is not a time.
    """
    first, last = map(str, found)
    return first and interval_of(_time(first))[0], last and interval_of(_time(last))[1]


def _time(text: str) -> Time:
    found = parse_time(text)
    if found is None:
        raise ValueError("is not a year, month, date or instant")
    return found


def _order(text: str) -> int:
    """Return a number by which times sort: texts with fractions or negative years do not."""
    return _time(text).start


def _common_times(one: Times, other: Times) -> Times:
    firsts = [first for first in (one[0], other[0]) if first]
    lasts = [last for last in (one[1], other[1]) if last]
    return max(firsts, key=_order, default=""), min(lasts, key=_order, default="")


def _least(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else min(one, other)


def _strictness(cut: str) -> int:
    return _CUTS.index(cut) if cut else -1
