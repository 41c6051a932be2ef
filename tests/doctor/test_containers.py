"""Sampled tiles of containers."""

from __future__ import annotations

from pathlib import Path

from tests.container_cog.served import add_layer
from tests.container_pmtiles.test_archives import PNG, archive, image
from tests.doctor.test_slabs import examine

from mastaba_documents.faults import Severity
from mastaba_pmtiles.tile_ids import ZoomIds, first_id


def test_a_damaged_tile_of_a_sparse_archive(own: Path) -> None:
    tile = image("PNG")
    # A sixteenth of zoom 7, all below its first 4096 places.
    first = first_id(7) + (ZoomIds(7).of(100, 100) - first_id(7)) // 1024 * 1024
    root = [(0, 1, len(tile), 0), (first, 1024, len(tile) // 2, 0)]
    path = own.parent / "sparse.pmtiles"
    path.write_bytes(archive(root, tile, kind=PNG, zooms=(0, 7)))
    add_layer(own.parent, "SPARSE", {"path": str(path)})
    found = {fault.reason.partition(":")[0]: fault for fault in examine(own).faults}
    empty = [f"layer SPARSE, level {zoom}" for zoom in range(1, 7)]
    assert sorted(found) == [*empty, "layer SPARSE, level 7"]
    damaged = found.pop("layer SPARSE, level 7")
    assert (damaged.severity, damaged.file) == (Severity.ERROR, str(path))
    assert damaged.path.startswith("tile ")
    assert {fault.severity for fault in found.values()} == {Severity.WARNING}
    assert "no tile is stored at the 4 places looked at" in found[empty[0]].reason


def test_as_many_tiles_as_wanted_are_decoded(own: Path) -> None:
    before, tile = examine(own).slabs, image("PNG")
    path = own.parent / "full.pmtiles"
    root = [(0, first_id(5), len(tile), 0)]
    path.write_bytes(archive(root, tile, kind=PNG, zooms=(0, 4)))
    add_layer(own.parent, "FULL", {"path": str(path)})
    assert examine(own).slabs - before == 1 + 2 * 4
