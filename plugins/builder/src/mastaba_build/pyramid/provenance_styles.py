"""Styles that colour source numbers."""

from __future__ import annotations

import colorsys
from collections.abc import Mapping
from typing import Any


def style_of(table: Mapping[str, Any], name: str, by: str) -> dict[str, Any]:
    """Return a style that colours source numbers.

    Args:
        table: of sources.
        name: of the pyramid.
        by: ``group``, ``year`` or ``source``.
    """
    values = {row["number"]: _value(row, by) for row in table["sources"]}
    known = sorted(set(values.values()))
    colours = [{"value": 0, "red": 0, "green": 0, "blue": 0, "alpha": 0}]
    for number, value in sorted(values.items()):
        place = known.index(value)
        if by == "year":
            hue = 0.66 * (1 - place / max(1, len(known) - 1))
        else:
            hue = place * 0.618033988749895 % 1
        brightness = 0.95 if value else 0.55
        red, green, blue = (
            round(255 * part) for part in colorsys.hsv_to_rgb(hue, 0.65, brightness)
        )
        colours.append({"value": number, "red": red, "green": green, "blue": blue, "alpha": 255})
    return {
        "identifier": f"{name}_sources_{by}",
        "title": f"Sources of {name} by {by}",
        "abstract": ", ".join(str(one) for one in known if one != "")[:400],
        "keywords": ["sources", by],
        "palette": {
            "no_alpha": False,
            "rgb_continuous": False,
            "alpha_continuous": False,
            "colours": colours,
        },
    }


def _value(row: Mapping[str, Any], by: str) -> str:
    if by == "source":
        return f"{row['number']:08}"
    if by == "year":
        return str(row.get("date") or row.get("start") or "")[:4]
    return str(row.get("group") or "")
