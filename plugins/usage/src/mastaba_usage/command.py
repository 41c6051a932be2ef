"""The command ``mastaba usage``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from mastaba.api.commands import USAGE, add_server_json, print_json
from mastaba.errors import MastabaError
from mastaba_usage.database import NUMBERS
from mastaba_usage.errors import UsageError
from mastaba_usage.reading import DEFAULT, as_csv, as_table, columns, conditions, days

if TYPE_CHECKING:
    import argparse

    from mastaba_usage.settings import UsageSettings

_HELP = """\
Shows who used which layers, and how much, at most a minute behind. `usage merge DATABASE…` takes
over the days of other nodes; `usage forget KEY` replaces a key by "removed", sums stay.
"""


def add_command(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "usage", help="show who used which layers, and how much", description=_HELP
    )
    add_server_json(parser)
    parser.add_argument("--from", dest="first", metavar="DAY", help="first day (UTC)")
    parser.add_argument("--to", dest="last", metavar="DAY", help="last day (UTC)")
    parser.add_argument(
        "--by", default=DEFAULT, metavar="COLUMNS", help=f"with commas (default: {DEFAULT})"
    )
    parser.add_argument(
        "--where", action="append", default=[], metavar="COLUMN=VALUE", help="only these"
    )
    parser.add_argument("--format", choices=("table", "csv", "json"), default="table")
    parser.add_argument("action", nargs="?", choices=("merge", "forget"), metavar="merge|forget")
    parser.add_argument("values", nargs="*", metavar="DATABASE|KEY")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    try:
        settings = _settings(arguments.file)
        if arguments.action == "merge":
            for path in arguments.values:
                settings.database.merge(Path(path))
            return 0
        if arguments.action == "forget":
            for key in arguments.values:
                print(f"{key}: {settings.database.forget(key)} rows")
            return 0
        first, last = days(arguments.first, arguments.last)
        by = columns(arguments.by)
        rows = settings.database.sums(first, last, by, conditions(arguments.where))
    except MastabaError as error:
        return _fail(str(error), 1)
    except ValueError as error:
        return _fail(str(error), USAGE)
    names = [*by, *NUMBERS]
    if arguments.format == "json":
        print_json({"from": first, "to": last, "usage": rows})
    else:
        form = as_csv if arguments.format == "csv" else as_table
        sys.stdout.write(form(rows, names))
    return 0


def _settings(file: str) -> UsageSettings:
    """Return the settings in a server.json.

    Raises:
        UsageError: nothing is counted with them.
        MastabaError: the configuration cannot be used.
    """
    from mastaba.api.tools import create_application
    from mastaba_usage.settings import UsageSettings

    site = create_application(file).site
    found = UsageSettings.of(site.plugin_settings.get("usage", {}))
    if found is None:
        raise UsageError("nothing is counted: plugins.usage.directory is missing in server.json")
    return found


def _fail(reason: str, status: int) -> int:
    sys.stderr.write(f"mastaba: {reason}\n")
    return status
