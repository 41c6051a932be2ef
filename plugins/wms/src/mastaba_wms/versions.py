"""The versions of WMS, and what of their requests is spelt differently."""

from __future__ import annotations

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


def negotiated(parameters: Mapping[str, str]) -> Version:
    """Return the version to answer in whatever the client names: 1.3.0 unless it is known.

    For capabilities and error reports (wms.md section 1).
    """
    return OF_REQUESTS.get(parameters.get("version", ""), Version.V1_3_0)
