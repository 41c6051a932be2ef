"""The versions of WMS, and what of their requests is spelt differently."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from typing import Final


class Version(Enum):
    """A version of the protocol; the value is its number."""

    V1_3_0 = "1.3.0"
    V1_1_1 = "1.1.1"

    @property
    def crs_parameter(self) -> str:
        """Name of the parameter with the CRS."""
        return "CRS" if self is Version.V1_3_0 else "SRS"

    @property
    def point_parameters(self) -> tuple[str, str]:
        """Names of the parameters with column and row of a pixel."""
        return ("I", "J") if self is Version.V1_3_0 else ("X", "Y")

    @property
    def follows_axis_order(self) -> bool:
        """Whether coordinates are in the axis order of the CRS, and not always x before y."""
        return self is Version.V1_3_0


# 1.1.0 asks for the same as 1.1.1 and is answered with it.
OF_REQUESTS: Final = {
    "1.3.0": Version.V1_3_0,
    "1.1.1": Version.V1_1_1,
    "1.1.0": Version.V1_1_1,
}

_PARTS: Final = 3
_NUMBER: Final = re.compile("[0-9]{1,9}")


def named(parameters: Mapping[str, str]) -> str:
    """Return the version that a request names, empty without one.

    WMTVER is the name of the parameter before 1.1.0 (OGC 01-068r3 clause 6.2.4 and annex A).
    """
    return parameters.get("version") or parameters.get("wmtver") or ""


def negotiated(parameters: Mapping[str, str]) -> Version:
    """Return the version of capabilities and error reports (OGC 06-042 clause 6.2.4).

    It is the version that the request names. For an unknown number it is the highest version
    below that number, or the lowest version of all. Without a valid number it is the highest
    version.
    """
    parts = named(parameters).split(".")
    if len(parts) > _PARTS or not all(_NUMBER.fullmatch(part) for part in parts):
        return Version.V1_3_0
    wanted = [*map(int, parts), 0, 0]
    return Version.V1_3_0 if wanted[:_PARTS] >= [1, 3, 0] else Version.V1_1_1
