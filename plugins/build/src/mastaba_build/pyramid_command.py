"""The command ``mastaba pyramid``: versions of pyramids that ``mastaba build`` has made."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from argparse import ArgumentParser, _SubParsersAction

    from mastaba_build.storage import Place

_DESCRIPTION = """Show, compare, publish and remove versions of a pyramid.

`mastaba build --update` makes a version. Exit status: 0 done, 1 the place cannot be used,
2 no such pyramid or version, 3 locked by a build, 4 a document is damaged."""


def add_parser(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    """Add the parser of the command."""
    parser = subparsers.add_parser(
        "pyramid",
        help="versions of a pyramid: log, diff, rollback, prune",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    log = _action(actions, "log", _log, "list the versions; * is the published one")
    diff = _action(actions, "diff", _diff, "show which sources and slabs differ")
    diff.add_argument("versions", nargs="*", type=int, metavar="VERSION", help="old and new")
    rollback = _action(actions, "rollback", _rollback, "publish another version")
    rollback.add_argument(
        "--to", type=int, metavar="VERSION", help="default: the one before the published one"
    )
    prune = _action(actions, "prune", _prune, "remove old versions, and slabs that no other needs")
    prune.add_argument(
        "--keep", type=_positive, default=1, metavar="COUNT", help="latest versions to keep"
    )
    for one in (log, diff):
        one.add_argument("--json", action="store_true", help="print JSON")


def _action(actions: Any, name: str, run: Any, text: str) -> ArgumentParser:
    parser: ArgumentParser = actions.add_parser(name, help=text, description=text)
    parser.add_argument("name", metavar="NAME", help="name of the pyramid")
    parser.add_argument(
        "--output",
        default="pyramids",
        metavar="PLACE",
        help="directory, or s3://bucket/prefix and the like (default: pyramids)",
    )
    parser.set_defaults(run=_run, act=run)
    return parser


def _run(arguments: argparse.Namespace) -> int:
    from mastaba_build.destination import Destination
    from mastaba_build.errors import BuildError

    try:
        destination = Destination.parse(arguments.output, arguments.plugins.storages)
        with closing(destination.open()) as place:
            arguments.act(place, arguments)
    except BuildError as error:
        for line in str(error).splitlines():
            sys.stderr.write(f"mastaba pyramid: {line}\n")
        return error.status
    return 0


def _log(place: Place, arguments: argparse.Namespace) -> None:
    from mastaba_build.history import log

    entries = log(place, arguments.name)
    if arguments.json:
        sys.stdout.write(json.dumps([asdict(entry) for entry in entries], indent=2) + "\n")
        return
    for entry in entries:
        sys.stdout.write(
            f"{'*' if entry.published else ' '} {entry.number:>4}  {entry.time}  "
            f"{entry.sources} sources, {entry.written} slabs written, {entry.linked} linked, "
            f"{entry.bytes / 1e6:.1f} MB\n"
        )


def _diff(place: Place, arguments: argparse.Namespace) -> None:
    from mastaba_build.errors import PlanError
    from mastaba_build.history import diff

    if len(arguments.versions) not in (0, 2):
        raise PlanError("name two versions, or none for the published one and the one before it")
    found = diff(place, arguments.name, *arguments.versions)
    if arguments.json:
        sys.stdout.write(json.dumps(asdict(found), indent=2) + "\n")
        return
    for what in ("added", "removed", "changed"):
        for path in getattr(found, what):
            sys.stdout.write(f"source {what}: {path}\n")
    for level, counts in found.slabs.items():
        text = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
        sys.stdout.write(f"slabs of level {level}: {text}\n")


def _rollback(place: Place, arguments: argparse.Namespace) -> None:
    from mastaba_build.history import rollback

    number = rollback(place, arguments.name, arguments.to)
    sys.stdout.write(f"version {number} of {arguments.name} is published; reload the server\n")


def _prune(place: Place, arguments: argparse.Namespace) -> None:
    from mastaba_build.history import prune

    versions, objects = prune(place, arguments.name, arguments.keep)
    sys.stdout.write(f"{versions} versions and {objects} slabs and links removed\n")


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of versions from 1")
    return int(text)
