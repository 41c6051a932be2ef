"""A layer from an archive answers as the slab pyramid from which the archive was made."""

from __future__ import annotations

import pytest
from tests.container_pmtiles.archived import LAYERS, stored_tiles
from werkzeug.test import Client

from mastaba.api.tools import Application
from mastaba_conformance.counting_storage import count_calls

Archived = tuple[Application, Client]

MAPS = {
    "own set": "CRS=EPSG:3857&BBOX=-10000000,-5000000,10000000,9000000&WIDTH=200&HEIGHT=140",
    "degrees": "CRS=CRS:84&BBOX=-100,-60,110,70&WIDTH=210&HEIGHT=130",
    "latitude first": "CRS=EPSG:4326&BBOX=-50,-90,70,100&WIDTH=190&HEIGHT=120",
}


def addresses(
    layer: str, level: str, row: int, column: int, extension: str, media: str
) -> list[str]:
    top = f"{layer}/{level}/{column}"
    if extension == "pbf":
        return [
            f"/tms/1.0.0/{top}/{row}.pbf",
            f"/ogcapi/collections/{layer}/tiles/PM/{level}/{row}/{column}",
        ]
    return [
        f"/wmts/1.0.0/{layer}/normal/PM/{level}/{row}/{column}.{extension}",
        f"/wmts?SERVICE=WMTS&REQUEST=GetTile&VERSION=1.0.0&LAYER={layer}&STYLE=normal"
        f"&TILEMATRIXSET=PM&TILEMATRIX={level}&TILEROW={row}&TILECOL={column}&FORMAT={media}",
        f"/tms/1.0.0/{top}/{row}.{extension}",
        f"/ogcapi/collections/{layer}/map/tiles/PM/{level}/{row}/{column}",
    ]


@pytest.mark.parametrize("name", LAYERS)
def test_tiles_are_equal_in_every_protocol(archived: Archived, name: str) -> None:
    application, client = archived
    tiles = list(stored_tiles(application.site, name))
    form = application.site.catalogue.layers[name].pyramid.format
    assert tiles
    for level, row, column, data in tiles:
        ours = addresses(f"{name}_A", level, row, column, form.extension, form.media_type)
        theirs = addresses(name, level, row, column, form.extension, form.media_type)
        for address, other in zip(ours, theirs, strict=True):
            answer, expected = client.get(address), client.get(other)
            assert (answer.status_code, expected.status_code) == (200, 200), address
            assert answer.data == expected.data, address
            assert answer.headers["Content-Type"] == expected.headers["Content-Type"]
            assert form.is_vector or answer.data == data


@pytest.mark.parametrize("name", [name for name in LAYERS if name != "VECTOR"])
@pytest.mark.parametrize("view", MAPS)
def test_maps_are_equal(archived: Archived, name: str, view: str) -> None:
    _, client = archived
    query = f"/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&STYLES=&FORMAT=image/png&{MAPS[view]}"
    answer = client.get(f"{query}&LAYERS={name}_A")
    expected = client.get(f"{query}&LAYERS={name}")
    assert (answer.status_code, answer.data) == (expected.status_code, expected.data)
    assert answer.status_code == 200


def test_archive_has_the_set_of_the_pyramid(archived: Archived) -> None:
    layers = archived[0].site.catalogue.layers
    for name in LAYERS:
        one, other = layers[name].pyramid, layers[f"{name}_A"].pyramid
        assert one.tile_matrix_set is other.tile_matrix_set
        assert list(one.levels) == list(other.levels)


def test_reads_of_tiles_and_maps(archived: Archived) -> None:
    application, client = archived
    site = application.site
    level, row, column, _ = next(stored_tiles(site, "RGB_PNG"))
    counting = count_calls(site.catalogue, "RGB_PNG_A")
    address = f"/tms/1.0.0/RGB_PNG_A/{level}/{column}/{row}.png"
    application.site.catalogue.indices.clear()
    answer = client.get(address)
    assert answer.status_code == 200
    assert len(counting.reads) <= 3

    counting.clear()
    again = client.get(address, headers={"If-None-Match": answer.headers["ETag"]})
    assert (again.status_code, counting.calls) == (304, [])
    assert client.get(address).status_code == 200
    assert len(counting.reads) == 1

    counting.clear()
    assert client.get(f"/tms/1.0.0/RGB_PNG_A/{level}/999999/999999.png").status_code == 404
    assert counting.calls == []
