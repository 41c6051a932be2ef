"""Publication: the documents of a pyramid, the descriptor last."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyproj

from mastaba.api.catalogue import TileLimits
from mastaba_build.errors import BuildError
from mastaba_build.plan import Plan, slab_directory
from mastaba_build.storage import FileWriter
from mastaba_build.task import MASK_FORMAT, SlabResult, slab_key
from mastaba_writer.descriptor import LevelPlan, pyramid_descriptor, slab_list
from mastaba_writer.installation import installed_services, layer_document, write_installation

SERVER = "server"
"""Directory of the installation that serves the pyramids of an output directory."""


def publish(plan: Plan, results: Sequence[SlabResult]) -> Path:
    """Write the list, the build record, the descriptor and the layer; return the descriptor.

    Args:
        results: all slabs, from the coarsest level to the finest.

    Raises:
        BuildError: no source has data.
        OSError: a document cannot be written.
    """
    configuration = plan.configuration
    stored = [result for result in results if result.size]
    if not stored:
        raise BuildError("no source pixel has data; check nodata, tolerance and the levels")
    name, output = configuration.name, FileWriter(configuration.output)
    limits: dict[int, TileLimits] = {}
    for result in stored:
        assert result.limits is not None
        known = limits.get(result.slab.level, result.limits)
        limits[result.slab.level] = TileLimits(
            min(known.min_row, result.limits.min_row),
            max(known.max_row, result.limits.max_row),
            min(known.min_col, result.limits.min_col),
            max(known.max_col, result.limits.max_col),
        )
    levels = [
        LevelPlan(
            plan.levels[level].matrix.id,
            limits[level].min_row,
            limits[level].max_row,
            limits[level].min_col,
            limits[level].max_col,
        )
        for level in sorted(limits, reverse=True)
    ]
    kinds = ("DATA", "MASK") if configuration.masks else ("DATA",)
    keys = [slab_key(plan, result.slab, kind) for kind in kinds for result in stored]

    def storage(level: str) -> dict[str, Any]:
        place: dict[str, Any] = {
            "type": "FILE",
            "image_directory": f"{name}/DATA/{level}",
            "path_depth": configuration.path_depth,
        }
        if configuration.masks:
            place["mask_directory"] = f"{name}/MASK/{level}"
        return place

    descriptor = pyramid_descriptor(
        configuration.tile_matrix_set,
        plan.pixel_type.format,
        levels,
        slab_size=configuration.slab,
        storage=storage,
        channels=plan.pixel_type.channels,
        nodata=plan.pixel_type.nodata,
        interpolation=configuration.interpolation.split("_")[0],
        mask_format=MASK_FORMAT if configuration.masks else None,
        tables=plan.tables,
    )
    record = {
        "plan": plan.identity,
        "format": plan.pixel_type.format,
        "encoder": plan.encoder,
        "tile_size": [plan.levels[0].matrix.tile_width, plan.levels[0].matrix.tile_height],
        "sources": [{"path": source.path, "identity": source.identity} for source in plan.sources],
        "tiles": sum(result.tiles for result in stored),
        "bytes": sum(result.size for result in stored),
        "slabs": {slab_key(plan, one.slab): [one.size, one.md5] for one in stored},
    }
    output.write(f"{name}.list", slab_list(str(slab_directory(plan)), keys).encode())
    output.write(f"{name}.build.json", _text(record))
    output.write(f"{name}.json", _text(descriptor))
    path = configuration.output / f"{name}.json"
    layer = layer_document(
        path,
        tile_matrix_sets={configuration.tile_matrix_set: plan.set_document},
        title=configuration.title or name,
        **plan.layer_fields(),
    )
    output.write(f"{name}.layer.json", _text(layer))
    return path


def write_server(plan: Plan, public_url: str) -> Path:
    """Write an installation that serves all layers in the output directory.

    Returns:
        the path of its server.json.

    Raises:
        OSError: a file cannot be written, or a layer cannot be read.
    """
    output = plan.configuration.output
    layers = {
        path.name.removesuffix(".layer.json"): json.loads(path.read_text("utf-8"))
        for path in sorted(output.glob("*.layer.json"))
    }
    sets = {plan.configuration.tile_matrix_set: plan.set_document}
    for path in (output / SERVER / "tilematrixsets").glob("*.json"):
        sets.setdefault(path.stem, json.loads(path.read_text("utf-8")))
    return write_installation(
        output / SERVER,
        layers=layers,
        tile_matrix_sets=sets,
        services=installed_services(),
        public_url=public_url,
        services_overrides={"global": {"cors": True, "map": {"crs": _offered_crs(plan)}}},
    )


def _offered_crs(plan: Plan) -> list[str]:
    """Return the codes for maps: the usual ones, those of earlier builds, those of the sources."""
    codes = ["CRS:84", "EPSG:4326", "EPSG:3857"]
    earlier = plan.configuration.output / SERVER / "services.json"
    if earlier.exists():
        document = json.loads(earlier.read_text("utf-8"))
        codes += document.get("global", {}).get("map", {}).get("crs", [])
    for group in plan.groups:
        authority = pyproj.CRS.from_wkt(group.crs).to_authority()
        if authority is not None:
            codes.append(":".join(authority))
    return list(dict.fromkeys(codes))


def _text(document: Mapping[str, Any]) -> bytes:
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()
