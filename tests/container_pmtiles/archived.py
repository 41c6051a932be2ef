"""An installation whose layers are there twice: as slab pyramids, and as archives."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from tests.export.ground import planned
from tests.tiny import tiny_installation
from werkzeug.test import Client

from mastaba.api.services import Site
from mastaba.api.tools import Application, create_application
from mastaba_export.run import run

LAYERS = ("RGB_JPG", "RGB_PNG", "RGBA_PNG", "GREY_PNG", "VECTOR")


def archived_installation(directory: Path) -> Path:
    """Write the installation, and return the path of its server.json.

    The archive of the layer RGB_PNG is the layer RGB_PNG_A, and so on.
    """
    server = tiny_installation(directory)
    application = create_application(str(server))
    for name in LAYERS:
        run(planned(application.site, name, "pmtiles"), directory / f"{name}.pmtiles")
        document = json.loads((directory / "layers" / f"{name}.json").read_text())
        raster = application.site.catalogue.layers[name].pyramid.raster
        options = {"options": {"nodata": raster.nodata}} if raster else {}
        document["pyramids"] = [{"path": str(directory / f"{name}.pmtiles"), **options}]
        (directory / "layers" / f"{name}_A.json").write_text(json.dumps(document))
    application.site.catalogue.storages.close()
    with (directory / "layers.txt").open("a") as file:
        file.writelines(f"{directory}/layers/{name}_A.json\n" for name in LAYERS)
    return server


def opened(server: Path) -> tuple[Application, Client]:
    """Return an application and a client of it."""
    application = create_application(str(server))
    return application, Client(application)


def stored_tiles(site: Site, layer: str) -> Iterator[tuple[str, int, int, bytes]]:
    """Yield level, row, column and bytes of each stored tile of a layer."""
    for name, reader in site.catalogue.readers[layer].items():
        limits = reader.level.limits
        for row in range(limits.min_row, limits.max_row + 1):
            for column in range(limits.min_col, limits.max_col + 1):
                tile = reader.locate(row, column)
                if tile is not None:
                    yield name, row, column, tile.read()
