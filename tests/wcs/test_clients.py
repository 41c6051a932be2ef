"""Coverages by GDAL, OWSLib and QGIS, from a real server."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from xml.etree import ElementTree

import numpy as np
import pytest
from tests.coverage.ground import ORIGIN, TILE, Ground

from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import geographic

pytestmark = pytest.mark.live

rasterio = pytest.importorskip("rasterio")

COLUMNS, ROWS = 17 * TILE, 21 * TILE
WEST, NORTH = ORIGIN[0] + 3 * TILE, ORIGIN[1] - 5 * TILE
SYSTEM_PYTHON = "/usr/bin/python3"
needs_gdal = pytest.mark.skipif(shutil.which("gdalinfo") is None, reason="GDAL is not installed")
versions = pytest.mark.parametrize("version", ["2.0.1", "1.0.0"])


@pytest.fixture(scope="module", params=["area", "post"])
def served(
    request: Any, serving: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Ground, str]]:
    """Return an installation, and the address of the service."""
    written: list[Ground] = []

    def write(public_url: str) -> Path:
        written.append(
            Ground(
                tmp_path_factory.mktemp("ground"),
                services={"wcs": {"title": "Coverages"}, "global": {"provider": "P"}},
                public_url=public_url,
                registration=request.param,
                wcs={"enabled": True},
            )
        )
        return written[0].server_json

    with serving(write) as url:
        yield written[0], f"{url}/wcs"
    written[0].close()


@pytest.fixture
def run(tmp_path: Path) -> Any:
    """Return a function that runs a program and returns its output."""

    def call(*command: object) -> str:
        # GDAL keeps documents in the home directory.
        environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(tmp_path),
            "NO_PROXY": "*",
            "no_proxy": "*",
            "QT_QPA_PLATFORM": "offscreen",
        }
        arguments = [str(item) for item in command]
        done = subprocess.run(
            arguments, capture_output=True, text=True, check=False, env=environment
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return call


def pixels(path: Path | bytes) -> tuple[Any, Any]:
    """Return the values of a file, and its outer edges."""
    with rasterio.open(io.BytesIO(path) if isinstance(path, bytes) else path) as source:
        return source.read(1), source.bounds


def stored(ground: Ground, top: int, left: int, rows: int, columns: int) -> bytes:
    """Return the stored values of a window of the layer."""
    first = 5 * TILE + top, 3 * TILE + left
    values = ground.values("3", first[0], first[0] + rows, first[1], first[1] + columns)
    return np.ascontiguousarray(values[:, :, 0]).tobytes()


@needs_gdal
@versions
def test_gdal_reads_size_and_place(served: Any, run: Any, version: str) -> None:
    _, address = served
    found = json.loads(run("gdalinfo", "-json", f"WCS:{address}?version={version}&coverage=ground"))
    assert found["size"] == [COLUMNS, ROWS]
    assert found["geoTransform"] == [WEST, 1.0, 0.0, NORTH, 0.0, -1.0]


@needs_gdal
@versions
def test_gdal_copies_the_whole_coverage(
    served: Any, run: Any, tmp_path: Path, version: str
) -> None:
    ground, address = served
    path = tmp_path / "whole.tif"
    run("gdal_translate", "-q", f"WCS:{address}?version={version}&coverage=ground", path)
    values, bounds = pixels(path)
    assert (bounds.left, bounds.top) == (WEST, NORTH)
    assert values.tobytes() == stored(ground, 0, 0, ROWS, COLUMNS)


@needs_gdal
@versions
def test_gdal_copies_a_window(served: Any, run: Any, tmp_path: Path, version: str) -> None:
    ground, address = served
    path = tmp_path / "window.tif"
    source = f"WCS:{address}?version={version}&coverage=ground"
    run("gdal_translate", "-q", "-srcwin", 333, 444, 200, 150, source, path)
    values, bounds = pixels(path)
    assert (bounds.left, bounds.top) == (WEST + 333, NORTH - 444)
    assert values.tobytes() == stored(ground, 444, 333, 150, 200)


@needs_gdal
@versions
def test_gdal_scales(served: Any, run: Any, tmp_path: Path, version: str) -> None:
    _, address = served
    path = tmp_path / "scaled.tif"
    source = f"WCS:{address}?version={version}&coverage=ground"
    run("gdal_translate", "-q", "-outsize", 272, 336, source, path)
    values, bounds = pixels(path)
    assert values.shape == (336, 272)
    assert (bounds.left, bounds.top) == (WEST, NORTH)
    assert (bounds.right, bounds.bottom) == (WEST + COLUMNS, NORTH - ROWS)


@needs_gdal
@versions
def test_gdal_warps_to_degrees(served: Any, run: Any, tmp_path: Path, version: str) -> None:
    ground, address = served
    path = tmp_path / "degrees.tif"
    source = f"WCS:{address}?version={version}&coverage=ground"
    run("gdalwarp", "-q", "-t_srs", "EPSG:4326", "-te", *degrees(ground), source, path)
    with rasterio.open(path) as file:
        values = file.read(1)
    ours = tmp_path / "ours.tif"
    size = values.shape[1], values.shape[0]
    ours.write_bytes(fetched(address, in_degrees(degrees(ground), size)))
    drawn, bounds = pixels(ours)
    assert drawn.shape == values.shape
    assert bounds == pytest.approx(degrees(ground), rel=1e-10)


@pytest.fixture(scope="module")
def globe(serving: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a service with a layer in degrees, latitude first."""
    folder = tmp_path_factory.mktemp("globe")
    descriptor = write_pyramid(
        folder / "pyramids",
        "globe",
        tile_matrix_set=geographic(),
        format="TIFF_ZIP_FLOAT32",
        channels=1,
        nodata=[-99999.0],
        levels=[LevelPlan("3", 2, 3, 4, 6)],
        tile=noise,
    )
    layer = layer_document(descriptor, wcs={"enabled": True})

    def write(public_url: str) -> Path:
        layers = {"globe": layer}
        return write_installation(folder, layers=layers, services=["wcs"], public_url=public_url)

    with serving(write) as url:
        yield f"{url}/wcs"


def noise(level: str, row: int, col: int) -> Any:
    random = np.random.default_rng([int(level), row, col])
    return random.uniform(0, 1000, (256, 256, 1)).astype(np.float32)


@needs_gdal
@versions
def test_gdal_copies_degrees(globe: str, run: Any, tmp_path: Path, version: str) -> None:
    path = tmp_path / "degrees.tif"
    source = f"WCS:{globe}?version={version}&coverage=globe"
    run("gdal_translate", "-q", "-srcwin", 100, 200, 300, 150, source, path)
    values, bounds = pixels(path)
    cell = 360 / 4096
    assert (bounds.left, bounds.top) == (-90 + 100 * cell, 45 - 200 * cell)
    whole = np.block([[noise("3", row, col)[:, :, 0] for col in (4, 5, 6)] for row in (2, 3)])
    assert values.tobytes() == np.ascontiguousarray(whole[200:350, 100:400]).tobytes()


def degrees(ground: Ground) -> tuple[float, float, float, float]:
    """Return west, south, east and north of a part of the layer."""
    box = ground.layer.geographic_bbox
    x, y = (box.xmin + box.xmax) / 2, (box.ymin + box.ymax) / 2
    return x - 0.002, y - 0.001, x + 0.002, y + 0.001


def in_degrees(box: tuple[float, ...], size: tuple[int, int]) -> dict[str, Any]:
    """Return the parameters with which GeoLibre requests an area."""
    return {
        "SERVICE": "WCS",
        "VERSION": "1.0.0",
        "REQUEST": "GetCoverage",
        "COVERAGE": "ground",
        "CRS": "EPSG:4326",
        "RESPONSE_CRS": "EPSG:4326",
        "BBOX": ",".join(map(repr, box)),
        "WIDTH": size[0],
        "HEIGHT": size[1],
        "FORMAT": "GeoTIFF",
    }


def fetched(address: str, parameters: dict[str, Any]) -> bytes:
    with urllib.request.urlopen(f"{address}?{urlencode(parameters)}") as response:
        assert response.headers["Content-Type"] == "image/tiff"
        return bytes(response.read())


def document(address: str, **parameters: str) -> Any:
    query = urlencode({"SERVICE": "WCS", "VERSION": "1.0.0", **parameters})
    with urllib.request.urlopen(f"{address}?{query}") as response:
        return ElementTree.fromstring(response.read())


def test_geolibre_finds_and_loads_a_coverage(served: Any) -> None:
    ground, address = served
    wcs = "{http://www.opengis.net/wcs}"
    capabilities = document(address, REQUEST="GetCapabilities")
    (name,) = [
        brief.findtext(f"{wcs}name") for brief in capabilities.iter(f"{wcs}CoverageOfferingBrief")
    ]
    described = document(address, REQUEST="DescribeCoverage", COVERAGE=name)
    assert [one.text for one in described.iter(f"{wcs}formats")] == ["GeoTIFF"]
    assert "EPSG:4326" in [one.text for one in described.iter(f"{wcs}requestResponseCRSs")]
    data = fetched(address, in_degrees(degrees(ground), (400, 300)))
    with rasterio.open(io.BytesIO(data)) as file:
        assert (file.crs.to_epsg(), file.width, file.height) == (4326, 400, 300)
        assert file.bounds == pytest.approx(degrees(ground), rel=1e-10)


def test_owslib_reads_and_loads_version_201(served: Any, tmp_path: Path) -> None:
    ground, address = served
    wcs = pytest.importorskip("owslib.wcs")
    service = wcs.WebCoverageService(address, version="2.0.1")
    assert service.identification.title == "Coverages"
    (content,) = service.contents.values()
    grid = content.grid
    assert grid.highlimits == [str(COLUMNS - 1), str(ROWS - 1)]
    assert [float(value) for value in grid.origin] == [WEST + 0.5, NORTH - 0.5]
    (box,) = content.boundingboxes
    assert box["bbox"] == (WEST, NORTH - ROWS, WEST + COLUMNS, NORTH)
    assert "image/tiff" in content.supportedFormats
    answer = service.getCoverage(
        identifier=content.id,
        subsets=[("E", WEST + 333, WEST + 533), ("N", NORTH - 594, NORTH - 444)],
        format="image/tiff",
    )
    values, bounds = pixels(answer.read())
    # The edges of cells are the posts of none.
    if ground.layer.registration == "area":
        assert (bounds.left, bounds.top) == (WEST + 333, NORTH - 444)
    assert values.tobytes() == stored(ground, 444, 333, 150, 200)
    sized = service.getCoverage(
        identifier=content.id, format="image/tiff", sizes=[("E", 100), ("N", 80)]
    )
    assert pixels(sized.read())[0].shape == (80, 100)


def test_owslib_reads_and_loads_version_100(served: Any) -> None:
    ground, address = served
    wcs = pytest.importorskip("owslib.wcs")
    service = wcs.WebCoverageService(address, version="1.0.0")
    (content,) = service.contents.values()
    assert content.boundingBoxWGS84 is not None
    assert "GeoTIFF" in content.supportedFormats
    assert {"EPSG:2154", "EPSG:4326"} <= {crs.getcode() for crs in content.supportedCRS}
    assert content.grid.highlimits == [str(COLUMNS - 1), str(ROWS - 1)]
    box = (WEST + 333, NORTH - 594, WEST + 533, NORTH - 444)
    for size in ({"width": 200, "height": 150}, {"resx": 1, "resy": 1}):
        answer = service.getCoverage(
            identifier=content.id, bbox=box, crs="EPSG:2154", format="GeoTIFF", **size
        )
        values, bounds = pixels(answer.read())
        assert tuple(bounds) == box
        assert values.tobytes() == stored(ground, 444, 333, 150, 200)


def test_requests_of_qgis(served: Any) -> None:
    """Send what QGIS sends: a probe of 6 x 3 cells, blocks, and boxes without an end."""
    _, address = served
    middle = WEST + COLUMNS / 2, NORTH - ROWS / 2
    native = {**in_degrees((), (6, 3)), "CRS": "EPSG:2154", "RESPONSE_CRS": "EPSG:2154"}
    probe = (middle[0] - 3, middle[1] - 1.5, middle[0] + 3, middle[1] + 1.5)
    values, bounds = pixels(fetched(address, {**native, "BBOX": ",".join(map(repr, probe))}))
    assert values.shape == (3, 6)
    assert tuple(bounds) == pytest.approx(probe, rel=1e-10)
    # Blocks are no cells: their edges lie anywhere, also outside the coverage.
    block = (WEST - 300.123456789, NORTH - 350.7, WEST + 301.3, NORTH + 400.987654321)
    request = {**native, "BBOX": ",".join(map(repr, block)), "WIDTH": 250, "HEIGHT": 250}
    values, bounds = pixels(fetched(address, request))
    assert values.shape == (250, 250)
    assert tuple(bounds) == pytest.approx(block, rel=1e-10)
    assert (values[0] == -99999).all()
    huge = {**native, "BBOX": "-1.8e+308,-1.8e+308,1.8e+308,1.8e+308"}
    with pytest.raises(urllib.error.HTTPError) as caught:
        fetched(address, huge)
    assert caught.value.code == 400
    assert b'code="InvalidParameterValue" locator="BBOX"' in caught.value.read()


@pytest.mark.skipif(
    subprocess.run(
        [SYSTEM_PYTHON, "-c", "import qgis.core"], check=False, capture_output=True
    ).returncode
    != 0,
    reason="QGIS is not installed",
)
def test_qgis_reads_a_block(served: Any, run: Any, tmp_path: Path) -> None:
    ground, address = served
    box = (WEST + 20, NORTH - 474, WEST + 60, NORTH - 444)
    uri = f"url={address}&identifier=ground&crs=EPSG:2154&format=GeoTIFF&cache=AlwaysNetwork"
    wanted = tmp_path / "wanted.json"
    wanted.write_text(json.dumps({"uri": uri, "box": box, "columns": 40, "rows": 30}))
    script = Path(__file__).with_name("qgis_coverage.py")
    output = run(SYSTEM_PYTHON, script, wanted)
    found = json.loads(output.splitlines()[-1])
    assert found["crs"] == "EPSG:2154"
    assert found["size"] == [COLUMNS, ROWS]
    assert found["extent"] == [WEST, NORTH - ROWS, WEST + COLUMNS, NORTH]
    expected = np.frombuffer(stored(ground, 444, 20, 30, 40), np.float32)
    values = np.array(found["values"], dtype=object).reshape(-1)
    valid = np.array([value is not None for value in values])
    assert (valid == (np.isfinite(expected) & (expected != -99999))).all()
    assert values[valid].astype(np.float32).tobytes() == expected[valid].tobytes()
