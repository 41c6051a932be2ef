"""Memory of the stored tiles of many values: variants share what is alike."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path

from tests.series import LEVELS, series_installation

from mastaba.wsgi import create_application

YEARS = [str(1900 + number) for number in range(24)]
KNOWN = 4
"""Values whose tiles are read before the measurement."""
MOST = 9_900
"""Bytes of a value and its levels, each with a slab of one tile, once the tiles have been read."""
TILE = (
    "SERVICE=WMTS&REQUEST=GetTile&VERSION=1.0.0&LAYER=ORTHO&STYLE=normal&FORMAT=image/png"
    "&TILEMATRIXSET=PM&TILEMATRIX={}&TILEROW={}&TILECOL={}&TIME={}"
)


def test_a_further_value_takes_little_memory(tmp_path: Path) -> None:
    server = series_installation(tmp_path, [{"time": year} for year in YEARS], services=("wmts",))
    application = create_application(str(server))

    def read(years: list[str]) -> None:
        for year in years:
            for level in LEVELS:
                query = TILE.format(level.id, level.min_row, level.min_col, year)
                response = application.stored_tile("/wmts", query, {})
                assert response is not None
                assert response.status == 200

    read(YEARS[:KNOWN])
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        read(YEARS[KNOWN:])
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (after - before) / (len(YEARS) - KNOWN) < MOST
    application.site.catalogue.storages.close()
