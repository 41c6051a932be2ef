"""A layer around a pole: what documents say of its place."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from werkzeug.test import Client

from mastaba.api.tools import create_application
from mastaba_export.plan import plan
from mastaba_export.request import ExportRequest
from mastaba_export.writers.metadata import bounds_of
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import synthetic


def test_documents_of_a_layer_around_a_pole_contain_the_pole(tmp_path: Path) -> None:
    document = synthetic(
        "NORTH",
        crs="EPSG:3413",
        origin=(-1.6e6, 1.6e6),
        cell_sizes=[5e4],
        matrix_sizes=[(1, 1)],
        tile_size=(64, 64),
    )
    sets = {"NORTH": document}
    path = write_pyramid(
        tmp_path,
        "north",
        tile_matrix_set=document,
        format="TIFF_ZIP_FLOAT32",
        channels=1,
        levels=[LevelPlan("0", 0, 0, 0, 0)],
        tile=lambda level, row, col: np.zeros((64, 64), np.float32),
    )
    server_json = write_installation(
        tmp_path,
        layers={"north": layer_document(path, tile_matrix_sets=sets, coverages=True)},
        tile_matrix_sets=sets,
        services=["ogcapi"],
        services_overrides={"ogcapi": {"coverages": True}},
    )
    application = create_application(str(server_json))
    client = Client(application)
    parts = client.get("/ogcapi/collections/north/coverage/parts").json["features"]
    (ring,) = parts[0]["geometry"]["coordinates"]
    assert [-180.0, 90.0] in ring
    api = client.get("/ogcapi/api?f=json&collection=north").json
    examples = json.dumps(list(api["components"]["parameters"].values()))
    assert ", 180.0, 90.0" in examples or ",180.0,90.0" in examples
    request = ExportRequest.from_inputs({"layer": "north", "format": "dir"})
    box = bounds_of(plan(request, application.site))
    assert (box.xmin, box.xmax, box.ymax) == (-180.0, 180.0, 90.0)
    application.site.close_services()


def test_parts_beside_a_pole_or_at_the_antimeridian_are_no_belts(tmp_path: Path) -> None:
    document = synthetic(
        "NORTH",
        crs="EPSG:3413",
        origin=(-2e6, 2e6),
        cell_sizes=[2.5e5],
        matrix_sizes=[(4, 4)],
        tile_size=(4, 4),
    )
    sets = {"NORTH": document}
    path = write_pyramid(
        tmp_path,
        "north",
        tile_matrix_set=document,
        format="TIFF_ZIP_FLOAT32",
        channels=1,
        levels=[LevelPlan("0", 0, 3, 0, 3)],
        tile=lambda level, row, col: np.zeros((4, 4), np.float32),
    )
    server_json = write_installation(
        tmp_path,
        layers={"north": layer_document(path, tile_matrix_sets=sets, coverages=True)},
        tile_matrix_sets=sets,
        services=["ogcapi"],
        services_overrides={"ogcapi": {"coverages": {"limits": {"tiles": 1}}}},
    )
    application = create_application(str(server_json))
    client = Client(application)
    parts = client.get("/ogcapi/collections/north/coverage/parts").json["features"]
    found = {}
    for part in parts:
        polygons = part["geometry"]["coordinates"]
        if part["geometry"]["type"] == "Polygon":
            polygons = [polygons]
        edges = [
            (round(min(x for x, _ in ring), 1), round(max(x for x, _ in ring), 1))
            for (ring,) in polygons
        ]
        west, south, _, _ = part["properties"]["storageCrsBbox"]
        found[west / 1e6, south / 1e6] = edges
    assert len(found) == 16
    assert found[-2, 1] == [(161.6, 180.0), (-180.0, -161.6)]
    assert found[-1, 0] == [(135.0, 180.0), (-180.0, -135.0)]
    assert found[0, 0] == [(45.0, 135.0)]
    assert found[1, -2] == [(-18.4, 18.4)]
    application.site.close_services()
