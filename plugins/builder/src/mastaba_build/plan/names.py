"""Names of slabs below the root of a pyramid (pyramid.md section 3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mastaba_build.output.records import RecordedSlab
from mastaba_build.plan.plan import Plan, SlabKey
from mastaba_writer.slab_names import slab_object, slab_path

MASK_FORMAT = "TIFF_ZIP_UINT8"


def slab_key(plan: Plan, slab: SlabKey, kind: str = "DATA") -> str:
    """Return the name of a slab: ``DATA/<level>/<path>.tif``, or ``DATA_<level>_<column>_<row>``.

    Args:
        kind: ``DATA`` or ``MASK``.
    """
    level = plan.levels[slab.level].matrix.id
    if plan.configuration.output.is_local:
        path = slab_path(slab.column, slab.row, plan.configuration.path_depth)
        return f"{kind}/{level}/{path}"
    return slab_object(f"{kind}_{level}", slab.column, slab.row)


def kinds(plan: Plan) -> tuple[str, ...]:
    """Return the kinds of slabs of a pyramid."""
    return ("DATA", "MASK") if plan.configuration.masks else ("DATA",)


def level_storage(plan: Plan, level: str) -> dict[str, Any]:
    """Return the object ``storage`` of a level (pyramid.md section 2.4)."""
    output, root = plan.configuration.output, plan.root
    place: dict[str, Any] = {"type": output.storage.upper()}
    if output.is_local:
        place["image_directory"] = f"{root}/DATA/{level}"
        place["path_depth"] = plan.configuration.path_depth
        if plan.configuration.masks:
            place["mask_directory"] = f"{root}/MASK/{level}"
        return place
    if output.container_field is not None:
        # Without a cluster: that of the descriptor.
        place[output.container_field] = output.container.partition("@")[0]
    place["image_prefix"] = output.key(f"{root}/DATA_{level}")
    if plan.configuration.masks:
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
    storage = next(one["storage"] for one in descriptor["levels"] if one["id"] == slab.level)
    if "path_depth" in storage:
        return f"{kind}/{slab.level}/{slab_path(slab.column, slab.row, storage['path_depth'])}"
    return slab_object(f"{kind}_{slab.level}", slab.column, slab.row)
