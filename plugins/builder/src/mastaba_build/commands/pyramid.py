"""The command ``mastaba pyramid``: versions, index packs, and pyramids from stored slabs."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import closing
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from mastaba_server.web.parameters import whole_number

if TYPE_CHECKING:
    from argparse import ArgumentParser, _SubParsersAction

    from mastaba_build.output.storage import OutputStore
    from mastaba_build.plugins import PluginSet

_DESCRIPTION = """Join pyramids, compute the head of a pyramid, write index packs, manage versions.

`mastaba build --update` and `mastaba pyramid head` make a version. Exit status: 0 done, 1 slabs
failed or the output cannot be used, 2 no such pyramid or version, or pyramids that cannot be
joined, 3 locked by a build, 4 a document is damaged."""
_INTERRUPTED = 130
_NAME = "mastaba pyramid"
_OPTIONS = frozenset({"name", "output", "tile_matrix_sets", "workers", "encoder", "title"})
"""Options of `join` and `head` that are those of a build."""


def add_parser(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    """Add the parser of the command."""
    from mastaba_build.commands.options import add_some
    from mastaba_build.commands.provenance import add_actions
    from mastaba_build.config.schema import build_schema

    parser = subparsers.add_parser(
        "pyramid",
        help="versions and index packs of a pyramid, joined pyramids: log, diff, rollback, prune, "
        "pin, unpin, withdraw, pack, stack, join, head, copy; sources of pixels: provenance",
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
    prune.add_argument(
        "--days",
        type=_days,
        help="keep versions built in so many days (default: retention.days of the build, else 0)",
    )
    prune.add_argument(
        "--linked-days",
        type=_days,
        metavar="DAYS",
        help="keep versions published in so many days, whose addresses caches may hold "
        "(default: retention.linked_days of the build, else 365)",
    )
    pin = _action(actions, "pin", _pin, "keep a version from being removed")
    pin.add_argument("--reason", default="", metavar="TEXT", help="why it is needed")
    pin.add_argument("--until", metavar="DATE", help="last day, yyyy-mm-dd (default: for ever)")
    unpin = _action(actions, "unpin", _unpin, "remove the pins of a version")
    withdraw = _action(
        actions, "withdraw", _withdraw, "remove a version at once, for legal reasons"
    )
    for one in (pin, unpin, withdraw):
        one.add_argument("version", type=_positive, metavar="VERSION", help="its number")
    pin.add_argument("--by", metavar="TEXT", help="who or what needs it (default: the user)")
    unpin.add_argument(
        "--by",
        metavar="TEXT",
        help="only the pins of this one (default: all but those of pyramids that link to it)",
    )
    _add_message(rollback)
    _action(actions, "pack", _pack, "write index packs, with which a tile is one request")
    stack = _action(actions, "stack", _stack, "list the pyramids of a series, for a layer of them")
    stack.add_argument(
        "--template",
        required=True,
        metavar="FILE",
        help="name of their descriptors, with the dimension: 'ortho_{time}.json'",
    )
    stack.add_argument("--title", default="", metavar="TEXT", help="of each: 'Flight of {time}'")
    stack.add_argument(
        "--final",
        action="append",
        default=[],
        metavar="VALUE",
        help="value of a pyramid that will not change; may be repeated",
    )
    for one in (log, diff):
        one.add_argument("--json", action="store_true", help="print JSON")
    _add_copy(actions)
    add_actions(actions, _with_output, _run)
    join = _builder(actions, "join", _join, "make a pyramid that links to the slabs of others")
    join.add_argument("--name", required=True, help="name of the new pyramid and its layer")
    add_some(join, ["title"])
    join.add_argument(
        "sources",
        nargs="+",
        metavar="DESCRIPTOR",
        help="descriptor of a pyramid; later ones are drawn over earlier ones",
    )
    head = _builder(actions, "head", _head, "compute the levels above one level from its slabs")
    head.add_argument("name", metavar="NAME", help="name of the pyramid")
    head.add_argument("--from", dest="base", required=True, metavar="LEVEL", help="it stays")
    head.add_argument(
        "--top", metavar="LEVEL", help="coarsest level (default: the coarsest of the pyramid)"
    )
    head.add_argument(
        "--decimation",
        choices=build_schema()["properties"]["decimation"]["enum"],
        help="how pixels become one of the next level (default: as the pyramid was built)",
    )
    head.add_argument(
        "--inject",
        action="store_true",
        help="replace the slabs of the pyramid instead of making a further version",
    )


def _add_message(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--message",
        default="",
        metavar="TEXT",
        help="what is published, for the history of the pyramid and for feeds",
    )


def _add_copy(actions: Any) -> None:
    text = "copy a pyramid, with its versions, to a directory or an object store"
    copy: ArgumentParser = actions.add_parser("copy", help=text, description=text)
    copy.add_argument("source", metavar="DESCRIPTOR", help="descriptor of the pyramid, NAME.json")
    copy.add_argument(
        "output", metavar="PLACE", help="directory, or s3://bucket/prefix and the like"
    )
    copy.add_argument(
        "--threads", type=_positive, default=4, metavar="COUNT", help="slabs at a time (default: 4)"
    )
    copy.add_argument("--rate", type=_positive, metavar="MB", help="megabytes per second at most")
    copy.add_argument(
        "--resume",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="leave out the slabs that an interrupted copy has written (default)",
    )
    copy.add_argument(
        "--verify",
        choices=("size", "full"),
        default="size",
        help="what is compared in the target: sizes (default), or sizes and all bytes",
    )
    copy.set_defaults(run=_run, act=_copy)


def _action(actions: Any, name: str, run: Any, text: str) -> ArgumentParser:
    parser = _with_output(actions, name, run, text)
    parser.add_argument("name", metavar="NAME", help="name of the pyramid")
    return parser


def _builder(actions: Any, name: str, run: Any, text: str) -> ArgumentParser:
    from mastaba_build.commands.options import add_some

    parser = _with_output(actions, name, run, text)
    add_some(parser, ["tile_matrix_sets", "workers", "encoder"])
    _add_message(parser)
    parser.add_argument("--json", action="store_true", help="report events as lines of JSON")
    return parser


def _with_output(actions: Any, name: str, run: Any, text: str) -> ArgumentParser:
    parser: ArgumentParser = actions.add_parser(name, help=text, description=text)
    parser.add_argument(
        "--output",
        default="pyramids",
        metavar="PLACE",
        help="directory, or s3://bucket/prefix and the like (default: pyramids)",
    )
    parser.set_defaults(run=_run, act=run)
    return parser


def _run(arguments: argparse.Namespace) -> int:
    from mastaba.api.commands import failed
    from mastaba_build.errors import BuildError, VerificationError
    from mastaba_build.output.destination import Destination

    try:
        destination = Destination.parse(arguments.output, _plugins(arguments))
        with closing(destination.open()) as store:
            status: int | None = arguments.act(store, arguments)
    except BuildError as error:
        return failed(*str(error).splitlines(), status=error.status, name=_NAME)
    except RecursionError:
        text = "a document of the pyramid is damaged: it is nested too deeply"
        return failed(text, status=VerificationError.status, name=_NAME)
    except KeyboardInterrupt:
        return failed("interrupted; run the same command again", status=_INTERRUPTED, name=_NAME)
    return status or 0


def _log(store: OutputStore, arguments: argparse.Namespace) -> None:
    from mastaba_build.pyramid.history import log

    entries = log(store, arguments.name)
    if arguments.json:
        sys.stdout.write(json.dumps([asdict(entry) for entry in entries], indent=2) + "\n")
        return
    for entry in entries:
        sys.stdout.write(
            f"{'*' if entry.published else ' '} {entry.number:>4}  {entry.time}  "
            f"{entry.sources} sources, {entry.written} slabs written, {entry.linked} linked, "
            f"{entry.bytes / 1e6:.1f} MB  {entry.generation}"
            f"{''.join(f'  pinned by {one}' for one in entry.pinned)}"
            f"{'  ' if entry.message else ''}{entry.message}\n"
        )


def _diff(store: OutputStore, arguments: argparse.Namespace) -> None:
    from mastaba_build.errors import PlanError
    from mastaba_build.pyramid.history import diff

    if len(arguments.versions) not in (0, 2):
        raise PlanError("name two versions, or none for the published one and the one before it")
    found = diff(store, arguments.name, *arguments.versions)
    if arguments.json:
        sys.stdout.write(json.dumps(asdict(found), indent=2) + "\n")
        return
    for what in ("added", "removed", "changed"):
        for path in getattr(found, what):
            sys.stdout.write(f"source {what}: {path}\n")
    for level, counts in found.slabs.items():
        text = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
        sys.stdout.write(f"slabs of level {level}: {text}\n")


def _rollback(store: OutputStore, arguments: argparse.Namespace) -> None:
    from mastaba_build.output.history import checked_message
    from mastaba_build.pyramid.history import rollback

    message = checked_message(arguments.message)
    number = rollback(store, arguments.name, arguments.to, message)
    sys.stdout.write(f"version {number} of {arguments.name} is published; reload the server\n")


def _prune(store: OutputStore, arguments: argparse.Namespace) -> None:
    from mastaba_build.pyramid.pruning import prune

    done = prune(
        store,
        arguments.name,
        arguments.keep,
        days=arguments.days,
        linked_days=arguments.linked_days,
    )
    for number, reason in done.kept.items():
        sys.stdout.write(f"version {number} stays: {reason}\n")
    sys.stdout.write(f"{done.versions} versions and {done.objects} slabs and links removed\n")


def _pin(store: OutputStore, arguments: argparse.Namespace) -> None:
    from mastaba_build.output.history import checked_message
    from mastaba_build.pyramid.pins import pin

    by = checked_message(arguments.by or _user())
    reason = checked_message(arguments.reason)
    pin(store, arguments.name, arguments.version, by, reason, arguments.until)
    sys.stdout.write(f"version {arguments.version} of {arguments.name} is pinned by {by}\n")


def _unpin(store: OutputStore, arguments: argparse.Namespace) -> None:
    from mastaba_build.pyramid.pins import unpin

    count, linking = unpin(store, arguments.name, arguments.version, arguments.by)
    sys.stdout.write(f"{count} pins removed\n")
    for by in linking:
        sys.stdout.write(
            f"{by} links to slabs of this version: its pin stays; remove it with --by\n"
        )


def _withdraw(store: OutputStore, arguments: argparse.Namespace) -> None:
    from mastaba_build.pyramid.pruning import withdraw

    generation, objects = withdraw(store, arguments.name, arguments.version)
    sys.stdout.write(
        f"version {arguments.version} of {arguments.name} is withdrawn, {objects} slabs and links "
        f"removed; reload the server, and purge gen-{generation} from the caches in front "
        "(mastaba purge --versions). Browsers keep what they have\n"
    )


def _user() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "someone"


def _pack(store: OutputStore, arguments: argparse.Namespace) -> None:
    from mastaba_build.output.destination import Destination
    from mastaba_build.output.packs import pack_pyramid

    output = Destination.parse(arguments.output, _plugins(arguments))
    packs, slabs, read = pack_pyramid(store, output, arguments.name)
    sys.stdout.write(
        f"{packs} index packs of {slabs} slabs, {read} of them read; reload the server\n"
    )


def _stack(store: OutputStore, arguments: argparse.Namespace) -> None:
    from mastaba_build.output.history import checked_message
    from mastaba_build.output.stacks import write_stack

    title = checked_message(arguments.title)
    count = write_stack(store, arguments.name, arguments.template, title, tuple(arguments.final))
    sys.stdout.write(f"{arguments.name}.stack.json lists {count} pyramids; reload the server\n")


def _copy(store: OutputStore, arguments: argparse.Namespace) -> None:
    from mastaba_build.commands.progress import progress
    from mastaba_build.errors import PlanError
    from mastaba_build.output.destination import Destination
    from mastaba_build.pyramid.copying import Options, copy_pyramid

    folder, _, file = arguments.source.rpartition("/")
    name = file.removesuffix(".json")
    if not name or name == file:
        raise PlanError(f"{arguments.source} is not the descriptor of a pyramid, NAME.json")
    plugins = _plugins(arguments)
    copied = copy_pyramid(
        Destination.parse(folder or ".", plugins),
        name,
        Destination.parse(arguments.output, plugins),
        Options(
            threads=arguments.threads,
            rate=arguments.rate and arguments.rate * 1e6,
            verify=arguments.verify == "full",
            resume=arguments.resume,
        ),
        progress("Copying"),
    )
    before = f", {copied.before} were there" if copied.before else ""
    print(f"{copied.slabs} slabs copied, {copied.bytes} bytes{before}")


def _join(store: OutputStore, arguments: argparse.Namespace) -> int:
    from mastaba_build.work.derived import join

    return _built(join, store, arguments, arguments.sources)


def _head(store: OutputStore, arguments: argparse.Namespace) -> int:
    from mastaba_build.work.derived import head

    return _built(
        partial(head, inject=arguments.inject),
        store,
        arguments,
        *(arguments.base, arguments.top, arguments.decimation),
    )


def _built(run: Any, store: OutputStore, arguments: argparse.Namespace, *options: Any) -> int:
    """Run `join` or `head`; return the exit status."""
    from mastaba_build.config.access import Access
    from mastaba_build.config.configuration import configuration_of
    from mastaba_build.output.history import checked_message
    from mastaba_build.work.reports import Reports

    values = {key: value for key, value in vars(arguments).items() if key in _OPTIONS}
    values["sources"] = ["-"]  # they are pyramids
    configuration = configuration_of(values, "the options", Access(plugins=_plugins(arguments)))
    reports = Reports(sys.stdout, sys.stderr, as_json=arguments.json, command=_NAME)
    message = checked_message(arguments.message)
    return 0 if run(configuration, store, reports, *options, message=message) else 1


def _plugins(arguments: argparse.Namespace) -> PluginSet:
    from mastaba_build.plugins import PluginSet

    return PluginSet.of_command(arguments.plugins, arguments.plugins_directory)


def _positive(text: str) -> int:
    number = whole_number(text)
    if not number:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of versions from 1")
    return number


def _days(text: str) -> int:
    number = whole_number(text)
    if number is None or number > 100_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of days")
    return number
