"""What distinguishes a map from the one that a client already has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.render.ground import MESH_CENTRE, World, around, ramp

from mastaba.model.crs import CRS
from mastaba_render.map_request import MapLayer, MapRequest
from mastaba_storage.base import ObjectRead
from mastaba_storage.file import FileStorage


def version_of(world: World, *names: str) -> str | None:
    layers = tuple(MapLayer(world.layer(name), None) for name in names)
    bbox = around("EPSG:3857", 30000, 30000, MESH_CENTRE)
    request = MapRequest(layers, bbox, CRS.from_code("EPSG:3857"), 75, 75)
    return world.site.renderer.prepare(request).sources().version


def test_a_map_of_a_storage_without_generations_has_no_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One layer of several is enough: the map changes with it, and nothing says when."""
    world = World(tmp_path, limits={"layers_count": 2})
    world.add("known", ramp)
    world.add("unknown", ramp)
    read = FileStorage.read

    def read_some_without_version(self: FileStorage, key: str, *args: Any) -> ObjectRead:
        found = read(self, key, *args)
        return found._replace(version=None) if "unknown" in key else found

    monkeypatch.setattr(FileStorage, "read", read_some_without_version)
    assert version_of(world, "known") is not None
    assert version_of(world, "unknown") is None
    assert version_of(world, "known", "unknown") is None
    assert version_of(world, "unknown", "known") is None
    world.close()


def test_the_version_changes_with_the_tiles_of_the_map(world: World) -> None:
    world.add("ramp", ramp)
    layer = world.layer("ramp")
    assert version_of(world, "ramp") == version_of(world, "ramp")
    other = MapRequest(
        (MapLayer(layer, None),),
        around("EPSG:3857", 30000, 30000, (MESH_CENTRE[0] + 60000, MESH_CENTRE[1])),
        CRS.from_code("EPSG:3857"),
        75,
        75,
    )
    assert world.site.renderer.prepare(other).sources().version != version_of(world, "ramp")
