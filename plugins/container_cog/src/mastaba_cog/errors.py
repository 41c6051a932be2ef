"""Why a file cannot be published."""

from __future__ import annotations


class CogError(ValueError):
    """A TIFF that cannot be published as it is.

    Attributes:
        reason: what is wrong with it.
        remedy: what the operator can do.
    """

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(f"{reason}; {remedy}")
        self.reason = reason
        self.remedy = remedy


CONVERT = "convert it with gdal_translate -of COG"
"""The remedy for files whose structure is unsuitable."""


def damaged(reason: str) -> CogError:
    """Return the error of a file that breaks the rules of TIFF."""
    return CogError(reason, "the file is damaged or incomplete: write it again")


class NotTiffError(CogError):
    """A file that does not begin as a TIFF does.

    Attributes:
        head: its first bytes.
    """

    def __init__(self, head: bytes) -> None:
        super().__init__("it does not begin as a TIFF does", "name a GeoTIFF")
        self.head = head
