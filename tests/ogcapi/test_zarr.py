"""Coverages as groups of Zarr arrays: documents, and stored tiles as chunks."""

from __future__ import annotations

import json
import zlib
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tests.coverage.ground import LEVELS, ORIGIN, SLAB, TILE, Ground
from tests.series import colour_of, series_installation
from werkzeug.test import Client

from mastaba.wsgi import create_application
from mastaba_writer.tile_encoder import encode_tile

GROUP = "/ogcapi/collections/ground/zarr"
CHUNKS = {
    "TIFF_ZIP_FLOAT32": 1,
    "TIFF_RAW_FLOAT32": 1,
    "TIFF_ZIP_UINT8": 3,
    "TIFF_RAW_UINT8": 2,
}
"""Formats whose tiles are chunks, with numbers of channels."""
SIZES = {"3": (21, 17), "2": (11, 9), "1": (6, 5), "0": (4, 3)}
"""Tiles of the levels: rows and columns."""


def opened(
    directory: Path, name: str = "TIFF_ZIP_FLOAT32", channels: int = 1, **fields: Any
) -> tuple[Ground, Client]:
    options = {"services": {"ogcapi": {"coverages": True}}, "coverages": True} | fields
    ground = Ground(directory, name, channels, **options)
    return ground, Client(ground.application)


@pytest.fixture(scope="module", params=CHUNKS)
def site(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    ground, client = opened(tmp_path_factory.mktemp("ground"), request.param, CHUNKS[request.param])
    yield ground, client
    ground.close()


@pytest.fixture(scope="module")
def floats(tmp_path_factory: pytest.TempPathFactory) -> Any:
    services: dict[str, Any] = {"ogcapi": {"coverages": True, "cors": True}, "metrics": {}}
    ground, client = opened(
        tmp_path_factory.mktemp("floats"), services=services, cache_control="max-age=77"
    )
    yield ground, client
    ground.close()


def array(client: Client, level: str, group: str = GROUP) -> npt.NDArray[Any]:
    """Return an array, put together from its chunks as the specification of Zarr 2 says."""
    described = client.get(f"{group}/{level}/.zarray").json
    shape, chunks = described["shape"], described["chunks"]
    found = np.full(shape, described["fill_value"], described["dtype"])
    for row in range(-(-shape[0] // chunks[0])):
        for col in range(-(-shape[1] // chunks[1])):
            key = ".".join(["0"] * len(shape)).replace("0", "{}", 2).format(row, col)
            answer = client.get(f"{group}/{level}/{key}")
            if answer.status_code == 404:
                continue
            assert answer.status_code == 200
            data = answer.data
            if described["compressor"] is not None:
                assert described["compressor"] == {"id": "zlib"}
                data = zlib.decompress(data)
            part = np.frombuffer(data, described["dtype"]).reshape(chunks)
            place = found[row * chunks[0] :, col * chunks[1] :][: chunks[0], : chunks[1]]
            place[...] = part[: place.shape[0], : place.shape[1]]
    return found


def test_every_level_has_the_stored_values(site: Any) -> None:
    ground, client = site
    for plan in LEVELS:
        found = array(client, plan.id)
        rows, columns = (count * TILE for count in SIZES[plan.id])
        top, left = plan.min_row * TILE, plan.min_col * TILE
        expected = ground.values(plan.id, top, top + rows, left, left + columns)
        # Also the bits of values that are no numbers.
        assert found.tobytes() == expected.tobytes()


def test_documents_describe_the_levels(site: Any) -> None:
    ground, client = site
    channels = [ground.channels] if ground.channels > 1 else []
    is_float = "FLOAT" in ground.name
    for level, (rows, columns) in SIZES.items():
        assert client.get(f"{GROUP}/{level}/.zarray").json == {
            "zarr_format": 2,
            "shape": [rows * TILE, columns * TILE, *channels],
            "chunks": [TILE, TILE, *channels],
            "dtype": "<f4" if is_float else "|u1",
            "compressor": {"id": "zlib"} if "ZIP" in ground.name else None,
            "fill_value": -99999.0 if is_float else 255,
            "order": "C",
            "filters": None,
            "dimension_separator": ".",
        }
    assert client.get(f"{GROUP}/.zgroup").json == {"zarr_format": 2}


@pytest.mark.parametrize("registration", ["area", "post"])
def test_attributes_say_where_the_arrays_are(registration: str, tmp_path: Path) -> None:
    ground, client = opened(tmp_path, registration=registration)
    attributes = client.get(f"{GROUP}/.zattrs").json
    assert attributes["title"] == "Ground & <water>"
    assert attributes["proj:code"] == "EPSG:2154"
    names = [one["name"] for one in attributes["zarr_conventions"]]
    assert names == ["multiscales", "proj:", "spatial:"]
    layout = attributes["multiscales"]["layout"]
    assert [one["asset"] for one in layout] == ["3", "2", "1", "0"]
    for one in layout:
        plan = next(plan for plan in LEVELS if plan.id == one["asset"])
        cell = 2.0 ** (3 - int(plan.id))
        # Coarser levels hold means of areas.
        is_post = registration == "post" and plan.id == "3"
        half = cell / 2 if is_post else 0.0
        west = ORIGIN[0] + plan.min_col * TILE * cell + half
        north = ORIGIN[1] - plan.min_row * TILE * cell - half
        rows, columns = (count * TILE for count in SIZES[plan.id])
        assert one["spatial:shape"] == [rows, columns]
        assert one["spatial:transform"] == [cell, 0, west, 0, -cell, north]
        own = client.get(f"{GROUP}/{plan.id}/.zattrs").json
        assert own["spatial:transform"] == one["spatial:transform"]
        assert own["spatial:registration"] == ("node" if is_post else "pixel")
        assert (
            own["spatial:dimensions"]
            == own["_ARRAY_DIMENSIONS"]
            == [f"y_{plan.id}", f"x_{plan.id}"]
        )
        assert own["spatial:bbox"] == [
            west,
            north - rows * cell + 2 * half,
            west + columns * cell - 2 * half,
            north,
        ]
        assert own["_CRS"] == {"url": "http://www.opengis.net/def/crs/EPSG/0/2154"}
    ground.close()


def test_one_document_has_all_others(site: Any) -> None:
    _, client = site
    content = client.get(f"{GROUP}/.zmetadata").json
    assert content["zarr_consolidated_format"] == 1
    keys = [".zgroup", ".zattrs"]
    keys += [f"{level}/{name}" for level in "3210" for name in (".zarray", ".zattrs")]
    assert list(content["metadata"]) == keys
    for key in keys:
        assert client.get(f"{GROUP}/{key}").json == content["metadata"][key]
    assert client.get(GROUP).json == content


def test_chunks_are_sent_as_they_are_stored(site: Any) -> None:
    ground, client = site
    key = "2.4" if ground.channels == 1 else "2.4.0"
    for coding in ("gzip, deflate, br", "identity", "deflate;q=0"):
        answer = client.get(f"{GROUP}/3/{key}", headers={"Accept-Encoding": coding})
        assert answer.data == encode_tile(ground.name, ground.made("3", 5 + 2, 3 + 4))
        assert "Content-Encoding" not in answer.headers
        assert "Vary" not in answer.headers
        assert answer.content_type == "application/octet-stream"


def test_chunks_that_are_not_stored_are_absent(tmp_path: Path) -> None:
    """Also where tile services send an empty answer or a blank tile instead."""
    for status in ("204", "blank"):
        ground, client = opened(tmp_path / status, missing_tile=status)
        row, col = 3 * SLAB - 5, 2 * SLAB - 3
        answer = client.get(f"{GROUP}/3/{row}.{col}")
        assert (answer.status_code, answer.json["type"]) == (404, "ResourceNotFound")
        ground.close()


KEYS = (
    *("3/21.0", "3/0.17", "3/00.0", "3/-1.0", "3/0.0.0", "3/0.0.1", "3/0", "3/x", "3/0/0"),
    *("3/٣.0", "3/9999999999.0", "3/99999999999.0", "4/0.0", "4/.zarray", "3/.zgroup", "3"),
    *(".zarray", "zarr.json", "3/zarr.json", "3/.zarray/x", ".", "..", "3//0.0"),
)


def test_other_keys_do_not_exist(floats: Any) -> None:
    _, client = floats
    for key in KEYS:
        answer = client.get(f"{GROUP}/{key}")
        assert (answer.status_code, answer.json["status"]) == (404, 404), key


def test_several_channels_need_a_third_number(tmp_path: Path) -> None:
    ground, client = opened(tmp_path, "TIFF_ZIP_UINT8", 3)
    assert client.get(f"{GROUP}/3/0.0.0").status_code == 200
    for key in ("0.0", "0.0.1", "0.0.0.0"):
        assert client.get(f"{GROUP}/3/{key}").status_code == 404
    attributes = client.get(f"{GROUP}/3/.zattrs").json
    assert attributes["_ARRAY_DIMENSIONS"] == ["y_3", "x_3", "band"]
    assert attributes["bands"] == ["red", "green", "blue"]
    ground.close()


def test_channels_with_several_nodata_values_have_no_fill_value(tmp_path: Path) -> None:
    ground, _ = opened(tmp_path, "TIFF_ZIP_UINT8", 4)
    ground.write(nodata=[9, 8, 7, 0])
    client = Client(create_application(str(ground.server_json)))
    assert client.get(f"{GROUP}/3/.zarray").json["fill_value"] is None
    answer = client.get(f"{GROUP}/3/{3 * SLAB - 5}.{2 * SLAB - 3}.0")
    assert (answer.status_code, answer.content_type) == (200, "application/octet-stream")
    pixels = np.frombuffer(zlib.decompress(answer.data), np.uint8).reshape(-1, 4)
    assert (pixels == (9, 8, 7, 0)).all()
    assert len(pixels) == TILE * TILE
    assert client.get(f"{GROUP}/3/21.0.0").status_code == 404
    ground.close()


@pytest.mark.parametrize(
    ("name", "channels"), [("TIFF_LZW_FLOAT32", 1), ("TIFF_PNG_UINT8", 3), ("TIFF_JPG_UINT8", 3)]
)
def test_other_formats_have_no_group(name: str, channels: int, tmp_path: Path) -> None:
    ground, client = opened(tmp_path, name, channels)
    for key in ("", "/.zgroup", "/.zmetadata", "/3/.zarray", "/3/0.0"):
        answer = client.get(f"{GROUP}{key}")
        assert answer.status_code == 404
        assert "cannot be chunks" in answer.json["detail"]
    assert not links(client)
    assert not [path for path in definition(client) if "zarr" in path]
    ground.close()


@pytest.mark.parametrize(
    ("services", "layer"), [(False, True), (True, False)], ids=["service", "layer"]
)
def test_both_switches_must_be_on(services: bool, layer: bool, tmp_path: Path) -> None:
    ground, client = opened(tmp_path, services={"ogcapi": {"coverages": services}}, coverages=layer)
    for key in ("", "/.zgroup", "/3/.zarray", "/3/0.0"):
        assert client.get(f"{GROUP}{key}").status_code == 404
    assert not links(client)
    ground.close()


def links(client: Client) -> list[str]:
    document = client.get("/ogcapi/collections/ground?f=json").json
    return [one["href"] for one in document["links"] if "zarr" in one["type"]]


def definition(client: Client) -> dict[str, Any]:
    found: dict[str, Any] = client.get("/ogcapi/api?f=json").json["paths"]
    return found


def test_documents_and_pages_link_the_group(site: Any) -> None:
    _, client = site
    (href,) = links(client)
    assert href == f"http://maps.example{GROUP}"
    assert client.get(GROUP).status_code == 200
    page = client.get("/ogcapi/collections/ground/coverage?f=html").text
    assert href in page


def test_definition_has_examples_that_find_data(site: Any) -> None:
    _, client = site
    content = client.get("/ogcapi/api?f=json").json
    known = content["components"]["parameters"]
    paths = [path for path in content["paths"] if "/zarr/" in path]
    assert len(paths) == 6
    texts = json.loads(files("mastaba_ogcapi").joinpath("texts", "fr.json").read_text("utf-8"))
    for path in paths:
        operation = content["paths"][path]["get"]
        assert operation["summary"] in texts
        address = path
        for one in operation["parameters"]:
            parameter = known[one["$ref"].rpartition("/")[2]]
            assert parameter["description"] in texts
            if parameter["in"] == "path":
                address = address.replace(f"{{{parameter['name']}}}", str(parameter["example"]))
        answer = client.get(f"/ogcapi{address}")
        assert answer.status_code == 200, address
        assert answer.content_type in operation["responses"]["200"]["content"]


def test_chunks_and_documents_are_known_by_their_etags(tmp_path: Path) -> None:
    ground, client = opened(tmp_path)
    for key in (".zmetadata", "3/.zarray", "3/0.0"):
        first = client.get(f"{GROUP}/{key}")
        etag = first.headers["ETag"]
        again = client.get(f"{GROUP}/{key}", headers={"If-None-Match": etag})
        assert (again.status_code, again.data) == (304, b"")
        head = client.head(f"{GROUP}/{key}")
        assert (head.status_code, head.data) == (200, b"")
        assert head.headers["Content-Length"] == str(len(first.data))
        assert head.headers["ETag"] == etag
    modified = client.get(f"{GROUP}/3/0.0").headers["Last-Modified"]
    later = client.get(f"{GROUP}/3/0.0", headers={"If-Modified-Since": modified})
    assert later.status_code == 304
    ground.write(tile=lambda level, row, col: np.full((TILE, TILE, 1), 7, np.float32))
    changed = client.get(f"{GROUP}/3/0.0")
    assert changed.headers["ETag"] != etag
    assert set(zlib.decompress(changed.data)) == set(np.float32(7).tobytes())
    check_unreadable_slabs(ground)
    ground.close()


def test_pages_of_other_origins_may_read_the_group(floats: Any) -> None:
    _, client = floats
    sent = {"Origin": "https://notebook.example"}
    for key, status in ((".zmetadata", 200), ("3/0.0", 200), ("3/7.5", 404)):
        answer = client.get(f"{GROUP}/{key}", headers=sent)
        assert (answer.status_code, answer.headers["Access-Control-Allow-Origin"]) == (status, "*")


def test_chunks_have_the_surrogate_keys_of_their_slabs(tmp_path: Path) -> None:
    services = {
        "ogcapi": {"coverages": True},
        "wmts": {},
        "global": {"caching": {"surrogate_keys": True, "documents": "max-age=9"}},
    }
    ground, client = opened(tmp_path, services=services, cache_control="max-age=77")
    plan = LEVELS[0]
    row, col = plan.min_row + 2, plan.min_col + 4
    tile = client.get(
        "/wmts?SERVICE=WMTS&REQUEST=GetTile&VERSION=1.0.0&LAYER=ground&STYLE=normal"
        f"&TILEMATRIXSET=LAMB&TILEMATRIX=3&TILEROW={row}&TILECOL={col}&FORMAT=image/x-bil;bits=32"
    )
    chunk = client.get(f"{GROUP}/3/2.4")
    keys = chunk.headers["Surrogate-Key"].split()
    assert set(keys) == set(tile.headers["Surrogate-Key"].split())
    assert f"slab-ground/3/{col // SLAB}/{row // SLAB}" in keys
    unchanged = client.get(f"{GROUP}/3/2.4", headers={"If-None-Match": chunk.headers["ETag"]})
    assert unchanged.headers["Surrogate-Key"] == chunk.headers["Surrogate-Key"]
    # Nothing purges it, so no cache may keep it: a build may store it.
    absent = client.get(f"{GROUP}/3/{3 * SLAB - 5}.{2 * SLAB - 3}")
    assert absent.status_code == 404
    assert not {"Surrogate-Key", "Cache-Control"} & set(absent.headers.keys())
    document = client.get(f"{GROUP}/.zmetadata").headers
    assert document["Surrogate-Key"] == "documents"
    ground.close()


def check_unreadable_slabs(ground: Ground) -> None:
    """A client must not take data that cannot be read for data that do not exist."""
    slabs = sorted(path for path in ground.directory.rglob("*.tif") if path.stat().st_size)
    for path in slabs:
        path.write_bytes(path.read_bytes()[:1000])
    client = Client(create_application(str(ground.server_json)))
    answer = client.get(f"{GROUP}/3/0.0")
    assert answer.status_code == 500
    for path in slabs:
        path.unlink()
        path.mkdir()
    client = Client(create_application(str(ground.server_json)))
    answer = client.get(f"{GROUP}/3/0.0")
    assert answer.status_code == 503
    assert answer.headers["Retry-After"]
    assert client.get(f"{GROUP}/.zmetadata").status_code == 200


def test_metrics_count_chunks_as_downloads(floats: Any) -> None:
    _, client = floats
    before = requests(client)
    for key in ("3/0.0", "3/7.5", ".zmetadata", "3/.zarray"):
        client.get(f"{GROUP}/{key}")
    after = requests(client)
    assert {name: after[name] - before[name] for name in after} == {
        "getcoverage": 2,
        "getcapabilities": 2,
    }


def requests(client: Client) -> dict[str, float]:
    """Return how many requests of each operation there were."""
    counts = dict.fromkeys(("getcoverage", "getcapabilities"), 0.0)
    for line in client.get("/metrics").text.splitlines():
        if line.startswith("mastaba_requests_total{") and 'service="ogcapi"' in line:
            name = line.partition('operation="')[2].partition('"')[0]
            counts[name] = counts.get(name, 0.0) + float(line.rpartition(" ")[2])
    return counts


def test_chunks_live_in_caches_as_tiles(floats: Any) -> None:
    _, client = floats
    assert client.get(f"{GROUP}/3/0.0").headers["Cache-Control"] == "max-age=77"


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> Client:
    path = series_installation(
        tmp_path_factory.mktemp("series"),
        services=("ogcapi",),
        services_overrides={"ogcapi": {"coverages": True}},
        format="TIFF_ZIP_UINT8",
        coverages=True,
    )
    return Client(create_application(str(path)))


@pytest.mark.parametrize(
    ("name", "query", "position"),
    [
        ("ORTHO", "", 2),
        ("ORTHO", "datetime=1950", 0),
        ("ORTHO", 'subset=time("1975")', 1),
        ("ORTHO%3Btime%3D1950", "", 0),
    ],
)
def test_values_of_dimensions_have_groups(
    name: str, query: str, position: int, series: Client
) -> None:
    group = f"/ogcapi/collections/{name}/zarr"
    answer = series.get(f"{group}/3/1.0.0?{query}")
    pixels = np.frombuffer(zlib.decompress(answer.data), np.uint8).reshape(256, 256, 3)
    assert (pixels == colour_of(position)).all()
    assert answer.headers["OGCAPI-datetime"].startswith(("1950", "1975", "2023")[position])
    assert series.get(f"{group}/3/.zarray?{query}").json["shape"] == [512, 512, 3]


def test_a_value_that_does_not_exist_has_no_group(series: Client) -> None:
    for key in (".zgroup", "3/.zarray", "3/0.0.0"):
        address = f"/ogcapi/collections/ORTHO/zarr/{key}?datetime=1066"
        assert series.get(address).status_code == 404
