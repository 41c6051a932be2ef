"""Changes of what is published: those of administrators, and their effect on layers."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any, Self

from mastaba.catalogue import Catalogue
from mastaba.model.bbox import BoundingBox
from mastaba.model.layer import Layer


class Action(StrEnum):
    """What a change does.

    Attributes:
        CREATE_LAYER: fails if the layer exists.
        REPLACE_LAYER: fails if the layer does not exist.
        DELETE_LAYER: fails if the layer does not exist.
        ENABLE_SERVICES: turns all services on.
        DISABLE_SERVICES: turns all services off, except those that are always on.
        RELOAD: reads the whole configuration again. Only begun when it is submitted.
        FORGET_INDICES: reads the indices of slabs again when they are needed, because slabs were
            replaced.
        REFRESH_LAYER: reads the variants of a layer again. ``document`` contains them, so that
            all processes have the same.
        CREATE_VIRTUAL, REPLACE_VIRTUAL, DELETE_VIRTUAL: as those of layers, for virtual services.
    """

    CREATE_LAYER = "create-layer"
    REPLACE_LAYER = "replace-layer"
    DELETE_LAYER = "delete-layer"
    ENABLE_SERVICES = "enable-services"
    DISABLE_SERVICES = "disable-services"
    RELOAD = "reload"
    FORGET_INDICES = "forget-indices"
    REFRESH_LAYER = "refresh-layer"
    CREATE_VIRTUAL = "create-virtual"
    REPLACE_VIRTUAL = "replace-virtual"
    DELETE_VIRTUAL = "delete-virtual"


@dataclass(frozen=True, slots=True)
class Change:
    """One change.

    Attributes:
        action: what to do.
        layer: identifier, if the action concerns a layer.
        document: layer descriptor as read by `mastaba.api.documents.parse_document`, for a layer
            that is created or replaced; in the same way the section of a virtual service.
        virtual: name, if the action concerns a virtual service.
    """

    action: Action
    layer: str = ""
    document: Any = None
    virtual: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the change as a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Return the change in a JSON object that `to_json` has created."""
        return cls(**{**value, "action": Action(value["action"])})


@dataclass(frozen=True, slots=True)
class LayerChange:
    """What has changed in a layer, for `generation_changed`.

    Attributes:
        layer: identifier.
        before: its generation until now; None for a new layer.
        after: its generation from now on; None for a removed layer.
        bbox: around all that has changed, in the CRS of the tile matrix set; None if anything may
            have changed. Documents may have changed in any case.
        variant: key of the variant that has changed; empty for the layer itself. ``before`` and
            ``after`` are then stamps.
    """

    layer: str
    before: str | None
    after: str | None
    bbox: BoundingBox | None = None
    variant: str = ""


def layer_changes(old: Catalogue, new: Catalogue) -> list[LayerChange]:
    """Return the layers and variants that differ in anything, sorted by identifier.

    So do the layers of virtual services that differ: they have other addresses or other limits.
    """
    changes: list[LayerChange] = []
    names = old.virtual.keys() | new.virtual.keys()
    pairs = [(old.virtual.get(name), new.virtual.get(name)) for name in names]
    virtual = [one for pair in pairs if pair[0] != pair[1] for one in pair if one is not None]
    for name in sorted(old.layers.keys() | new.layers.keys()):
        before, after = old.layers.get(name), new.layers.get(name)
        if before == after:
            if before is not None and any(one.includes(before) for one in virtual):
                changes.append(LayerChange(name, before.generation, before.generation))
            continue
        table, known = new.variants.get(name), old.variants.get(name)
        of_variants = [] if table is None or known is None else table.changes(known)
        if before is None or after is None or of_variants is None:
            changes.append(LayerChange(name, _generation(before), _generation(after)))
            continue
        changes += [LayerChange(name, *one) for one in of_variants]
        if not of_variants or before.pyramid != after.pyramid or not _are_alike(before, after):
            bbox = _changed_area(before, after)
            changes.append(LayerChange(name, before.generation, after.generation, bbox))
    return changes


def _are_alike(before: Layer, after: Layer) -> bool:
    """Return whether layers differ only in what follows from their pyramids and values."""
    same = replace(
        before,
        pyramid=after.pyramid,
        native_bbox=after.native_bbox,
        geographic_bbox=after.geographic_bbox,
        surrogate_keys=after.surrogate_keys,
        generation=after.generation,
        headers=after.headers,
        at=after.at,
        interval=after.interval,
        tile_limits=after.tile_limits,
    )
    return same == after


def _changed_area(before: Layer, after: Layer) -> BoundingBox | None:
    """Return the area of an update of the pyramid; None if anything else has changed."""
    old, new = before.pyramid, after.pyramid
    if new.update is None or new.update.since != old.generation:
        return None
    # What follows from the update: the generations, and the extent.
    same_pyramid = replace(
        old, levels=new.levels, generation=new.generation, update=new.update, parts=new.parts
    )
    is_update = old.levels.keys() == new.levels.keys() and same_pyramid == new
    return new.update.bbox if is_update and _are_alike(before, after) else None


def _generation(layer: Layer | None) -> str | None:
    return None if layer is None else layer.generation
