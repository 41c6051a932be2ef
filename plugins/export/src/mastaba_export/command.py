"""``mastaba export LAYER OUT``: an area of a layer as an archive, a COG or a smaller pyramid."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mastaba.api.commands import USAGE, add_server_json, failed, print_json
from mastaba.errors import (
    MastabaError,
    SlabFormatError,
    StorageError,
    StorageUnavailableError,
    escaped,
)
from mastaba_export.errors import DamagedArchiveError, InvalidRequestError, WriteError
from mastaba_export.options import add_options, given_inputs
from mastaba_ows.parameters import decimal, whole_number

if TYPE_CHECKING:
    from argparse import ArgumentParser, _SubParsersAction

    from mastaba.api.services import Site
    from mastaba_export.object_store import ObjectTarget
    from mastaba_export.plan import ExportPlan
    from mastaba_export.run import Progress, Result

_INCOMPLETE: Final = 3
"""Exit status of an export that can be resumed, or tried again."""
_MEGA: Final = 1_000_000


def add_parser(subparsers: _SubParsersAction[ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "export",
        help="export an area of a layer: PMTiles, MBTiles, GeoPackage, COG, directory, pyramid",
        description="Exports an area of a layer. The format follows from the name of OUT: "
        ".pmtiles, .mbtiles, .gpkg, .tif (a COG), .json (a smaller pyramid), or a directory that "
        "ends with /. While it is written, the output is OUT.part. A file may also be an object, "
        "s3://bucket/name and the like, which exists when all of it is uploaded. Exit status: 0 "
        "if all is written, 1 for an error, 2 for wrong usage, 3 if the export was stopped or has "
        "failed and can be resumed, or if a storage does not answer.",
    )
    add_server_json(parser)
    parser.add_argument("layer", metavar="LAYER", help="layer, or path of a pyramid descriptor")
    parser.add_argument("out", metavar="OUT", help="file, directory or object to write")
    parser.add_argument(
        "--tms-directory",
        metavar="DIRECTORY",
        type=Path,
        help="tile matrix sets of a pyramid descriptor; by default those beside it",
    )
    add_options(parser)
    parser.add_argument("--dry-run", action="store_true", help="only show what would be written")
    parser.add_argument("--json", action="store_true", help="print results as JSON")
    parser.add_argument("--resume", action="store_true", help="go on with an interrupted export")
    parser.add_argument("--verify", action="store_true", help="compare OUT with the layer")
    parser.add_argument(
        "--deep", action="store_true", help="with --verify: every tile, not only 1,000"
    )
    parser.add_argument(
        "--work",
        metavar="DIRECTORY",
        type=Path,
        default=Path(),
        help="for files that an export to an object store needs until it is complete "
        "(default: the current directory)",
    )
    parser.add_argument("--threads", metavar="N", type=_positive, default=4)
    parser.add_argument(
        "--rate", metavar="MB/s", type=_rate, help="megabytes that are read per second"
    )
    parser.add_argument(
        "--allow-changes",
        action="store_true",
        help="go on if the layer changes while it is exported; the output says which slabs",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Export, estimate or verify; return the exit status."""
    from mastaba_export.request import ExportRequest, format_of

    if arguments.deep and not arguments.verify:
        return failed("--deep needs --verify", status=USAGE)
    try:
        inputs = given_inputs(arguments)
        form = inputs.get("format") or format_of(arguments.out)
        if form is None:
            reason = f"no format has the extension of {arguments.out}; add --format"
            return failed(reason, status=USAGE)
        with ExitStack() as stack:
            site, layer = _opened(arguments, stack)
            request = ExportRequest.from_inputs({**inputs, "layer": layer, "format": form})
            return _with_site(request, site, arguments)
    except InvalidRequestError as error:
        return failed(error, status=USAGE)
    except StorageUnavailableError as error:
        return failed(f"{error}; try again", status=_INCOMPLETE)
    except MastabaError as error:
        return failed(error)


def _opened(arguments: argparse.Namespace, stack: ExitStack) -> tuple[Site, str]:
    from mastaba_export.opening import opened, opened_descriptor

    layer, plugins = arguments.layer, arguments.plugins
    if layer.endswith(".json") or "://" in layer:
        return stack.enter_context(opened_descriptor(layer, plugins, arguments.tms_directory))
    return stack.enter_context(opened(arguments.file, plugins)), layer


def _with_site(request: Any, site: Site, arguments: argparse.Namespace) -> int:
    from mastaba_export.plan import plan

    made = plan(request, site)
    if arguments.dry_run:
        estimate = made.estimate()
        if arguments.json:
            print_json(estimate)
        else:
            _print_estimate(estimate)
        return 0
    if arguments.verify:
        return _verify(made, arguments)
    return _export(made, arguments)


def _export(made: ExportPlan, arguments: argparse.Namespace) -> int:
    from mastaba.tooling.memory import keep_freed_memory
    from mastaba_export.run import run as run_export

    # Threads that read slabs would each get memory of their own, which stays with the process.
    keep_freed_memory()
    out, target = arguments.out, _target(arguments)
    if target is not None:
        out = arguments.work / target.name
    stop = _Stop()
    report = None if arguments.json or not sys.stderr.isatty() else _report()
    try:
        result = run_export(
            made,
            out,
            resume=arguments.resume,
            progress=report,
            should_stop=stop,
            rate=None if arguments.rate is None else arguments.rate * _MEGA,
            threads=arguments.threads,
            allow_changes=arguments.allow_changes,
            target=target,
        )
    except (StorageError, SlabFormatError, WriteError) as error:
        return failed(f"{error}; go on with --resume", status=_INCOMPLETE)
    finally:
        stop.restore()
        if report is not None:
            sys.stderr.write("\n")
    if not result.is_complete:
        return failed("the export was stopped; go on with --resume", status=_INCOMPLETE)
    place = str(result.path if target is None else target)
    if arguments.json:
        print_json(_document(result, place))
    else:
        for slab in result.changed:
            sys.stderr.write(f"mastaba: slab {slab} changed during the export\n")
        print(
            escaped(
                f"{place}: {result.tiles:,} tiles, {result.bytes:,} bytes, {result.seconds:.1f} s"
            )
        )
    return 0


def _verify(made: ExportPlan, arguments: argparse.Namespace) -> int:
    from mastaba_export.verify import verify

    if "://" in arguments.out:
        return failed("an object is verified after it was downloaded", status=USAGE)
    try:
        found = verify(made, arguments.out, deep=arguments.deep)
    except DamagedArchiveError as error:
        return failed(error)
    if arguments.json:
        print_json({"tiles": found.tiles, "compared": found.compared})
    else:
        print(escaped(f"{arguments.out}: {found.tiles:,} tiles, {found.compared:,} compared"))
    return 0


def _target(arguments: argparse.Namespace) -> ObjectTarget | None:
    """Return the object that the output is; None for a file or a directory."""
    from mastaba_export.object_store import ObjectTarget

    if "://" not in arguments.out:
        return None
    return ObjectTarget.parse(arguments.out, arguments.plugins.storages.__getitem__)


def _document(result: Result, place: str) -> dict[str, Any]:
    return {
        "path": place,
        "tiles": result.tiles,
        "payload_bytes": result.payload_bytes,
        "bytes": result.bytes,
        "seconds": result.seconds,
        "changed": list(result.changed),
    }


def _print_estimate(estimate: dict[str, Any]) -> None:
    about = "" if estimate["is_exact"] else "about "
    print(f"tiles     {about}{estimate['tiles']:,}")
    low, high = estimate["interval"]
    between = "" if low == high else f", between {low:,} and {high:,}"
    print(f"bytes     about {estimate['bytes']:,}{between}")
    print(f"payloads  {about}{estimate['payload_bytes']:,} bytes")
    print(f"reads     about {estimate['source_reads']:,}, {estimate['source_bytes']:,} bytes")
    print(f"seconds   about {estimate['seconds']}")
    for name, level in estimate["levels"].items():
        size = f", {level['bytes']:,} bytes" if "bytes" in level else ""
        print(escaped(f"level {name}: {level['tiles']:,} tiles{size}"))


class _Stop:
    """Whether the process was asked to stop: by SIGINT or SIGTERM."""

    def __init__(self) -> None:
        self._is_set = False
        signals = (signal.SIGINT, signal.SIGTERM)
        self._before = {one: signal.signal(one, self._set) for one in signals}

    def __call__(self) -> bool:
        return self._is_set

    def restore(self) -> None:
        for one, handler in self._before.items():
            signal.signal(one, handler)

    def _set(self, _number: int, _frame: object) -> None:
        self._is_set = True


def _report() -> Any:
    shown = [0.0]

    def show(progress: Progress) -> None:
        now = time.monotonic()
        if now - shown[0] >= 0.5 or progress.units == progress.of_units:
            shown[0] = now
            share = progress.units / max(progress.of_units, 1)
            sys.stderr.write(f"\r{share:4.0%}  {progress.tiles:,} tiles  {progress.bytes:,} bytes")
            sys.stderr.flush()

    return show


def _positive(text: str) -> int:
    number = whole_number(text)
    if number is None or not 0 < number <= 64:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer from 1 to 64")
    return number


def _rate(text: str) -> float:
    value = decimal(text)
    if value is None or not 0.001 <= value <= 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of MB/s from 0.001 on")
    return value
