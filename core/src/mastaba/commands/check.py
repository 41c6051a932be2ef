"""``mastaba check -f server.json``: every fault of a configuration, without serving it."""

from __future__ import annotations

import argparse

from mastaba.config.faults import Faults, Severity
from mastaba.config.load import load_catalogue
from mastaba.config.server import load_server
from mastaba.environment import Environment
from mastaba.plugins import Plugins


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
        layers = len(catalogue.layers) if catalogue else 0
    for fault in faults.all:
        print(f"{fault.severity}: {fault.file}: {fault.path}")
        print(f"    {fault.reason}")
        if fault.remedy:
            print(f"    to do: {fault.remedy}")
    errors = len(faults.errors)
    warnings = sum(fault.severity is Severity.WARNING for fault in faults.all)
    print(f"{errors} errors, {warnings} warnings, {layers} layers usable")
    return 1 if errors else 0
