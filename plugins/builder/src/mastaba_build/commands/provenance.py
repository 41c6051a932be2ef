"""The command ``mastaba pyramid provenance``: the sources of pixels."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from mastaba_build.output.storage import OutputStore

_FIELDS = {
    "date": "when it was taken",
    "start": "when taking began",
    "end": "when taking ended",
    "title": "its title",
    "gsd": "size of its pixels in metres",
    "accuracy": "its accuracy in metres",
    "licence": "its licence",
    "attribution": "whom to name as the author",
    "attribution_url": "address of the author",
    "href": "its address",
    "stac": "address of its STAC item",
    "group": "what it belongs to",
}


def add_actions(actions: Any, with_output: Any, run: Callable[[argparse.Namespace], int]) -> None:
    """Add the parsers of the actions.

    Args:
        with_output: adds a parser with ``--output``.
        run: runs an action.
    """
    text = "the sources of pixels: add them to a pyramid, set their facts, check and colour them"
    parser = actions.add_parser("provenance", help=text, description=text)
    own = parser.add_subparsers(dest="provenance", required=True, metavar="ACTION")

    text = "write the numbers of polygons beside a pyramid that has no sources"
    add = own.add_parser("add", help=text, description=text)
    add.add_argument("source", metavar="DESCRIPTOR", help="descriptor of the pyramid, NAME.json")
    _add_footprints(add)

    def run_there(arguments: argparse.Namespace) -> int:
        arguments.output = arguments.source.rpartition("/")[0] or "."
        return run(arguments)

    add.set_defaults(run=run_there, act=_add)

    change = with_output(own, "set", _set, "publish a version with other facts of sources")
    change.add_argument("name", metavar="NAME", help="name of the pyramid")
    change.add_argument(
        "--from",
        dest="table",
        type=Path,
        required=True,
        metavar="FILE",
        help="CSV with a column number or id, and date, title, licence and others",
    )

    check = with_output(own, "check", _check, "compare random pixels with the sources or polygons")
    check.add_argument("name", metavar="NAME", help="name of the pyramid")
    check.add_argument("--footprints", metavar="FILE", help="file of polygons, instead of sources")
    check.add_argument("--layer", metavar="NAME", help="layer of the file of polygons")
    check.add_argument("--pixels", type=int, default=10_000, metavar="COUNT", help="default: 10000")
    check.add_argument("--seed", type=int, default=0, metavar="NUMBER", help="of the random pixels")

    style = with_output(own, "style", _style, "write a style for the pyramid of source numbers")
    style.add_argument("name", metavar="NAME", help="name of the pyramid")
    style.add_argument(
        "--by",
        choices=("group", "year", "source"),
        default="group",
        help="what has a colour (default: group)",
    )
    style.add_argument("--file", type=Path, metavar="FILE", help="default: standard output")


def _add_footprints(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "footprints",
        metavar="FOOTPRINTS",
        help="polygons: GeoJSON, GeoPackage, FlatGeobuf or Shapefile; later ones lie on top",
    )
    parser.add_argument("--layer", metavar="NAME", help="layer of the file")
    for field, text in _FIELDS.items():
        parser.add_argument(
            f"--{field.replace('_', '-')}", metavar="FIELD", help=f"field with {text}"
        )


def _options(arguments: argparse.Namespace) -> dict[str, str]:
    given = vars(arguments)
    found = {key: given[key] for key in (*_FIELDS, "layer") if given.get(key)}
    return {"path": arguments.footprints, **found}


def _configuration(arguments: argparse.Namespace) -> Any:
    from mastaba_build.config.access import Access
    from mastaba_build.config.configuration import Configuration
    from mastaba_build.output.destination import Destination
    from mastaba_build.plugins import PluginSet

    plugins = PluginSet.of_command(arguments.plugins, arguments.plugins_directory)
    output = Destination.parse(arguments.output, plugins)
    return Configuration("-", output, (), access=Access(plugins=plugins))


def _add(store: OutputStore, arguments: argparse.Namespace) -> None:
    from mastaba_build.commands.progress import progress
    from mastaba_build.pyramid.provenance_adding import add_provenance

    configuration = _configuration(arguments)
    options = _options(arguments)
    report = progress("Writing numbers")
    count = add_provenance(configuration, store, arguments.source, options, report)
    stem = arguments.source.removesuffix(".json")
    sys.stdout.write(
        f"{count} sources; name the table in the layer: "
        f'"provenance": {json.dumps(f"{stem}.sources.json")}\n'
    )


def _set(store: OutputStore, arguments: argparse.Namespace) -> None:
    from mastaba_build.pyramid.provenance_facts import set_facts

    number = set_facts(store, arguments.name, arguments.table)
    sys.stdout.write(f"version {number} of {arguments.name} is published; reload the server\n")


def _check(store: OutputStore, arguments: argparse.Namespace) -> None:
    from mastaba_build.pyramid.provenance_checking import check_provenance

    options = None if arguments.footprints is None else _options(arguments)
    count = check_provenance(
        _configuration(arguments),
        store,
        arguments.name,
        options,
        arguments.pixels,
        arguments.seed,
    )
    sys.stdout.write(f"{arguments.name}: {count} pixels agree\n")


def _style(store: OutputStore, arguments: argparse.Namespace) -> None:
    from mastaba_build.pyramid.provenance import read_table
    from mastaba_build.pyramid.provenance_styles import style_of
    from mastaba_storage.replacing import write_whole

    document = style_of(read_table(store, arguments.name), arguments.name, arguments.by)
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    if arguments.file is None:
        sys.stdout.write(text)
    else:
        write_whole(str(arguments.file), text.encode())
