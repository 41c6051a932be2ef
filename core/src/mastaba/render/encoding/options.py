"""FORMAT_OPTIONS shared by several encoders (wms.md section 3.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

DEFAULT_QUALITY: Final = 75
_BEST: Final = 100


def quality(options: Mapping[str, str]) -> int:
    """Return the option ``quality``, 1 to 100; 75 if it is absent or invalid."""
    text = options.get("quality", "")
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(_BEST))):
        return DEFAULT_QUALITY
    return int(text) if 1 <= int(text) <= _BEST else DEFAULT_QUALITY
