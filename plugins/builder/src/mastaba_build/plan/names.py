"""Names of slabs below the root of a pyramid (pyramid.md section 3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mastaba_build.output.records import RecordedSlab
from mastaba_build.plan.plan import Plan, SlabKey
from mastaba_writer.slab_names import slab_object, slab_path

SOURCE = "SOURCE"
"""The kind of slabs of source numbers."""
SOURCE_FORMAT = "TIFF_ZIP_FLOAT32"


def slab_key(plan: Plan, slab: SlabKey, kind: str = "DATA") -> str:
    """Return the name of a slab: ``DATA/<level>/<path>.tif``, or ``DATA_<level>_<column>_<row>``.

    Args:
        kind: ``DATA``, ``MASK`` or ``SOURCE``.
    """
    level = plan.levels[slab.level].matrix.id
    if plan.configuration.output.is_local:
        path = slab_path(slab.column, slab.row, plan.configuration.path_depth)
        return f"{kind}/{level}/{path}"
    return slab_object(f"{kind}_{level}", slab.column, slab.row)


def kinds(plan: Plan) -> tuple[str, ...]:
    """Return the kinds of slabs of a pyramid; those of source numbers have their own pyramid."""
    return ("DATA", "MASK") if plan.configuration.masks else ("DATA",)


def level_storage(plan: Plan, level: str, kind: str = "DATA") -> dict[str, Any]:
    """Return the object ``storage`` of a level (pyramid.md section 2.4).

    Args:
        kind: ``DATA``, or ``SOURCE`` for the pyramid of source numbers.
    """
    output, root = plan.configuration.output, plan.root
    masks = plan.configuration.masks and kind == "DATA"
    place: dict[str, Any] = {"type": output.storage.upper()}
    if output.is_local:
        place["image_directory"] = f"{root}/{kind}/{level}"
        place["path_depth"] = plan.configuration.path_depth
        if masks:
            place["mask_directory"] = f"{root}/MASK/{level}"
        return place
    if output.container_field is not None:
        # Without a cluster: that of the descriptor.
        place[output.container_field] = output.container.partition("@")[0]
    place["image_prefix"] = output.key(f"{root}/{kind}_{level}")
    if masks:
        place["mask_prefix"] = output.key(f"{root}/MASK_{level}")
    return place


def kinds_of(descriptor: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the kinds of slabs of a pyramid, from its descriptor."""
    return ("DATA", "MASK") if "mask_format" in descriptor else ("DATA",)


def recorded_key(descriptor: Mapping[str, Any], slab: RecordedSlab, kind: str = "DATA") -> str:
    """Return the name of a recorded slab, as `slab_key`.

    Args:
        descriptor: pyramid descriptor.
    """
    return placed_key(descriptor, slab.level, slab.column, slab.row, kind)


def placed_key(
    descriptor: Mapping[str, Any], level: str, column: int, row: int, kind: str = "DATA"
) -> str:
    """Return the name of a slab of a level, as `slab_key`.

    Args:
        descriptor: pyramid descriptor.
    """
    storage = next(one["storage"] for one in descriptor["levels"] if one["id"] == level)
    if "path_depth" in storage:
        return f"{kind}/{level}/{slab_path(column, row, storage['path_depth'])}"
    return slab_object(f"{kind}_{level}", column, row)
