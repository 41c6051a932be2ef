"""GeoPackage as layers: own grids, mixed pictures and gridded coverages."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.container_sqlite.ground import client_of, picture, refusal, wmts, write_geopackage

FLOAT = "image/x-bil;bits=32"


def test_mixed_pictures_are_delivered_in_one_format(tmp_path: Path) -> None:
    tiles = {
        (0, 0, 0): picture(1, kind="JPEG"),
        (1, 0, 0): picture(2, "RGBA"),
        (1, 2, 1): picture(3, kind="JPEG"),
    }
    path = write_geopackage(tmp_path / "a.gpkg", tiles)
    client = client_of(tmp_path / "site", A={"path": str(path)})
    own = "EPSG2154_a"
    assert client.get(wmts("A", (1, 0, 0), own, "image/png")).data == tiles[1, 0, 0]
    other = client.get(wmts("A", (1, 2, 1), own, "image/png"))
    with Image.open(io.BytesIO(other.data)) as png, Image.open(io.BytesIO(tiles[1, 2, 1])) as jpeg:
        assert png.format == "PNG"
        assert np.array_equal(np.asarray(png.convert("RGB")), np.asarray(jpeg))


def _png16(values: Any) -> bytes:
    output = io.BytesIO()
    Image.fromarray(values.astype(np.uint16)).save(output, "PNG")
    return output.getvalue()


@pytest.mark.parametrize("null", [65535.0, -9999.0, 0.5, 1e300])
def test_integer_coverage(tmp_path: Path, null: float) -> None:
    """Its null may be a number that no pixel can have."""
    raw = np.random.default_rng(1).integers(0, 60000, (256, 256))
    raw[3, 5] = 65535
    tiles = {(0, 0, 0): _png16(raw), (1, 1, 1): _png16(raw)}
    path = write_geopackage(
        tmp_path / "a.gpkg",
        tiles,
        coverage=("integer", 2.0, -10.0, null, "grid-value-is-area"),
        scales={2: (0.5, 200.0)},
    )
    client = client_of(tmp_path / "site", A={"path": str(path)})
    for tile, scale, offset in (((0, 0, 0), 1.0, 0.0), ((1, 1, 1), 0.5, 200.0)):
        found = np.frombuffer(client.get(wmts("A", tile, "EPSG2154_a", FLOAT)).data, "<f4")
        expected = ((raw * scale + offset) * 2.0 - 10.0).astype(np.float32)
        expected[raw == null] = -99999.0
        assert np.array_equal(found.reshape(256, 256), expected)


@pytest.mark.parametrize(
    ("null", "nodata"),
    [
        (-9999.0, -9999.0),
        # The largest number of float32, with the eight digits that many programs write.
        (-3.4028235e38, -3.4028234663852886e38),
        (-1.7976931348623157e308, -99999.0),
    ],
)
def test_float_coverage(tmp_path: Path, null: float, nodata: float) -> None:
    """Its null may be a number that no pixel can have."""
    values = np.random.default_rng(2).normal(500, 100, (256, 256)).astype(np.float32)
    values[7, 9] = nodata
    values[11, 13] = -np.inf
    output = io.BytesIO()
    Image.fromarray(values).save(output, "TIFF", compression="tiff_lzw")
    path = write_geopackage(
        tmp_path / "a.gpkg",
        {(1, 3, 3): output.getvalue()},
        coverage=("float", 1.0, 0.0, null, None),
    )
    client = client_of(tmp_path / "site", A={"path": str(path)})
    found = client.get(wmts("A", (1, 3, 3), "EPSG2154_a", FLOAT)).data
    values[11, 13] = nodata
    assert np.array_equal(np.frombuffer(found, "<f4").reshape(256, 256), values)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"system": (-1, "NONE", -1)}, "reference system of map is undefined"),
        ({"system": (9, "SOMEONE", 7)}, "SOMEONE:7 is unknown"),
        ({"y": 3.0}, "not square"),
        ({"width": 0}, "matrix 1 of map is invalid"),
        ({"coverage": ("float", 1.0, 0.0, None, "grid-value-is-corner")}, "corners of cells"),
    ],
)
def test_packages_that_are_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, changes: Any, reason: str
) -> None:
    path = write_geopackage(tmp_path / "a.gpkg", {(1, 0, 0): picture(1)}, **changes)
    assert reason in refusal(tmp_path / "site", caplog, {"path": str(path)})


def test_an_undefined_reference_system_can_be_named(tmp_path: Path) -> None:
    path = write_geopackage(tmp_path / "a.gpkg", {(1, 0, 0): picture(1)}, system=(-1, "NONE", -1))
    entry = {"path": str(path), "options": {"crs": "EPSG:2154"}}
    client = client_of(tmp_path / "site", A=entry)
    assert client.get(wmts("A", (1, 0, 0), "EPSG2154_a", "image/png")).data == picture(1)


def test_pictures_as_they_are_stored_have_their_own_media_types(tmp_path: Path) -> None:
    tiles = {
        (0, 0, 0): picture(1, kind="JPEG"),
        (1, 0, 0): picture(2, "RGBA"),
        (1, 2, 1): picture(3, kind="WEBP"),
    }
    path = write_geopackage(tmp_path / "a.gpkg", tiles)
    entry = {"path": str(path), "options": {"format": "stored"}}
    client = client_of(tmp_path / "site", A=entry)
    for tile, kind in zip(tiles, ("jpeg", "png", "webp"), strict=True):
        # Services announce the format of the first tile of the finest zoom.
        found = client.get(wmts("A", tile, "EPSG2154_a", "image/png"))
        assert (found.data, found.mimetype) == (tiles[tile], f"image/{kind}")
        again = client.get(
            wmts("A", tile, "EPSG2154_a", "image/png"),
            headers={"If-None-Match": found.headers["ETag"]},
        )
        # Caches replace the fields of what they have by those of this answer.
        assert (again.status_code, again.headers.get("Content-Type")) == (304, None)


def test_pictures_with_alpha_in_a_layer_without_have_nodata_behind(tmp_path: Path) -> None:
    clear = np.zeros((256, 256, 4), np.uint8)
    clear[:128] = 90, 60, 30, 255
    output = io.BytesIO()
    Image.fromarray(clear).save(output, "PNG")
    path = write_geopackage(tmp_path / "a.gpkg", {(0, 0, 0): output.getvalue()})
    entry = {"path": str(path), "options": {"format": "webp", "nodata": [1, 2, 3, 0]}}
    assert client_of(tmp_path / "site", A=entry)
    entry["options"] = {"format": "jpeg", "nodata": [10, 20, 30]}
    client = client_of(tmp_path / "jpeg", A=entry)
    found = client.get(wmts("A", (0, 0, 0), "EPSG2154_a", "image/jpeg"))
    with Image.open(io.BytesIO(found.data)) as image:
        pixels = np.asarray(image).astype(int)
    assert np.abs(pixels[60, 60] - (90, 60, 30)).max() <= 3
    assert np.abs(pixels[200, 60] - (10, 20, 30)).max() <= 3
