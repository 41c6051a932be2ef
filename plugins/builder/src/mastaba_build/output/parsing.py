"""JSON of the documents of a pyramid."""

from __future__ import annotations

import json
from typing import Any


def parsed(data: bytes) -> Any:
    """Return the value of a document.

    Raises:
        ValueError: it is not JSON, or nested too deeply.
    """
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
