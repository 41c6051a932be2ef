"""Downloads with curl, and GDAL's readers of a coverage where it lies."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.coverage.ground import ORIGIN, TILE, Ground

from mastaba.api.catalogue import CRS, BoundingBox
from mastaba_render.api.maps import MapLayer, MapRequest

pytestmark = pytest.mark.live

NATIVE = "subset-crs=[EPSG:2154]"


@pytest.fixture(scope="module")
def served(serving: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Ground, str]]:
    """Return an installation, and the address of its coverage."""
    written: list[Ground] = []

    def write(public_url: str) -> Path:
        written.append(
            Ground(
                tmp_path_factory.mktemp("ground"),
                services={"ogcapi": {"coverages": True}},
                public_url=public_url,
                coverages=True,
            )
        )
        return written[0].server_json

    with serving(write) as url:
        yield written[0], f"{url}/ogcapi/collections/ground/coverage"
    written[0].close()


def run(*command: object, **environment: str) -> str:
    variables = {"PATH": "/usr/bin:/bin", "NO_PROXY": "*", "no_proxy": "*", **environment}
    done = subprocess.run(
        [str(item) for item in command],
        capture_output=True,
        text=True,
        check=False,
        env=variables,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def whole(ground: Ground) -> bytes:
    answer = ground.extract(ground.whole())
    return b"".join(answer.pieces(0, answer.size))


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl_resumes_an_interrupted_download(served: Any, tmp_path: Path) -> None:
    ground, address = served
    expected = whole(ground)
    path = tmp_path / "whole.tif"
    for length in (1, 100_000, len(expected) - 1):
        path.write_bytes(expected[:length])
        run("curl", "-sS", "--fail", "-C", "-", "-o", path, address)
        assert path.read_bytes() == expected


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl_names_the_file_as_the_server_says(served: Any, tmp_path: Path) -> None:
    _, address = served
    run("curl", "-sS", "--fail", "-OJ", "--output-dir", tmp_path, address)
    (path,) = tmp_path.iterdir()
    assert path.name.startswith("ground_3_6")
    assert path.suffix == ".tif"


@pytest.mark.skipif(shutil.which("gdalinfo") is None, reason="GDAL is not installed")
def test_gdal_reads_windows_of_the_whole_coverage(served: Any, tmp_path: Path) -> None:
    ground, address = served
    source = f"/vsicurl/{address}"
    options = {"GDAL_DISABLE_READDIR_ON_OPEN": "EMPTY_DIR"}
    found = json.loads(run("gdalinfo", "-json", source, **options))
    assert [one["size"] for one in found["bands"][0]["overviews"]] == [[640, 704], [320, 352]]
    assert found["metadata"]["IMAGE_STRUCTURE"]["LAYOUT"] == "COG"
    path = tmp_path / "part.tif"
    corner = 7 * TILE + 5, 6 * TILE + 9
    cells = ground.whole().cells
    place = ("-srcwin", corner[1] - cells.left, corner[0] - cells.top, 100, 80)
    run("gdal_translate", "-q", *place, source, path, **options)
    expected = ground.values("3", corner[0], corner[0] + 80, corner[1], corner[1] + 100)
    with pytest.importorskip("rasterio").open(path) as file:
        assert file.read(1).tobytes() == expected.tobytes()


@pytest.mark.skipif(shutil.which("gdalinfo") is None, reason="GDAL is not installed")
def test_gdal_reads_a_window(served: Any, tmp_path: Path) -> None:
    ground, address = served
    path = tmp_path / "window.tif"
    west, north = ORIGIN[0] + 333, ORIGIN[1] - 444
    part = f"subset=E({west}:{west + 200}),N({north - 150}:{north})&{NATIVE}"
    run("curl", "-sS", "--fail", "-g", "-o", path, f"{address}?{part}")
    found = json.loads(run("gdalinfo", "-json", path))
    assert found["size"] == [200, 150]
    assert found["geoTransform"][0] == west
    assert found["geoTransform"][3] == north
    raw = tmp_path / "window.raw"
    run("gdal_translate", "-q", "-of", "ENVI", path, raw)
    assert raw.read_bytes() == ground.values("3", 444, 594, 333, 533).tobytes()


@pytest.mark.skipif(shutil.which("gdalinfo") is None, reason="GDAL is not installed")
def test_gdal_driver_reads_the_coverage_in_degrees(
    served: Any, tmp_path: Path, gdal_environment: dict[str, str]
) -> None:
    """Each pixel of GDAL's grid in degrees is the value that a map in degrees has there."""
    ground, address = served
    name, path = f"OGCAPI:{address.removesuffix('/coverage')}", tmp_path / "part.tif"
    options = ("-oo", "API=COVERAGE", "-oo", "CACHE=NO")
    found = json.loads(run("gdalinfo", "-json", *options, name, **gdal_environment))
    columns, rows = found["size"]
    box, window = ground.layer.geographic_bbox, ground.coverage.finest.window
    assert (columns, rows) == (window.columns, window.rows)
    assert found["geoTransform"][0] == pytest.approx(box.xmin, abs=1e-9)
    assert found["geoTransform"][3] == pytest.approx(box.ymax, abs=1e-9)
    place = ("-srcwin", 256, 512, 256, 256)
    run("gdal_translate", "-q", *options, *place, name, path, **gdal_environment)
    rasterio = pytest.importorskip("rasterio")
    with rasterio.open(path) as file:
        values, bounds = file.read(1), file.bounds
    request = MapRequest(
        (MapLayer(ground.layer, None),),
        BoundingBox(*bounds),
        CRS.from_code("CRS:84"),
        256,
        256,
    )
    expected = ground.application.site.renderer.render(request).pixels[:, :, 0]
    # GDAL writes the limits of a block with all digits, and computes them from the corner.
    same = np.isclose(values, expected, rtol=1e-4, atol=1e-2, equal_nan=True)
    assert same.mean() > 0.99


def test_owslib_downloads_coverages(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    coverages = pytest.importorskip("owslib.ogcapi.coverages").Coverages
    monkeypatch.setenv("NO_PROXY", "*")
    ground, address = served
    client = coverages(address.partition("/collections")[0])
    assert client.coverages() == ["ground"]
    data = client.coverage("ground").read()
    assert data == whole(ground)
    box = ground.layer.geographic_bbox
    x, y = (box.xmin + box.xmax) / 2, (box.ymin + box.ymax) / 2
    part = [("Lon", x, x + 0.002), ("Lat", y, y + 0.001)]
    rasterio = pytest.importorskip("rasterio")
    scaled = client.coverage("ground", subset=part, scale_size=[("Lon", 64), ("Lat", 32)])
    with rasterio.MemoryFile(scaled.read()) as file, file.open() as source:
        assert (source.width, source.height, source.crs.to_epsg()) == (64, 32, 4326)
    halved = client.coverage("ground", subset=part, properties=["value"], scale_factor=2)
    with rasterio.MemoryFile(halved.read()) as file, file.open() as source:
        assert source.transform.a == pytest.approx(2.0, abs=0.1)
