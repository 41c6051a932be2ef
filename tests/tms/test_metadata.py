"""metadata.json (tms.md section 7, TileJSON 3.0.0)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from werkzeug.test import Client

from mastaba_conformance.tiny_installation import tiny_integer_tile, tiny_vector_tile
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import synthetic

OpenClient = Callable[[Path], Client]
LAYERS = [
    "FLOAT32_RAW",
    "FLOAT32_ZIP",
    "GREYA_ZIP",
    "GREY_PNG",
    "RGBA_PNG",
    "RGB_JPG",
    "RGB_PNG",
    "RGB_RAW",
    "VECTOR",
]


def metadata(client: Client, layer: str) -> dict[str, Any]:
    response = client.get(f"/tms/1.0.0/{layer}/metadata.json")
    assert response.status_code == 200
    assert response.content_type == "application/json"
    found: dict[str, Any] = json.loads(response.data)
    return found


def test_raster_layer(tiny: Client) -> None:
    document = metadata(tiny, "RGB_PNG")
    bounds, centre = document.pop("bounds"), document.pop("center")
    assert document == {
        "tilejson": "3.0.0",
        "name": "RGB_PNG",
        "description": "",
        "tiles": ["http://maps.example/tms/1.0.0/RGB_PNG/{z}/{x}/{y}.png"],
        "scheme": "xyz",
        "format": "png",
        "crs": "EPSG:3857",
        "minzoom": 2,
        "maxzoom": 4,
        "vector_layers": [],
    }
    # Level 4, columns 9 and 10, rows 5 and 6 of sixteen.
    west, south, east, north = bounds
    assert (west, east) == pytest.approx((22.5, 67.5))
    assert (south, north) == pytest.approx((21.9430455334382, 55.7765730186677))
    assert centre == pytest.approx([45, (south + north) / 2, 4])
    assert isinstance(centre[2], int)


def test_tile_template_leads_to_tiles(tiny: Client) -> None:
    template = metadata(tiny, "RGB_JPG")["tiles"][0]
    path = template.removeprefix("http://maps.example")
    path = path.replace("{z}", "3").replace("{x}", "4").replace("{y}", "2")
    assert tiny.get(path).headers["Content-Type"] == "image/jpeg"


def test_vector_layer_describes_its_tables(tiny: Client) -> None:
    tiles, centres = metadata(tiny, "VECTOR")["vector_layers"]
    assert tiles == {
        "id": "tiles",
        "geometry": "POLYGON",
        "minzoom": 2,
        "maxzoom": 4,
        "fields": {"row": "Integer", "col": "Integer"},
        "fieldsCount": 2,
        "fieldsDetails": {
            "row": {"attribute": "row", "type": "Integer", "count": 5, "min": 1, "max": 6},
            "col": {"attribute": "col", "type": "Integer", "count": 5, "min": 2, "max": 10},
        },
    }
    assert centres["fields"] == {"name": "String"}
    assert centres["fieldsDetails"] == {"name": {"attribute": "name", "type": "String", "count": 9}}


def test_table_zooms_are_those_of_its_levels(tmp_path: Path, open_client: OpenClient) -> None:
    def table(name: str, *attributes: dict[str, Any]) -> dict[str, Any]:
        return {"name": name, "geometry": "POINT", "attributes": list(attributes)}

    kind = {"name": "kind", "type": "String", "count": 2, "values": ["a", "b"]}
    height = {"name": "height", "type": "Real", "count": 9, "min": 0.5, "max": 4808}
    client = serve(
        tmp_path,
        open_client,
        ["0", "1", "2"],
        format="TIFF_PBF_MVT",
        tile=tiny_vector_tile,
        tables={
            "0": [table("places", kind)],
            "1": [table("places", kind, height), table("roads")],
            "2": [table("roads")],
        },
    )
    found = {layer["id"]: layer for layer in metadata(client, "L")["vector_layers"]}
    assert {name: (layer["minzoom"], layer["maxzoom"]) for name, layer in found.items()} == {
        "places": (0, 1),
        "roads": (1, 2),
    }
    assert found["places"]["fields"] == {"kind": "String", "height": "Real"}
    details = found["places"]["fieldsDetails"]
    assert details["kind"]["values"] == ["a", "b"]
    assert details["height"]["min"] == 0.5
    assert found["roads"]["fieldsCount"] == 0


def test_vector_layer_without_tables(tmp_path: Path, open_client: OpenClient) -> None:
    client = serve(tmp_path, open_client, ["0"], format="TIFF_PBF_MVT", tile=tiny_vector_tile)
    assert metadata(client, "L")["vector_layers"] == []


@pytest.mark.parametrize(
    ("identifiers", "zooms", "levels"),
    [
        (["0", "1", "2"], (0, 2), None),
        (["7", "8", "9"], (7, 9), None),
        (["9", "10", "11"], (9, 11), None),
        (["coarse", "middle", "fine"], (0, 2), ["coarse", "middle", "fine"]),
        (["0", "1", "fine"], (0, 2), ["0", "1", "fine"]),
        (["2", "1", "0"], (0, 2), ["2", "1", "0"]),  # numbered the other way round
        (["29", "30", "31"], (0, 2), ["29", "30", "31"]),  # beyond the zooms of TileJSON
        (["00", "01", "02"], (0, 2), ["00", "01", "02"]),
        (["-1", "0", "1"], (0, 2), ["-1", "0", "1"]),
        (["٠", "١", "٢"], (0, 2), ["٠", "١", "٢"]),
    ],
)
def test_zooms(
    tmp_path: Path,
    open_client: OpenClient,
    identifiers: list[str],
    zooms: tuple[int, int],
    levels: list[str] | None,
) -> None:
    document = metadata(serve(tmp_path, open_client, identifiers), "L")
    assert (document["minzoom"], document["maxzoom"]) == zooms
    # The finest of the three fits on a screen.
    assert document["center"][2] == zooms[1]
    assert document.get("levels") == levels


def test_levels_are_those_of_the_whole_set(tmp_path: Path, open_client: OpenClient) -> None:
    client = serve(tmp_path, open_client, ["a", "b", "c", "d"], published=["b", "c"])
    document = metadata(client, "L")
    assert (document["minzoom"], document["maxzoom"]) == (1, 2)
    assert document["levels"] == ["a", "b", "c", "d"]


def test_texts_are_kept_and_attribution_is_html(tmp_path: Path, open_client: OpenClient) -> None:
    hostile = '<script>"&\\ \n\x01 é'
    attribution = {"title": hostile, "url": 'http://x/"onclick="'}
    client = serve(tmp_path, open_client, ["0"], abstract=hostile, attribution=attribution)
    document = metadata(client, "L")
    assert document["description"] == hostile
    assert document["attribution"] == (
        '<a href="http://x/&quot;onclick=&quot;">&lt;script&gt;&quot;&amp;\\ \n\x01 é</a>'
    )


@pytest.mark.shared_data
def test_documents_satisfy_the_schema(
    tiny: Client, tiny_from_bottom: Client, shared_data: Path
) -> None:
    schema = json.loads((shared_data / "schemas/tilejson/3.0.0/schema.json").read_text())
    for client in (tiny, tiny_from_bottom):
        for layer in LAYERS:
            jsonschema.validate(metadata(client, layer), schema)


def serve(
    directory: Path,
    open_client: OpenClient,
    identifiers: Sequence[str],
    *,
    published: Sequence[str] | None = None,
    format: str = "TIFF_RAW_UINT8",
    tile: Any = None,
    tables: Any = (),
    **fields: Any,
) -> Client:
    """Serve a layer L in a quadtree set whose levels have the given identifiers, coarse first."""
    grid = synthetic(
        "GRID",
        crs="EPSG:3857",
        origin=(0, 0),
        cell_sizes=[512.0 / 2**rank for rank in range(len(identifiers))],
        matrix_sizes=[(2**rank, 2**rank) for rank in range(len(identifiers))],
    )
    for matrix, identifier in zip(grid["tileMatrices"], identifiers, strict=True):
        matrix["id"] = identifier
    pyramid = write_pyramid(
        directory,
        "P",
        tile_matrix_set=grid,
        format=format,
        levels=[LevelPlan(level, 0, 0, 0, 0) for level in published or identifiers],
        tile=tile or (lambda level, row, col: tiny_integer_tile(3)("0", row, col)),
        tables=tables,
    )
    layer = layer_document(pyramid, tile_matrix_sets={"GRID": grid}, **fields)
    return open_client(
        write_installation(
            directory, layers={"L": layer}, tile_matrix_sets={"GRID": grid}, services=["tms"]
        )
    )
