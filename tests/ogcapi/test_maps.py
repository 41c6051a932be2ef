"""Maps: formats, styles, headers, several collections (20-058; ogcapi.md 9; P-2, P-4, P-9)."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from PIL import Image
from tests.tiny import tiny_installation
from werkzeug.test import Client

EPSG = "http://www.opengis.net/def/crs/EPSG/0"
CRS84 = "http://www.opengis.net/def/crs/OGC/1.3/CRS84"


def test_map_without_parameters_is_the_whole_in_its_own_crs(rich: Client, pixels: Any) -> None:
    """maps /req/core/map-op, map-response; P-2."""
    response = rich.get("/ogcapi/collections/b_europe/map")
    image = pixels(response)
    assert max(image.shape[:2]) == 300  # default_size
    assert response.content_type == "image/png"
    assert response.headers["Content-Crs"] == f"{EPSG}/3857"
    box = [float(number) for number in response.headers["Content-Bbox"].split(",")]
    assert box == pytest.approx([0, 2504688.5428486, 7514065.6285459, 10018754.1713946], abs=1e-6)


def test_content_crs_is_the_storage_crs_and_absent_for_crs84(rich: Client) -> None:
    """P-2."""
    for name in ("a_world", "c_degrees", "d_lambert"):
        content = rich.get(f"/ogcapi/collections/{name}").get_json()
        response = rich.get(f"/ogcapi/collections/{name}/map")
        assert response.headers["Content-Crs"] == content["storageCrs"]
        response = rich.get(f"/ogcapi/collections/{name}/map?crs=CRS:84")
        assert "Content-Crs" not in response.headers


@pytest.mark.parametrize(
    ("crs", "bbox"),
    [
        ("EPSG:4326", "40,0,60,30"),
        ("CRS:84", "0,40,30,60"),
    ],
)
def test_boxes_are_in_the_axis_order_of_the_crs(
    rich: Client, pixels: Any, crs: str, bbox: str
) -> None:
    """maps /req/spatial-subsetting/bbox-crs; core/map-response."""
    query = {"crs": crs, "bbox": bbox, "bbox-crs": crs, "width": "90", "transparent": "false"}
    response = rich.get("/ogcapi/collections/c_degrees/map", query_string=query)
    assert response.headers["Content-Bbox"] == bbox
    image = pixels(response)
    assert image.shape == (60, 90, 4)
    other = {"crs": "CRS:84", "bbox": "0,40,30,60", "width": "90", "transparent": "false"}
    same = rich.get("/ogcapi/collections/c_degrees/map", query_string=other)
    assert (pixels(same) == image).all()


@pytest.mark.parametrize(
    "crs",
    [
        "EPSG:3035",
        "epsg:3035",
        "[EPSG:3035]",
        "http://www.opengis.net/def/crs/EPSG/0/3035",
        "http://www.opengis.net/def/crs/EPSG/9.9.1/3035",
        "urn:ogc:def:crs:EPSG::3035",
    ],
)
def test_crs_goes_by_all_its_names(rich: Client, crs: str) -> None:
    """maps /req/crs/crs-definition, map-success."""
    response = rich.get("/ogcapi/collections/b_europe/map", query_string={"crs": crs})
    assert response.status_code == 200
    assert response.headers["Content-Crs"] == f"{EPSG}/3035"


@pytest.mark.parametrize(
    "crs", ["OGC:CRS84", "[OGC:CRS84]", "CRS:84", CRS84, "urn:ogc:def:crs:OGC:1.3:CRS84"]
)
def test_crs84_goes_by_all_its_names(rich: Client, crs: str) -> None:
    query = {"crs": crs, "bbox": "0,40,30,60", "bbox-crs": crs}
    response = rich.get("/ogcapi/collections/b_europe/map", query_string=query)
    assert response.headers["Content-Bbox"] == "0,40,30,60"


def test_every_crs_of_a_collection_gives_a_map(rich: Client) -> None:
    content = rich.get("/ogcapi/collections/b_europe").get_json()
    assert len(content["crs"]) == 5
    for crs in content["crs"]:
        response = rich.get("/ogcapi/collections/b_europe/map", query_string={"crs": crs})
        assert response.status_code == 200
        assert response.headers.get("Content-Crs", CRS84) == crs


@pytest.mark.parametrize(
    "crs",
    [
        "",
        "EPSG",
        "EPSG:",
        ":4326",
        "EPSG:2154",
        "EPSG:99999999",
        "EPSG:4326;x",
        "http://www.opengis.net/def/crs/EPSG/4326",
        "http://evil.example/def/crs/EPSG/0/4326",
        "urn:ogc:def:crs:EPSG:4326",
        "\0",
        "é:1",
        "A:" + "9" * 5000,
        "+proj=longlat",
    ],
)
@pytest.mark.parametrize("name", ["crs", "bbox-crs", "subset-crs", "center-crs"])
def test_crs_that_is_not_offered_is_refused(rich: Client, fault: Any, name: str, crs: str) -> None:
    query = {name: crs}
    query |= {
        "bbox-crs": {"bbox": "0,0,1,1"},
        "subset-crs": {"subset": "Lat(1:2)"},
        "center-crs": {"center": "1,2"},
    }.get(name, {})
    response = rich.get("/ogcapi/collections/b_europe/map", query_string=query)
    assert fault(response) == (400, "InvalidParameter")


def test_bbox_crs_without_bbox_is_of_no_account(rich: Client) -> None:
    response = rich.get("/ogcapi/collections/b_europe/map?bbox-crs=nothing")
    assert response.status_code == 200


@pytest.mark.parametrize(
    ("query", "accept", "media_type", "start"),
    [
        ({"f": "png"}, None, "image/png", b"\x89PNG"),
        ({"f": "jpg"}, None, "image/jpeg", b"\xff\xd8\xff"),
        ({"f": "JPEG"}, None, "image/jpeg", b"\xff\xd8\xff"),
        ({"f": "image/png"}, "text/css", "image/png", b"\x89PNG"),
        ({"f": "tiff"}, None, "image/tiff; application=geotiff", b"II*\0"),
        ({"f": "geotiff"}, None, "image/tiff; application=geotiff", b"II*\0"),
        ({"f": "image/geotiff"}, None, "image/tiff; application=geotiff", b"II*\0"),
        ({}, "image/png", "image/png", b"\x89PNG"),
        ({}, "image/jpeg", "image/jpeg", b"\xff\xd8\xff"),
        ({}, "image/tiff", "image/tiff; application=geotiff", b"II*\0"),
        ({}, "image/png,image/jpeg,image/*", "image/png", b"\x89PNG"),
        ({}, "text/html,application/xhtml+xml,*/*;q=0.8", "image/png", b"\x89PNG"),
    ],
)
def test_format_by_f_and_by_accept(
    rich: Client,
    query: dict[str, str],
    accept: str | None,
    media_type: str,
    start: bytes,
) -> None:
    """P-9; maps /req/png/content, jpeg/content, tiff/content."""
    headers = {} if accept is None else {"Accept": accept}
    response = rich.get("/ogcapi/collections/b_europe/map", query_string=query, headers=headers)
    assert response.status_code == 200
    assert response.content_type == media_type
    assert response.data.startswith(start)
    assert ("Vary" in response.headers) == ("f" not in query)


def test_png_always_has_an_alpha_channel(tiny: Client, pixels: Any) -> None:
    """P-9."""
    for name, channels in (("RGB_PNG", 4), ("GREY_PNG", 2), ("GREYA_ZIP", 2), ("RGBA_PNG", 4)):
        for transparent in ("true", "false"):
            path = f"/ogcapi/collections/{name}/map?f=png&width=20&transparent={transparent}"
            assert pixels(tiny.get(path)).shape[2] == channels


def test_tiff_is_rgb_and_georeferenced(rich: Client) -> None:
    """P-9; ogcapi.md section 9.4."""
    response = rich.get("/ogcapi/collections/b_europe/map?f=tiff&width=30")
    image = Image.open(io.BytesIO(response.data))
    assert image.mode == "RGB"
    scale = image.tag_v2[33550]  # type: ignore[attr-defined]
    assert scale[0] == pytest.approx(7514065.6285459 / 30)
    assert response.headers["Content-Disposition"] == 'inline; filename="image.tif"'


def test_values_are_kept_in_data_formats(rich: Client) -> None:
    path = "/ogcapi/collections/e heights é/map"
    values = np.frombuffer(rich.get(f"{path}?f=bil&width=8&height=8").data, "<f4")
    assert (values == 1000).all()
    assert rich.get(path).content_type == "image/x-bil;bits=32"
    text = rich.get(f"{path}?f=asc&width=4&height=4").text
    assert text.startswith("ncols 4\nnrows 4\n")
    assert text.rstrip().endswith("1000 1000 1000 1000")


def test_every_announced_format_works_on_every_collection(rich: Client) -> None:
    """OGC 20-058 requirement core/map-response."""
    formats = ("png", "jpg", "tiff", "bil", "asc")
    collections = rich.get("/ogcapi/collections").get_json()["collections"]
    names = [item["id"] for item in collections if item["dataType"] == "map"]
    assert len(names) > 3
    for name in names:
        for f in formats:
            response = rich.get(f"/ogcapi/collections/{quote(name)}/map?f={f}&width=16")
            assert response.status_code == 200, (name, f, response.text)


def test_values_are_grey_in_pictures(rich: Client, pixels: Any) -> None:
    picture = pixels(rich.get("/ogcapi/collections/e heights é/map?f=png&width=16"))
    assert (picture[:, :, 0] == picture[:, :, 1]).all()


def test_style_of_the_path_is_applied(rich: Client, pixels: Any) -> None:
    """maps /req/styled-map/map-operation."""
    image = pixels(rich.get("/ogcapi/collections/e heights é/styles/relief/map?width=9"))
    assert (image == (255, 255, 0, 255)).all()


def test_dataset_map_draws_the_first_at_the_bottom(rich: Client, pixels: Any) -> None:
    """P-4; maps /req/collections-selection."""
    box = "bbox=5,45,15,50&width=20&height=10&f=png"
    brown, green = (200, 100, 50, 255), (10, 120, 30, 255)
    for collections, colour in (
        ("a_world,b_europe", green),
        ("b_europe,a_world", brown),
        ("a_world", brown),
        ("http://maps.example/ogcapi/collections/b_europe", green),
        ("http://maps.example/ogcapi/collections/b_europe?f=json,a_world", brown),
        ("a_world, b_europe", green),
        ("b_europe,b_europe,b_europe", green),
    ):
        query = f"{box}&collections={collections}"
        image = pixels(rich.get("/ogcapi/map", query_string=query))
        assert image.shape == (10, 20, 4)
        assert (image == colour).all(), collections


def test_dataset_map_without_collections_shows_the_first_pictures(
    rich: Client, pixels: Any
) -> None:
    response = rich.get("/ogcapi/map")
    assert "Content-Crs" not in response.headers
    box = [float(number) for number in response.headers["Content-Bbox"].split(",")]
    assert box == pytest.approx([-180, -90, 180, 90])
    image = pixels(response)
    assert max(image.shape[:2]) == 300
    assert response.content_type == "image/png"


def test_dataset_map_in_a_crs_of_all_its_collections(rich: Client) -> None:
    response = rich.get("/ogcapi/map?collections=b_europe&crs=EPSG:32631")
    assert response.headers["Content-Crs"] == f"{EPSG}/32631"
    assert rich.get("/ogcapi/map?collections=a_world,b_europe&crs=EPSG:32631").status_code == 400


@pytest.mark.parametrize(
    "collections",
    [
        "",
        ",",
        "nothing",
        "hidden",
        "h_vector",
        "a_world,",
        "a_world,b_europe,c_degrees,d_lambert",
        "http://other.example/ogcapi/collections/a_world",
        "http://maps.example/ogcapi/collections/",
        "http://maps.example/ogcapi/collections/%00",
        "," * 100000,
        "x" * 100000,
        "\0",
    ],
)
def test_collections_that_cannot_be_drawn_are_refused(
    rich: Client, fault: Any, collections: str
) -> None:
    response = rich.get("/ogcapi/map", query_string={"collections": collections})
    assert fault(response) == (400, "InvalidParameter")


def test_names_of_parameters_are_taken_in_any_case_and_unknown_ones_ignored(
    rich: Client, pixels: Any
) -> None:
    response = rich.get("/ogcapi/collections/b_europe/map?WiDtH=12&HEIGHT=7&bogus=1&F=png")
    assert pixels(response).shape == (7, 12, 4)


def test_first_of_repeated_parameters_counts(rich: Client, pixels: Any) -> None:
    response = rich.get("/ogcapi/collections/b_europe/map?width=12&width=0&height=7&f=png&f=x")
    assert pixels(response).shape == (7, 12, 4)


def test_head_has_the_headers_of_get(rich: Client) -> None:
    path = "/ogcapi/collections/b_europe/map?width=9"
    response = rich.head(path)
    assert response.data == b""
    assert response.headers["Content-Length"] == str(len(rich.get(path).data))


def test_without_reprojection_only_equal_crss_are_offered(
    tmp_path: Path, open_client: Any, fault: Any, pixels: Any
) -> None:
    overrides = {"global": {"map": {"reprojection": False}}}
    client = open_client(
        tiny_installation(tmp_path, services=["ogcapi"], services_overrides=overrides)
    )
    path = "/ogcapi/collections/RGB_PNG"
    assert client.get(path).get_json()["crs"] == [f"{EPSG}/3857"]
    assert fault(client.get(f"{path}/map?crs=CRS:84")) == (400, "InvalidParameter")
    # Coordinates may be given in degrees all the same.
    image = pixels(client.get(f"{path}/map?bbox=30,30,40,40&width=10&f=png"))
    assert image.shape[1] == 10
    response = client.get("/ogcapi/map")
    assert response.headers["Content-Crs"] == f"{EPSG}/3857"
    assert client.get("/ogcapi").get_json()["crs"] == [f"{EPSG}/3857"]
