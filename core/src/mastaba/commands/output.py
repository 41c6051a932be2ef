"""Output of commands."""

from __future__ import annotations

import json
import sys
from typing import Any, Final

from mastaba.errors import escaped

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


def failed(*reasons: object, status: int = 1, name: str = "mastaba") -> int:
    """Report why a command fails, each reason on a line of its own; return the exit status.

    Args:
        reasons: on stderr, with control characters escaped.
        name: of the command, in front of each reason.
    """
    sys.stderr.writelines(escaped(f"{name}: {reason}") + "\n" for reason in reasons)
    return status
