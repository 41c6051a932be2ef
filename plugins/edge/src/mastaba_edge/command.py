"""The commands ``mastaba purge`` and ``mastaba purge-agent``."""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import quote

from mastaba.api.commands import failed
from mastaba.errors import MastabaError

if TYPE_CHECKING:
    import argparse

_LARGEST = 1e100
"""Coordinate, which also fits into the arithmetic of tiles."""

_AGENT = """\
Removes responses from the cache of nginx when `mastaba` or `mastaba purge` requests it. Start it
as the user of nginx. Add its address to plugins.edge.caches of server.json.
"""


def add_commands(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add both commands."""
    one = subparsers.add_parser("purge", help="purge layers from the caches in front")
    one.add_argument("-f", "--file", required=True, metavar="FILE", help="path of server.json")
    one.add_argument("layers", nargs="+", metavar="LAYER", help="identifier of a layer")
    one.add_argument(
        "--bbox",
        nargs=4,
        type=float,
        metavar=("XMIN", "YMIN", "XMAX", "YMAX"),
        help="only this area, in the CRS of the tile matrix set of each layer",
    )
    one.add_argument(
        "--versions",
        action="store_true",
        help="also versions that have addresses of their own, LAYER~GENERATION",
    )
    one.set_defaults(run=_purge)
    agent = subparsers.add_parser(
        "purge-agent", help="purge the cache of nginx on request", description=_AGENT
    )
    agent.add_argument("--cache", required=True, metavar="FOLDER", help="cache folder of nginx")
    agent.add_argument("--listen", default="127.0.0.1:6082", metavar="HOST:PORT")
    agent.add_argument("--secret-file", required=True, metavar="FILE")
    agent.set_defaults(run=_run_agent)


def _purge(arguments: argparse.Namespace) -> int:
    from mastaba.api.catalogue import DOCUMENTS_KEY, BoundingBox, keys_within, layer_key
    from mastaba.api.tools import create_application
    from mastaba_edge.purging import PurgeError, purge

    try:
        site = create_application(arguments.file).site
    except MastabaError as error:
        return failed(error)
    settings = site.plugin_settings.get("edge", {})
    if not settings.get("caches"):
        return failed(f"{arguments.file}: $.plugins.edge.caches is missing")
    area = arguments.bbox and BoundingBox(*arguments.bbox)
    if area and not (_is_possible(*arguments.bbox[::2]) and _is_possible(*arguments.bbox[1::2])):
        return failed("--bbox requires numbers with XMIN <= XMAX and YMIN <= YMAX")
    keys = [DOCUMENTS_KEY]
    for name in arguments.layers:
        if arguments.versions:
            keys.append(f"base-{quote(name, '')}")
        layer = site.catalogue.layers.get(name)
        if area is None:
            # Also a layer that is no longer published.
            keys.append(layer_key(name))
        elif layer is None:
            return failed(f"there is no layer {name!r}")
        else:
            keys += keys_within(layer, area)
    try:
        purge(settings, keys)
    except PurgeError as error:
        return failed(error)
    return 0


def _is_possible(least: float, greatest: float) -> bool:
    return -_LARGEST <= least <= greatest <= _LARGEST


def _run_agent(arguments: argparse.Namespace) -> int:
    from mastaba_edge.agent import Agent
    from mastaba_edge.purging import PurgeError, read_secret
    from mastaba_server.transport.listener import host_and_port

    try:
        if ":" not in arguments.listen:
            raise ValueError("the host is missing")
        host, port = host_and_port(arguments.listen)
    except ValueError as error:
        return failed(f"--listen {arguments.listen!r} is not HOST:PORT: {error}")
    try:
        agent = Agent(host, port, arguments.cache, read_secret(arguments.secret_file))
    except (PurgeError, OSError) as error:
        return failed(error)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with agent:
        shown = f"[{host}]" if ":" in host else host
        print(f"listening on {shown}:{agent.server_port}", flush=True)
        with suppress(KeyboardInterrupt):
            agent.serve_forever()
    return 0
