"""``mastaba check -f server.json``: every fault of a configuration, without serving it."""

from __future__ import annotations

import argparse
import os
import time

from mastaba.catalogue import Catalogue
from mastaba.config.faults import Faults, Severity
from mastaba.config.load import load_catalogue
from mastaba.config.server import ServerConfig, load_server
from mastaba.environment import Environment
from mastaba.errors import MastabaError
from mastaba.http.app import Application
from mastaba.model.tile_matrix_set_link import link_to
from mastaba.plugins import Plugins
from mastaba.scoreboard import Scoreboard
from mastaba.service import Site


def run(arguments: argparse.Namespace, plugins: Plugins) -> int:
    """Print all faults; 0 when nothing but warnings was found, else 1."""
    faults = Faults()
    server = load_server(arguments.file, plugins, faults)
    layers = 0
    if server is not None:
        if server.port is None:
            faults.error(
                server.file, "$.port", "is missing", 'add the key "port", such as "127.0.0.1:9000"'
            )
        catalogue = load_catalogue(server, plugins, Environment(), faults)
        if catalogue is not None:
            layers = len(catalogue.layers)
            _check_extra_sets(catalogue, faults)
            _try_services(server, catalogue, plugins, faults)
    _report(faults, layers)
    return 1 if faults.errors else 0


def _check_extra_sets(catalogue: Catalogue, faults: Faults) -> None:
    """Warn of tile matrix sets in which a layer asks in vain to be offered.

    A start does not look: what is offered is computed for a layer when it is first asked for.
    """
    for layer in catalogue.layers.values():
        for tile_matrix_set in layer.extra_tile_matrix_sets:
            if link_to(layer, tile_matrix_set) is None:
                faults.warning(
                    f"layer {layer.id}",
                    "$.extra_tilematrixsets",
                    f"the layer cannot be offered in {tile_matrix_set.id!r}: that is made for "
                    "another place, or no matrix of it has about the cell size of a level",
                    "remove it from the list",
                )


def _try_services(
    server: ServerConfig, catalogue: Catalogue, plugins: Plugins, faults: Faults
) -> None:
    """Open the services as a start does, and make the wrappers of the application."""
    site = Site(catalogue, plugins, Scoreboard(1, 1), started=time.time(), main_pid=os.getpid())
    try:
        site.open_services()
        Application(site)
    except MastabaError as error:
        faults.error(server.services, "$", str(error), "mend the plugin, or block it")
    finally:
        catalogue.storages.close()


def _report(faults: Faults, layers: int) -> None:
    for fault in faults.all:
        print(f"{fault.severity}: {fault.file}: {fault.path}")
        print(f"    {fault.reason}")
        if fault.remedy:
            print(f"    to do: {fault.remedy}")
    errors = len(faults.errors)
    warnings = sum(fault.severity is Severity.WARNING for fault in faults.all)
    print(f"{errors} errors, {warnings} warnings, {layers} layers usable")
