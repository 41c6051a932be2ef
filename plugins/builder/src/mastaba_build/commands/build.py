"""The command ``mastaba build``."""

from __future__ import annotations

import argparse
import json
import os
import sys
from argparse import SUPPRESS
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from argparse import ArgumentParser, _SubParsersAction

_ADDRESS = "127.0.0.1:8080"
_INTERRUPTED = 130
_DESCRIPTION = """Build a pyramid from rasters and publish it as a layer.

The same command resumes an interrupted build. Exit status: 0 done, 1 slabs failed,
2 configuration, 3 locked by another build, 4 verification failed."""


def add_parser(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    """Add the parser of the command."""
    from mastaba.tooling.commands import http_address
    from mastaba_build.commands.options import add_options

    parser = subparsers.add_parser(
        "build",
        help="build a pyramid from rasters",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        argument_default=SUPPRESS,
    )
    add = parser.add_argument
    add(
        "sources",
        nargs="*",
        default=[],
        metavar="SOURCE",
        help="file, folder, glob, list of files (.txt), STAC items, pyramid descriptor, "
        "wms:URL#layers=NAMES, wmts:URL#layer=NAME, or anything that GDAL opens; later sources are "
        "drawn over earlier ones",
    )
    add(
        "--config", metavar="FILE", help="configuration in JSON or YAML, instead of or with options"
    )
    add_options(parser)
    opening = parser.add_argument_group("what sources may open")
    opening.add_argument(
        "--allow-folder",
        action="append",
        default=[],
        metavar="DIRECTORY",
        help="sources may also open files below this directory; may be repeated",
    )
    opening.add_argument(
        "--allow-network",
        action="store_true",
        default=False,
        help="URLs that are sources, or that sources name, may be opened",
    )
    opening.add_argument(
        "--allow-driver",
        action="append",
        default=[],
        metavar="NAME",
        help="GDAL may also use this driver, which may open any file; may be repeated",
    )
    actions = parser.add_argument_group("actions")
    actions.add_argument(
        "--dry-run",
        action="store_true",
        default=False,
        help="show the plan and an estimate from sampled slabs, of a service the number of "
        "requests, and build nothing",
    )
    actions.add_argument(
        "--verify",
        nargs="?",
        const="quick",
        choices=("quick", "full"),
        default=None,
        help="check the pyramid NAME in the output directory; full: also decode all tiles "
        "and compare the levels",
    )
    actions.add_argument(
        "--replace",
        action="store_true",
        default=False,
        help="replace a published pyramid of the same name; it is not available meanwhile",
    )
    actions.add_argument(
        "--update",
        dest="update",
        action="store_const",
        const="new",
        default=None,
        help="build only what has changed, and publish a further version that links to the rest",
    )
    actions.add_argument(
        "--inject",
        dest="update",
        action="store_const",
        const="inject",
        default=None,
        help="build only what has changed, and replace these slabs of the published version",
    )
    actions.add_argument(
        "--message",
        default="",
        metavar="TEXT",
        help="what the version is about, for its history and for feeds",
    )
    actions.add_argument(
        "--schema",
        action="store_true",
        default=False,
        help="print the JSON schema of configuration files",
    )
    actions.add_argument(
        "--json",
        action="store_true",
        default=False,
        help="report events as lines of JSON on standard output",
    )
    actions.add_argument(
        "--serve", action="store_true", default=False, help="serve the layer at once"
    )
    actions.add_argument(
        "--http",
        type=http_address,
        default=_ADDRESS,
        metavar="HOST:PORT",
        help=f"address of --serve (default: {_ADDRESS})",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return its exit status."""
    # Imported here: every command of the command line would load GDAL otherwise.
    if not arguments.allow_network:
        _load_rasterio()
    from mastaba_build.errors import BuildError
    from mastaba_build.work.reports import Reports

    reports = Reports(sys.stdout, sys.stderr, as_json=arguments.json)
    try:
        return _run(arguments, reports)
    except BuildError as error:
        reports.failed(str(error))
        return error.status
    except KeyboardInterrupt:
        reports.failed("interrupted; the same command resumes the build")
        return _INTERRUPTED
    except OSError as error:
        reports.failed(f"{error.filename or 'the output'}: {error.strerror or error}")
        return 1


def _load_rasterio() -> None:
    """Import rasterio without boto3, with which it signs requests: it takes as long as GDAL."""
    if "boto3" in sys.modules:
        return
    blocked: dict[str, Any] = {"boto3": None}
    sys.modules.update(blocked)
    try:
        import rasterio  # noqa: F401
    finally:
        del sys.modules["boto3"]


def _run(arguments: argparse.Namespace, reports: Any) -> int:
    from mastaba_build.commands.options import given_options
    from mastaba_build.commands.server import write_server
    from mastaba_build.config.access import Access
    from mastaba_build.config.configuration import configuration_of, read_configuration
    from mastaba_build.config.schema import build_schema
    from mastaba_build.output.history import checked_message
    from mastaba_build.plugins import PluginSet
    from mastaba_build.pyramid.verification import verify
    from mastaba_build.work.build import build
    from mastaba_build.work.estimate import estimate, samples_of
    from mastaba_build.work.plans import plan_of

    if arguments.schema:
        sys.stdout.write(json.dumps(build_schema(), indent=2) + "\n")
        return 0
    message = checked_message(arguments.message)
    overrides = given_options(arguments)
    access = Access(
        frozenset(map(os.path.realpath, arguments.allow_folder)),
        arguments.allow_network,
        tuple(arguments.allow_driver),
        PluginSet.of_command(arguments.plugins, arguments.plugins_directory),
    )
    if hasattr(arguments, "config"):
        configuration = read_configuration(arguments.config, overrides, access)
    else:
        document = _defaults(overrides, arguments) | overrides
        configuration = configuration_of(document, "the options", access)
    if arguments.verify:
        count = verify(configuration.output, configuration.name, full=arguments.verify == "full")
        reports.verified(configuration.name, count)
        return 0
    if arguments.serve:
        from mastaba.tooling.commands import require_free

        _free(require_free, arguments.http)
    plan = plan_of(configuration)
    reports.planned(plan)
    if arguments.dry_run:
        if plan.terms is None:
            reports.estimated(estimate(plan))
        return 0
    samples = samples_of(plan)
    if samples and not arguments.update:
        reports.estimated(estimate(plan, samples))
    done = build(
        plan,
        reports,
        replace=arguments.replace,
        update=arguments.update,
        message=message,
    )
    if not done:
        return 1
    server_json = write_server(plan, f"http://{arguments.http}")
    reports.done(plan, server_json, arguments.http)
    if not arguments.serve:
        return 0
    from mastaba.tooling.commands import serve

    reports.serving(arguments.http)
    return serve(server_json, arguments)


def _free(require_free: Any, address: str) -> None:
    from mastaba.errors import ListenError
    from mastaba_build.errors import PlanError

    try:
        require_free(address)
    except ListenError as error:
        raise PlanError(f"{error}; choose another address with --http") from None


def _defaults(overrides: dict[str, Any], arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the output directory and, from the first source, the name."""
    from mastaba_build.harvest.address import SERVICE, name_of

    document: dict[str, Any] = {"output": "pyramids"}
    if arguments.sources:
        first = arguments.sources[0]
        stem = name_of(first) if SERVICE.match(first) else Path(first).stem
        name = "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in stem)
        document["name"] = name.strip("_") or "layer"
    elif arguments.verify and "name" in overrides:
        document["sources"] = ["-"]  # verification needs none
    return document
