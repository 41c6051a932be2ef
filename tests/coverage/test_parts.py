"""The side of parts follows from all limits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mastaba.wsgi import create_application
from mastaba_coverage import Coverage, CoverageLimits, side_of_parts
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import synthetic

LEVELS = 11
SIDE = 4096
"""Tiles of a side of the finest level."""


def coverage(directory: Path, name: str, channels: int, slab: int) -> Coverage:
    """Return the coverage of a large layer of which nothing is stored."""
    sides = [SIDE >> level for level in reversed(range(LEVELS))]
    grid = synthetic(
        "LARGE",
        crs="EPSG:2154",
        origin=(0.0, 12_000_000.0),
        cell_sizes=[0.5 * SIDE / side for side in sides],
        matrix_sizes=[(side, side) for side in sides],
    )
    descriptor = write_pyramid(
        directory / "pyramids",
        "large",
        tile_matrix_set=grid,
        format=name,
        channels=channels,
        levels=[LevelPlan(str(level), 0, 0, 0, 0) for level in reversed(range(LEVELS))],
        tile=lambda level, row, col: None,
        tiles_per_width=slab,
        tiles_per_height=slab,
    )
    document = json.loads(descriptor.read_text("utf-8"))
    for level in document["levels"]:
        last = sides[int(level["id"])] - 1
        level["tile_limits"] = {"min_row": 0, "max_row": last, "min_col": 0, "max_col": last}
    descriptor.write_text(json.dumps(document), "utf-8")
    sets = {"LARGE": grid}
    server_json = write_installation(
        directory,
        layers={"large": layer_document(descriptor, tile_matrix_sets=sets)},
        tile_matrix_sets=sets,
        services=["wmts"],
    )
    catalogue = create_application(str(server_json)).site.catalogue
    return Coverage.of(catalogue.layers["large"], catalogue.readers["large"])


@pytest.mark.parametrize(
    ("name", "channels", "slab", "limits", "side"),
    [
        # 16 GiB: 256 x 256 tiles of floats with their overviews would be 22.9 GB.
        ("TIFF_ZIP_FLOAT32", 1, 16, {}, 128),
        ("TIFF_JPG_UINT8", 3, 16, {}, 128),
        ("TIFF_PNG_UINT8", 1, 16, {}, 256),
        ("TIFF_ZIP_FLOAT32", 1, 16, {"stream_bytes": 2**40}, 512),
        ("TIFF_ZIP_FLOAT32", 1, 16, {"stream_bytes": 2**40, "tiles": 349_525}, 512),
        ("TIFF_ZIP_FLOAT32", 1, 16, {"stream_bytes": 2**40, "tiles": 300_000}, 256),
        # Slabs of 10 x 10 begin anywhere in a part.
        ("TIFF_ZIP_FLOAT32", 1, 10, {"stream_bytes": 2**40, "indices": 4000}, 512),
        ("TIFF_ZIP_FLOAT32", 1, 10, {"stream_bytes": 2**40, "indices": 3500}, 256),
        ("TIFF_ZIP_FLOAT32", 1, 4, {"stream_bytes": 2**40}, 256),
        ("TIFF_ZIP_FLOAT32", 1, 16, {"stream_bytes": 300_000}, 0),
    ],
)
def test_side_of_parts(
    tmp_path: Path, name: str, channels: int, slab: int, limits: dict[str, int], side: int
) -> None:
    found = coverage(tmp_path, name, channels, slab)
    assert side_of_parts(found, CoverageLimits(**limits)) == side
