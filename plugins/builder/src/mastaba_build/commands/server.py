"""An installation that serves what was built."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyproj

from mastaba_build.errors import OutputError
from mastaba_build.plan.plan import Plan
from mastaba_writer.documents import merged
from mastaba_writer.installation import installed_services, write_installation


def server_directory(plan: Plan) -> Path:
    """Return the directory of the installation: ``server`` in the output or here."""
    return plan.configuration.server or plan.configuration.output.directory / "server"


def write_server(plan: Plan, public_url: str) -> Path:
    """Write an installation that serves the layer, and those that it has served before.

    Services that the build does not know, because they are blocked, are left out.

    Keys of earlier server.json and services.json are kept: the operator may have edited them. Only
    public URLs on this machine are replaced.

    Returns:
        the path of its server.json.

    Raises:
        OSError: a file cannot be written, or a layer cannot be read.
        OutputError: the layer, server.json or services.json cannot be read.
    """
    configuration, directory = plan.configuration, server_directory(plan)
    output = configuration.output
    paths = sorted((directory / "layers").glob("*.json"))
    if output.is_local:
        paths = sorted(output.directory.glob("*.layer.json"))
    layers = {
        path.name.removesuffix(".json").removesuffix(".layer"): json.loads(path.read_text("utf-8"))
        for path in paths
    }
    name = configuration.name
    with closing(output.open()) as store:
        layer = store.read_if_exists(f"{name}.layer.json")
    if layer is not None:
        layers[name] = json.loads(layer)
    sets = {configuration.tile_matrix_set: plan.set_document}
    for path in (directory / "tilematrixsets").glob("*.json"):
        sets.setdefault(path.stem, json.loads(path.read_text("utf-8")))
    services = _earlier(directory / "services.json")
    for section in services.values():
        if isinstance(section, dict) and _is_local(section.get("endpoint_uri")):
            del section["endpoint_uri"]
    try:
        offered = list(services.get("global", {}).get("map", {}).get("crs", []))
    except (AttributeError, TypeError):
        raise OutputError(f"{directory / 'services.json'}: global.map.crs is not a list") from None
    known = configuration.access.plugins.load().services
    services = merged({"global": {"cors": True}}, services)
    return write_installation(
        directory,
        layers=dict(sorted(layers.items())),
        tile_matrix_sets=sets,
        services=[name for name in installed_services() if name in known],
        public_url=public_url,
        services_overrides=merged(
            services, {"global": {"map": {"crs": _offered_crs(plan, offered)}}}
        ),
        server_overrides=_earlier(directory / "server.json"),
    )


def _is_local(uri: object) -> bool:
    return isinstance(uri, str) and urlsplit(uri).hostname in ("127.0.0.1", "localhost", "::1")


def _earlier(path: Path) -> dict[str, Any]:
    """Return a document as an earlier build or its operator has left it; empty if there is none."""
    try:
        document = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError) as error:
        raise OutputError(f"{path}: {error}; correct the file, or remove it") from None
    if not isinstance(document, dict):
        raise OutputError(f"{path}: not a JSON object; correct the file, or remove it")
    return document


def _offered_crs(plan: Plan, offered: list[str]) -> list[str]:
    """Return the codes for maps: the usual ones, those offered so far, those of the sources."""
    codes = ["CRS:84", "EPSG:4326", "EPSG:3857", *offered]
    for group in plan.groups:
        authority = pyproj.CRS.from_wkt(group.crs).to_authority()
        if authority is not None:
            codes.append(":".join(authority))
    return list(dict.fromkeys(codes))
