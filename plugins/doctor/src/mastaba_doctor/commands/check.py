"""``mastaba check -f server.json``: report all problems of a configuration."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from mastaba.api.catalogue import Catalogue, link_to
from mastaba.api.commands import USAGE, print_json
from mastaba.api.documents import Faults, Severity
from mastaba.api.services import Scoreboard, Site
from mastaba.api.storages import Environment, ResourcePath, StoragePool
from mastaba.api.tiles import can_draw
from mastaba.api.tools import Application, Plugins
from mastaba.errors import ConfigurationError, MastabaError, escaped
from mastaba.tooling.documents import (
    ServerConfig,
    Source,
    load_catalogue,
    load_server,
    missing_port,
)
from mastaba_doctor.addresses import address_faults, port_faults
from mastaba_doctor.commands import DEFAULT_SAMPLES
from mastaba_doctor.duplicates import duplicate_keys

if TYPE_CHECKING:
    from mastaba_doctor.examination import Examined


@dataclass
class _Report:
    """What was found, in addition to the problems.

    Attributes:
        layers: number of usable layers.
        missing_layers: layers that are left out.
        grey_in_pictures: layers of floats that are grey in picture formats, by default.
        served: what the services say that they serve.
        examined: what was read and requested, for a deep check.
    """

    layers: int = 0
    missing_layers: frozenset[str] = frozenset()
    grey_in_pictures: Sequence[str] = ()
    served: Sequence[str] = ()
    examined: Examined | None = None


def run(arguments: argparse.Namespace) -> int:
    """Print all problems; return 0 if there are no errors, 1 if there are, 2 for wrong usage.

    The form of the port and of the public addresses is always checked. With ``deep``, requests
    are sent to both, and storages and slabs are read.
    """
    plugins: Plugins = arguments.plugins
    samples, is_deep = arguments.samples, arguments.deep
    if samples is not None and (samples < 1 or not is_deep):
        sys.stderr.write("mastaba: --samples takes a positive number and needs --deep\n")
        return USAGE
    faults, source = Faults(), Source()
    for problem in plugins.broken.values():
        faults.error(arguments.file, "$", problem, "repair the plugin, or block it")
    server = catalogue = None
    with suppress(ConfigurationError):
        server = load_server(arguments.file, plugins, faults)
        faults.extend([missing_port(server)] if server.port is None else port_faults(server))
        catalogue = load_catalogue(server, plugins, Environment(), faults, source=source)
    documents = [ResourcePath("file", "", arguments.file), *source.versions]
    pool = catalogue.storages if catalogue else StoragePool(plugins.storages, Environment())
    faults.extend(duplicate_keys(documents, pool))
    report = _Report()
    if server is not None and catalogue is not None:
        report = _Report(len(catalogue.layers), catalogue.missing_layers)
        report.grey_in_pictures = _grey_in_pictures(catalogue)
        _check_extra_sets(catalogue, faults)
        _check_variants(server, catalogue, faults)
        try:
            site = _open_site(server, catalogue, plugins, faults)
            if site is not None:
                report.served = _summaries(site, server.services, faults, plugins)
                faults.extend(address_faults(site, server.services))
                _add_findings(site, server.services, faults)
                _check_access(site, plugins, faults)
            if site is not None and is_deep:
                report.examined = _examined(server, site, samples or DEFAULT_SAMPLES, faults)
        finally:
            catalogue.storages.close()
    if arguments.format == "json":
        _print_json(arguments.file, faults, report)
    else:
        _print_text(faults, report)
    return 1 if faults.errors else 0


def _check_variants(server: ServerConfig, catalogue: Catalogue, faults: Faults) -> None:
    """Open all variants of layers with dimensions; a start opens none.

    A client that moves through all values of one place needs the index of a slab of each.
    """
    levels: dict[str, int] = {}
    for name, table in catalogue.variants.items():
        levels[name] = 0
        for key, found in table.opened():
            if isinstance(found, str):
                reason = f"{key} cannot be opened: {found}"
                remedy = "correct its pyramid, or write the stack again"
                faults.error(f"layer {name}", "$.variants", reason, remedy)
            else:
                readers = catalogue.readers_of(found).values()
                levels[name] += sum(one.has_slabs for one in readers)
    most = max(levels, key=levels.__getitem__, default="")
    if most and levels[most] > server.cache_size:
        faults.warning(
            server.file,
            "$.cache.size",
            f"is {server.cache_size}; the values of the layer {most} have {levels[most]} levels "
            "together, with slabs of their own",
            f"set at least {levels[most]}, so that a client that moves through the values reads "
            "each index once",
        )


def _check_extra_sets(catalogue: Catalogue, faults: Faults) -> None:
    """Warn about extra tile matrix sets in which a layer cannot be offered.

    A start does not check this: what is offered is computed on the first request for a layer.
    """
    for layer in catalogue.layers.values():
        if not can_draw() and (layer.extra_tile_matrix_sets or layer.missing_tile_status == 200):
            faults.warning(
                f"layer {layer.id}",
                "$.extra_tilematrixsets" if layer.extra_tile_matrix_sets else "$.missing_tile",
                "such tiles are drawn, and mastaba-render is not installed",
                "install mastaba-render, or remove the key",
            )
            continue
        for tile_matrix_set in layer.extra_tile_matrix_sets:
            if link_to(layer, tile_matrix_set) is None:
                faults.warning(
                    f"layer {layer.id}",
                    "$.extra_tilematrixsets",
                    f"the layer cannot be offered in {tile_matrix_set.id!r}: it covers "
                    "another area, or none of its matrices has about the cell size of a level",
                    "remove it from the list",
                )


def _check_access(site: Site, plugins: Plugins, faults: Faults) -> None:
    """Add the problems that the plugin which controls access finds."""
    try:
        gate = plugins.gate(site)
        if gate is not None:
            faults.extend(gate.findings(site))
    except ConfigurationError as error:
        faults.extend(error.faults)
    except MastabaError as error:
        faults.error("server.json", "$.plugins", str(error), "fix the plugin, or block it")


def _add_findings(site: Site, file: str, faults: Faults) -> None:
    """Add the problems that services find, which have a method ``findings`` as gates do."""
    for name, service in site.services.items():
        try:
            faults.extend(getattr(service, "findings", tuple)())
        except Exception as error:  # noqa: BLE001 - of a plugin
            reason = f"the service {name!r} fails in findings: {type(error).__name__}: {error}"
            faults.error(file, "$", reason, "fix the plugin, or block it")


def _grey_in_pictures(catalogue: Catalogue) -> list[str]:
    """Return the layers of floats whose default style has no colours."""
    layers = catalogue.layers.values()
    floats = [layer for layer in layers if layer.pyramid.format.sample == "float32"]
    if not (floats and can_draw()):
        return []
    from mastaba_render.api.maps import is_bytes

    return [layer.id for layer in floats if not is_bytes(layer, layer.default_style)]


def _open_site(
    server: ServerConfig, catalogue: Catalogue, plugins: Plugins, faults: Faults
) -> Site | None:
    """Open the services and create the middleware, as at a start."""
    scoreboard = Scoreboard(1, 1)
    scoreboard.bind_worker(0)
    site = Site(
        catalogue,
        plugins,
        scoreboard,
        started=time.time(),
        main_pid=os.getpid(),
        plugin_settings=server.plugins,
        encoder_settings=plugins.encoders.settings(server.plugins),
    )
    try:
        site.open_services()
        Application(site)
    except ConfigurationError as error:
        faults.extend(error.faults)
        return None
    except MastabaError as error:
        faults.error(server.services, "$", str(error), "fix the plugin, or block it")
        return None
    return site


def _summaries(site: Site, file: str, faults: Faults, plugins: Plugins) -> list[str]:
    """Return what the services say that they serve, and what is known of containers."""
    lines: list[str] = []
    if not can_draw():
        lines.append("stored tiles only: mastaba-render, which draws, is not installed")
    for name, service in site.services.items():
        try:
            lines += map(str, service.summary())
        except Exception as error:  # noqa: BLE001 - of a plugin
            reason = f"the service {name!r} fails in summary: {type(error).__name__}: {error}"
            faults.error(file, "$", reason, "fix the plugin, or block it")
    found = lines + _virtual_services(site.catalogue, file, faults)
    reports = site.catalogue.reports.items()
    found += [f"{path}: {line}" for path, lines in reports for line in lines]
    # Only of the containers in use: the classes of others are not imported.
    abilities = plugins.containers.declared("cannot").items() if reports else ()
    return found + [
        f"the container {name} cannot: {', '.join(sorted(lacks))}"
        for name, lacks in abilities
        if lacks
    ]


def _virtual_services(catalogue: Catalogue, file: str, faults: Faults) -> list[str]:
    """Return what virtual services publish, and warn of those that publish nothing."""
    lines: list[str] = []
    for name, one in catalogue.virtual.items():
        count = sum(map(one.includes, catalogue.layers.values()))
        lines.append(f"virtual service {name}: {count} layers")
        lines += [
            f"  {kind}: {own.endpoint_uri}"
            for kind, own in one.services.items()
            if own.root_path != one.root_path
        ]
        if not count:
            faults.warning(file, f"$.virtual.{name}.layers", "matches no layer", "correct it")
    return lines


def _examined(server: ServerConfig, site: Site, samples: int, faults: Faults) -> Examined:
    from mastaba_doctor.examination import examine

    return examine(server, site, Application(site), samples, Environment(), faults)


def _print_text(faults: Faults, report: _Report) -> None:
    for fault in faults.all:
        print(escaped(f"{fault.severity}: {fault.file}: {fault.path}"))
        print(f"    {escaped(fault.reason)}")
        if fault.remedy:
            print(f"    to do: {escaped(fault.remedy)}")
    if report.grey_in_pictures:
        grey = ", ".join(report.grey_in_pictures)
        print(escaped(f"drawn in grey in picture formats, by default: {grey}"))
    for line in report.served:
        print(escaped(line))
    if (examined := report.examined) is not None:
        port = f"the port is {examined.port}" if examined.port else "no port"
        print(
            f"examined {examined.storages} storages, {examined.slabs} slabs of "
            f"{examined.levels} levels, {examined.endpoints} public addresses; {port}"
        )
    missing = ", ".join(sorted(report.missing_layers))
    left_out = f"; not published: {missing}" if missing else ""
    errors, warnings = _counts(faults)
    print(escaped(f"{errors} errors, {warnings} warnings, {report.layers} layers usable{left_out}"))


def _print_json(file: str, faults: Faults, report: _Report) -> None:
    errors, warnings = _counts(faults)
    document: dict[str, Any] = {
        "file": file,
        "errors": errors,
        "warnings": warnings,
        **asdict(report),
        "missing_layers": sorted(report.missing_layers),
        "faults": [asdict(fault) for fault in faults.all],
    }
    if report.examined is None:
        del document["examined"]
    print_json(document)


def _counts(faults: Faults) -> tuple[int, int]:
    warnings = sum(fault.severity is Severity.WARNING for fault in faults.all)
    return len(faults.errors), warnings
