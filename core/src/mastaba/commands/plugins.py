"""``mastaba plugins``: list the installed plugins and what they provide."""

from __future__ import annotations

import argparse

from mastaba.errors import PluginError
from mastaba.plugins.manager import diagnose


def run(arguments: argparse.Namespace) -> int:
    """Print a line for each plugin; return 0 if all can be used, else 1."""
    try:
        infos = diagnose(arguments.block)
    except PluginError as error:
        print(f"error: {error}")
        return 1
    rows = [("PLUGIN", "DISTRIBUTION", "VERSION", "PROVIDES")]
    for info in infos:
        if info.error:
            provides = f"BROKEN: {info.error}"
        elif info.blocked:
            provides = "blocked"
        else:
            provides = ", ".join(info.provides) or "nothing"
        rows.append((info.name, info.distribution, info.version, provides))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        print("  ".join([*cells, row[3]]))
    return 1 if any(info.error for info in infos) else 0
