"""A page on the command line, generated from the output of ``--help``."""

from __future__ import annotations

import io
import os
import re
from contextlib import redirect_stdout, suppress

from mastaba.commands.main import main

_COMMAND = re.compile(r"^ {4}([a-z][a-z-]*)\s", re.M)


def commands_page() -> str:
    """Return the help of ``mastaba`` and of each of its commands."""
    general = _help()
    parts = [
        "# Commands\n",
        "Without a command, `mastaba` starts the server. This is the output of `--help`:\n",
        _block(general),
    ]
    for name in _COMMAND.findall(general):
        parts += (f"## mastaba {name}\n", _block(_help(name)))
    return "\n".join(parts)


def _help(*arguments: str) -> str:
    os.environ |= {"COLUMNS": "88", "NO_COLOR": "1"}
    output = io.StringIO()
    # Parsers exit after they have printed their help.
    with redirect_stdout(output), suppress(SystemExit):
        main([*arguments, "--help"])
    return output.getvalue()


def _block(text: str) -> str:
    return f"```text\n{text.strip()}\n```\n"
