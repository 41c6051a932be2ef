"""The command ``mastaba build``."""

from __future__ import annotations

import argparse
import json
import math
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


def add_parser(subparsers: _SubParsersAction[ArgumentParser]) -> None:  # noqa: PLR0915
    """Add the parser of the command."""
    from mastaba.tooling.commands import http_address

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
        help="file, folder, glob, list of files (.txt), STAC items, pyramid descriptor, or "
        "anything that GDAL opens; later sources are drawn over earlier ones",
    )
    add(
        "--config", metavar="FILE", help="configuration in JSON or YAML, instead of or with options"
    )
    add(
        "--output",
        metavar="PLACE",
        help="directory of the pyramid (default: pyramids), s3://bucket/prefix, "
        "swift://container/prefix or ceph://pool/prefix",
    )
    add("--name", help="name of the pyramid and the layer (default: from the first source)")
    add(
        "--tms",
        dest="tile_matrix_set",
        metavar="SET",
        help="tile matrix set (default: PM); native: one for the grid of the sources",
    )
    add(
        "--tms-directory",
        dest="tile_matrix_sets",
        metavar="DIRECTORY",
        help="directory of further tile matrix sets",
    )
    add(
        "--format",
        help="jpg, jpg90, png, zip, lzw, pkb, raw, or the full name of a pyramid "
        "format (default: by the sources)",
    )
    add("--channels", type=int, help="channels of the pyramid, 1 to 4")
    add(
        "--pyramid-nodata",
        dest="nodata",
        type=_numbers,
        metavar="VALUE,...",
        help="value of pixels without data in the pyramid, one per channel",
    )
    add(
        "--slab", type=_size, metavar="WIDTHxHEIGHT", help="size of slabs in tiles (default: 16x16)"
    )
    add("--bottom", metavar="LEVEL", help="finest level (default: by the resolution)")
    add("--top", metavar="LEVEL", help="coarsest level (default: the coarsest of the set)")
    add("--interpolation", help="nn, linear, bicubic (default), lanczos_2, lanczos_3 or lanczos_4")
    add(
        "--decimation",
        help="how pixels become one of the next level: average (default), nn, mode, min or max",
    )
    add(
        "--style", metavar="FILE", help="style file of the server; the pyramid contains its colours"
    )
    add(
        "--empty-tiles",
        metavar="skip|store",
        help="tiles without data in a slab: absent (default), or stored as tiles of nodata, as the "
        "ROK4 tools do",
    )
    add("--masks", action="store_true", help="also write mask slabs")
    add(
        "--index-packs",
        action="store_true",
        help="also write index packs, so that servers read a tile with one request to the store",
    )
    add(
        "--protect-nodata",
        action="store_true",
        help="change pixels with data that have the colour of nodata by one level",
    )
    add(
        "--registration",
        help="what a value is: that of the area of its pixel, or of the point in its centre "
        "(post); default: what the sources say",
    )
    add(
        "--accept-losses",
        action="store_true",
        help="publish the pyramid although source pixels with data are missing in it",
    )
    add("--encoder", help="zlib (the bytes of the ROK4 tools), libdeflate or isal")
    add("--title", help="title of the layer")
    add("--work", metavar="DIRECTORY", help="directory of intermediate files")
    add(
        "--keep-work",
        action="store_true",
        help="keep the intermediate images, so that updates of JPEG pyramids are exact",
    )
    add(
        "--server",
        metavar="DIRECTORY",
        help="directory of the installation that serves the layer (default: server in the output "
        "directory, or here)",
    )
    add(
        "--scan-attributes",
        action="store_true",
        help="read all vector tiles to count the values of their attributes",
    )
    add("--workers", type=int, help="processes (default: one per processor)")
    add(
        "--memory",
        type=int,
        metavar="MIB",
        help="memory for these processes; each may need 300 MiB, so it may lower their number",
    )
    add(
        "--list-md5",
        action="store_true",
        help="write MD5 sums into the slab list, for tools that check copies",
    )
    add(
        "--engine",
        metavar="local|dask:ADDRESS",
        help="where slabs are computed: on this machine (default), or on the Dask cluster of a "
        "scheduler, as dask:tcp://host:8786",
    )
    group = parser.add_argument_group("sources")
    group.add_argument(
        "--order", help="order of several files: name, given, resolution or datetime"
    )
    group.add_argument(
        "--nodata",
        dest="source_nodata",
        type=_numbers,
        metavar="VALUE,...",
        help="value of pixels without data in the sources, instead of that in the files",
    )
    group.add_argument("--tolerance", type=float, help="largest difference from nodata")
    group.add_argument(
        "--nodata-range",
        dest="nodata_ranges",
        type=_numbers,
        action="append",
        metavar="LOW,HIGH",
        help="pixels whose bands are all in this range have no data; may be repeated",
    )
    group.add_argument(
        "--touching-edges",
        action="store_true",
        help="only regions without data that touch the border of a file have no data",
    )
    group.add_argument("--asset", help="key of the asset of STAC items")
    group.add_argument("--level", help="level of a pyramid (default: the finest)")
    group.add_argument("--bands", type=_numbers, metavar="BAND,...", help="bands to use, from 1")
    group.add_argument(
        "--scale",
        type=_numbers,
        action="append",
        metavar="MIN,MAX",
        help="values that become 0 and 255; once, or once for each band",
    )
    group.add_argument(
        "--use-overviews",
        action="store_true",
        help="read overviews of the files where they are fine enough",
    )
    group.add_argument("--crs", help="CRS of files without one, as EPSG:2154")
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
        help="GDAL may open URLs that are sources, or that sources name",
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
        help="show the plan and an estimate from sampled slabs, and build nothing",
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
    from mastaba_build.commands.server import write_server
    from mastaba_build.config.access import Access
    from mastaba_build.config.configuration import (
        build_schema,
        configuration_of,
        read_configuration,
    )
    from mastaba_build.plugin_manager import use
    from mastaba_build.pyramid.verification import verify
    from mastaba_build.work.build import build
    from mastaba_build.work.estimate import estimate, samples_of
    from mastaba_build.work.plans import plan_of

    if arguments.schema:
        sys.stdout.write(json.dumps(build_schema(), indent=2) + "\n")
        return 0
    use(arguments.plugins, arguments.plugins_directory)
    overrides = _overrides(arguments)
    drivers = arguments.plugins.storages
    access = Access(
        frozenset(map(os.path.realpath, arguments.allow_folder)),
        arguments.allow_network,
        tuple(arguments.allow_driver),
    )
    if hasattr(arguments, "config"):
        configuration = read_configuration(arguments.config, overrides, drivers, access)
    else:
        document = _defaults(overrides, arguments) | overrides
        configuration = configuration_of(document, "the options", drivers, access)
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
        reports.estimated(estimate(plan))
        return 0
    samples = samples_of(plan)
    if samples and not arguments.update:
        reports.estimated(estimate(plan, samples))
    if not build(plan, reports, replace=arguments.replace, update=arguments.update):
        return 1
    server_json = write_server(plan, f"http://{arguments.http}")
    reports.done(plan, server_json, arguments.http)
    return _serve(server_json, arguments, reports) if arguments.serve else 0


def _free(require_free: Any, address: str) -> None:
    from mastaba.errors import ListenError
    from mastaba_build.errors import PlanError

    try:
        require_free(address)
    except ListenError as error:
        raise PlanError(f"{error}; choose another address with --http") from None


_SOURCE_KEYS = {
    "order": "order",
    "source_nodata": "nodata",
    "nodata_ranges": "nodata_ranges",
    "tolerance": "tolerance",
    "touching_edges": "touching_edges",
    "bands": "bands",
    "scale": "scale",
    "use_overviews": "use_overviews",
    "crs": "crs",
    "asset": "asset",
    "level": "level",
}
_KEYS = (
    "output",
    "name",
    "tile_matrix_set",
    "tile_matrix_sets",
    "format",
    "channels",
    "nodata",
    "slab",
    "bottom",
    "top",
    "interpolation",
    "decimation",
    "style",
    "empty_tiles",
    "masks",
    "index_packs",
    "protect_nodata",
    "accept_losses",
    "registration",
    "encoder",
    "title",
    "work",
    "keep_work",
    "server",
    "scan_attributes",
    "workers",
    "memory",
    "list_md5",
    "engine",
)


def _overrides(arguments: argparse.Namespace) -> dict[str, Any]:
    given = vars(arguments)
    document = {key: given[key] for key in _KEYS if key in given}
    options = {key: given[option] for option, key in _SOURCE_KEYS.items() if option in given}
    if arguments.sources:
        document["sources"] = [{"path": path, **options} for path in arguments.sources]
    return document


def _defaults(overrides: dict[str, Any], arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the output directory and, from the first source, the name."""
    document: dict[str, Any] = {"output": "pyramids"}
    if arguments.sources:
        stem = Path(arguments.sources[0]).stem
        name = "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in stem)
        document["name"] = name.strip("_") or "layer"
    elif arguments.verify and "name" in overrides:
        document["sources"] = ["-"]  # verification needs none
    return document


def _serve(server_json: Path, arguments: argparse.Namespace, reports: Any) -> int:
    from mastaba.tooling.commands import main

    reports.serving(arguments.http)
    blocked = [word for name in arguments.block for word in ("--block", name)]
    directory = arguments.plugins_directory
    loaded = [] if directory is None else ["--plugins", directory]
    return main(["-f", str(server_json), "--http", arguments.http, *blocked, *loaded])


def _numbers(text: str) -> list[float]:
    try:
        values = [float(part) for part in text.split(",")]
        if not all(map(math.isfinite, values)):
            raise ValueError
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers") from None
    return [int(value) if value.is_integer() else value for value in values]


def _size(text: str) -> list[int]:
    width, _, height = text.partition("x")
    if not (width.isdigit() and height.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form 16x16")
    return [int(width), int(height)]
