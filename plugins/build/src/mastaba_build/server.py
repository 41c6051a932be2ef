"""An installation that serves what was built."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pyproj

from mastaba_build.plan import Plan
from mastaba_writer.installation import installed_services, write_installation


def server_directory(plan: Plan) -> Path:
    """Return the directory of the installation: ``server`` in the output or here."""
    return plan.configuration.server or plan.configuration.output.directory / "server"


def write_server(plan: Plan, public_url: str) -> Path:
    """Write an installation that serves the layer, and those that it has served before.

    Returns:
        the path of its server.json.

    Raises:
        OSError: a file cannot be written, or a layer cannot be read.
        OutputError: the layer cannot be read.
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
    with closing(output.open()) as place:
        layer = place.read_if_exists(f"{name}.layer.json")
    if layer is not None:
        layers[name] = json.loads(layer)
    sets = {configuration.tile_matrix_set: plan.set_document}
    for path in (directory / "tilematrixsets").glob("*.json"):
        sets.setdefault(path.stem, json.loads(path.read_text("utf-8")))
    return write_installation(
        directory,
        layers=dict(sorted(layers.items())),
        tile_matrix_sets=sets,
        services=installed_services(),
        public_url=public_url,
        services_overrides={"global": {"cors": True, "map": {"crs": _offered_crs(plan)}}},
    )


def _offered_crs(plan: Plan) -> list[str]:
    """Return the codes for maps: the usual ones, those of earlier builds, those of the sources."""
    codes = ["CRS:84", "EPSG:4326", "EPSG:3857"]
    earlier = server_directory(plan) / "services.json"
    if earlier.exists():
        document = json.loads(earlier.read_text("utf-8"))
        codes += document.get("global", {}).get("map", {}).get("crs", [])
    for group in plan.groups:
        authority = pyproj.CRS.from_wkt(group.crs).to_authority()
        if authority is not None:
            codes.append(":".join(authority))
    return list(dict.fromkeys(codes))
