"""Levels of a COG inside an area."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.container_cog.files import ground
from tests.container_cog.served import SIDE, add_layer, client_of, cog_of, place_of
from tests.tiny import tiny_installation

from mastaba.slab.lookup import TileState, look_up
from mastaba_render.api.areas import Area, masked_readers, narrowed


def test_tiles_are_looked_up_by_row_and_column(tmp_path: Path) -> None:
    data = cog_of(tmp_path, ground("uint8", 3, (256 * SIDE, 256 * SIDE)), COMPRESS="JPEG")
    (tmp_path / "a.tif").write_bytes(data)
    server = tiny_installation(tmp_path / "site")
    add_layer(tmp_path / "site", "COG", {"path": str(tmp_path / "a.tif")})
    catalogue = client_of(server).application.site.catalogue
    layer, readers = catalogue.layers["COG"], catalogue.readers["COG"]
    # The southern half, with a column of tiles at the edge.
    box = layer.geographic_bbox
    middle = (box.xmin + box.xmax) / 2 + 1e-3
    ring = [
        [box.xmin, box.ymin],
        [middle, box.ymin],
        [middle, box.ymax - (box.ymax - box.ymin) * 0.6],
        [box.xmin, box.ymax - (box.ymax - box.ymin) * 0.6],
        [box.xmin, box.ymin],
    ]
    area = Area.from_geojson({"type": "Polygon", "coordinates": [ring]})
    shown = narrowed(layer, area)
    assert shown is not None
    masked = masked_readers(shown, readers, area)
    for level in ("3", "4"):
        reader, plain = masked[level], readers[level]
        states = set()
        for row in range(SIDE if level == "4" else 2):
            for col in range(SIDE if level == "4" else 2):
                _, *place = place_of(level, row, col)
                if not reader.level.limits.contains(*place):
                    continue
                found, located = look_up(reader, *place), reader.locate(*place)
                states.add(found.state)
                assert (found.state is TileState.STORED) == (located is not None)
                if located is not None:
                    assert (found.offset, found.number) == (
                        plain.locate(*place).offset,
                        plain.place_of(*place)[1],
                    )
        assert TileState.STORED in states
        block, number = reader.place_of(*place_of(level, 3 if level == "4" else 1, 0)[1:])
        index = reader.index(block)
        assert index.tile(number) is None
        with pytest.raises(NotImplementedError):
            reader.stored_tile(block, index, number)
