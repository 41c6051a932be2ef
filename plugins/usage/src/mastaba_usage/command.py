"""The command ``mastaba usage``."""

from __future__ import annotations

import json
import sys
from argparse import SUPPRESS
from pathlib import Path
from typing import TYPE_CHECKING

from mastaba.api.commands import USAGE, add_server_json, failed, print_json
from mastaba.errors import MastabaError
from mastaba_usage.database import NUMBERS
from mastaba_usage.errors import UsageError
from mastaba_usage.front_logs import FORMATS
from mastaba_usage.reading import (
    DEFAULT,
    as_csv,
    as_parquet,
    as_table,
    columns,
    conditions,
    days,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from mastaba.api.services import Site
    from mastaba_usage.settings import UsageSettings

_HEAT = "show how often each area of a layer was requested, as GeoJSON"
_HELP = """\
Shows who used which layers, and how much, at most a minute behind.
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
    parser.add_argument("--format", choices=("table", "csv", "json", "parquet"), default="table")
    parser.set_defaults(run=_show)
    actions = parser.add_subparsers(metavar="ACTION")
    for name, metavar, run, text in (
        ("merge", "DATABASE", _merge, "take over the days of other nodes"),
        ("forget", "KEY", _forget, 'replace keys by "removed"; sums stay'),
        ("import", "FILE", _import, "count the access logs of a front server"),
    ):
        action = actions.add_parser(name, help=text, description=text)
        add_server_json(action)
        action.add_argument("values", nargs="+", metavar=metavar)
        action.set_defaults(run=run)
        if name == "import":
            action.add_argument(
                "--format", dest="log_format", choices=FORMATS, required=True, help="of the logs"
            )
    action = actions.add_parser("heatmap", help=_HEAT, description=_HEAT)
    add_server_json(action)
    action.add_argument("layer", metavar="LAYER")
    # Without a default, which would replace what precedes the action.
    for name, dest, text in (
        ("--from", "first", "first day (UTC)"),
        ("--to", "last", "last day (UTC)"),
    ):
        action.add_argument(name, dest=dest, metavar="DAY", default=SUPPRESS, help=text)
    action.add_argument("--level", default="", help="only this tile matrix")
    action.add_argument("--format", choices=("geojson",), default="geojson")
    action.set_defaults(run=_show_heat_map)


def _reporting(run: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    def reporting(arguments: argparse.Namespace) -> int:
        try:
            return run(arguments)
        except MastabaError as error:
            return failed(error)
        except ValueError as error:
            return failed(error, status=USAGE)

    return reporting


@_reporting
def _show(arguments: argparse.Namespace) -> int:
    is_binary = arguments.format == "parquet"
    if is_binary and sys.stdout.isatty():
        raise ValueError("Parquet is not text: write it to a file, with > usage.parquet")
    database = _settings(_site(arguments)).database
    first, last = days(arguments.first, arguments.last)
    by = columns(arguments.by)
    rows = list(database.sums(first, last, by, conditions(arguments.where)))
    names = [*by, *NUMBERS]
    if arguments.format == "json":
        print_json({"from": first, "to": last, "usage": rows})
    elif is_binary:
        sys.stdout.buffer.write(as_parquet(rows, names))
    else:
        form = as_csv if arguments.format == "csv" else as_table
        sys.stdout.write(form(rows, names))
    return 0


@_reporting
def _show_heat_map(arguments: argparse.Namespace) -> int:
    from mastaba_usage.heat import collection

    site = _site(arguments)
    layer = site.catalogue.layers.get(arguments.layer)
    if layer is None:
        raise UsageError(f"there is no layer {arguments.layer}")
    settings = _settings(site)
    if not settings.heat:
        raise UsageError("no areas are counted: plugins.usage.heat is not true in server.json")
    period = days(arguments.first, arguments.last)
    blocks = settings.database.blocks(*period, layer.id, arguments.level)
    print_json(json.loads(b"".join(collection(layer, blocks, period))))
    return 0


@_reporting
def _merge(arguments: argparse.Namespace) -> int:
    database = _settings(_site(arguments)).database
    for path in arguments.values:
        database.merge(Path(path))
    return 0


@_reporting
def _forget(arguments: argparse.Namespace) -> int:
    database = _settings(_site(arguments)).database
    for key in arguments.values:
        print(f"{key}: {database.forget(key)} rows")
    return 0


@_reporting
def _import(arguments: argparse.Namespace) -> int:
    from mastaba_usage.importing import LogCounter, import_log

    site = _site(arguments)
    database, counter = _settings(site).database, LogCounter(site)
    for path in arguments.values:
        reader = FORMATS[arguments.log_format]()
        found = import_log(Path(path), reader, counter, database)
        report = f"{path}: {found.lines:,} requests counted"
        if found.before:
            report += f"; {found.before:,} bytes were counted before"
        if found.bad:
            report += f"; {found.bad:,} lines are not of the format {arguments.log_format}"
        print(report)
    return 0


def _site(arguments: argparse.Namespace) -> Site:
    """Return what a server.json publishes.

    Raises:
        MastabaError: the configuration cannot be used.
    """
    from mastaba.api.tools import create_application

    return create_application(arguments.file).site


def _settings(site: Site) -> UsageSettings:
    """Return the settings of a site.

    Raises:
        UsageError: nothing is counted with them.
    """
    from mastaba_usage.settings import UsageSettings

    found = UsageSettings.of(site.plugin_settings.get("usage", {}))
    if found is None:
        raise UsageError("nothing is counted: plugins.usage.directory is missing in server.json")
    return found
