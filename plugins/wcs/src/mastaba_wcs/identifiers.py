"""Coverage identifiers, which must be names of XML (OGC 09-110r4 clause 7.4)."""

from __future__ import annotations

import re
from typing import Final

# The underscore of a text that looks like an escape is escaped too, so that no two layers have the
# same identifier. No identifier contains "_x_".
_ESCAPED: Final = re.compile(r"_(?=x)|[^A-Za-z0-9._-]")
_NO_START: Final = re.compile(r"[0-9.-]")


def coverage_id(layer: str) -> str:
    """Return the identifier of a layer's coverage: an NCName, and different for each layer.

    Characters that a name must not contain become ``_xHH_``, with their code in hexadecimal digits.
    """
    name = _ESCAPED.sub(_escape, layer)
    return _NO_START.sub(_escape, name[:1]) + name[1:]


def _escape(match: re.Match[str]) -> str:
    return f"_x{ord(match[0]):X}_"
