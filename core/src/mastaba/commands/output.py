"""Output of commands."""

from __future__ import annotations

import json
import sys
from typing import Any, Final

USAGE: Final = 2
"""Exit status for wrong usage."""


def print_json(document: Any) -> None:
    """Print a document, in ASCII if the terminal cannot show all of it."""
    text = json.dumps(document, indent=2, ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(document, indent=2)
    print(text)
