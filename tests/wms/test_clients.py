"""Real clients over HTTP: OWSLib and GDAL."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import pyproj
import pytest
from owslib.wms import WebMapService
from PIL import Image

Serving = Callable[[Callable[[str], Path]], AbstractContextManager[str]]
BOX = (2600000.0, 3000000.0, 3400000.0, 3600000.0)


@pytest.fixture(scope="module")
def url(
    tmp_path_factory: pytest.TempPathFactory,
    serving: Serving,
    install_at: Callable[[Path, str], Path],
) -> Iterator[str]:
    with serving(partial(install_at, tmp_path_factory.mktemp("served"))) as root:
        yield f"{root}/wms"


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def direct(url: str, crs: str) -> Any:
    box = ",".join(map(str, BOX))
    query = (
        f"VERSION=1.3.0&REQUEST=GetMap&LAYERS=ground&STYLES=&CRS={crs}&BBOX={box}"
        "&WIDTH=80&HEIGHT=60&FORMAT=image/png"
    )
    with urlopen(f"{url}?{query}") as response, Image.open(response) as picture:
        return np.asarray(picture.convert("RGB"))


@pytest.mark.parametrize("version", ["1.3.0", "1.1.1"])
def test_owslib_reads_the_capabilities_and_draws_a_map(url: str, version: str) -> None:
    service = WebMapService(url, version=version)
    assert service.identification.title == "Maps & more"
    assert service.identification.keywords == ["one", "two"]
    assert service.provider.contact.name == "N"
    layer = service["ground"]
    assert layer.queryable
    assert "normal" in layer.styles
    assert layer.boundingBoxWGS84 == pytest.approx((0, 0, 90, 66.513), abs=1e-3)
    assert "EPSG:32637" in layer.crsOptions
    assert "EPSG:3857" in layer.crsOptions
    assert "image/png" in service.getOperationByName("GetMap").formatOptions
    picture = service.getmap(
        layers=["ground"], styles=[""], srs="EPSG:3857", bbox=BOX, size=(80, 60), format="image/png"
    )
    with Image.open(io.BytesIO(picture.read())) as opened:
        assert np.array_equal(np.asarray(opened), direct(url, "EPSG:3857"))


@pytest.mark.parametrize("version", ["1.3.0", "1.1.1"])
def test_owslib_gives_a_geographic_box_as_it_always_does(url: str, version: str) -> None:
    service = WebMapService(url, version=version)
    picture = service.getmap(
        layers=["ground"],
        styles=[""],
        srs="EPSG:4326",
        bbox=(20, 10, 70, 40),
        size=(80, 60),
        format="image/png",
    )
    with Image.open(io.BytesIO(picture.read())) as opened:
        pixels = np.asarray(opened)
    # Red grows eastward: the axes are not mixed up.
    assert pixels[30, 75, 0] > pixels[30, 5, 0]


@pytest.mark.parametrize("version", ["1.3.0", "1.1.1"])
def test_owslib_asks_for_feature_info(url: str, version: str) -> None:
    service = WebMapService(url, version=version)
    answer = service.getfeatureinfo(
        layers=["ground"],
        styles=[""],
        srs="EPSG:3857",
        bbox=BOX,
        size=(80, 60),
        format="image/png",
        info_format="text/plain",
        xy=(10, 20),
    )
    expected = direct(url, "EPSG:3857")[20, 10]
    assert answer.read().decode() == ",".join(map(str, expected))


@pytest.mark.parametrize("version", ["1.3.0", "1.1.1"])
def test_owslib_reads_numbers_and_the_place_of_features(url: str, version: str) -> None:
    service = WebMapService(url, version=version)
    answer = service.getfeatureinfo(
        layers=["ground"],
        styles=[""],
        srs="EPSG:3857",
        bbox=BOX,
        size=(80, 60),
        format="image/png",
        info_format="application/json",
        xy=(10, 20),
    )
    (feature,) = json.loads(answer.read())["features"]
    assert feature["properties"]["pixel"] == direct(url, "EPSG:3857")[20, 10].tolist()
    x = BOX[0] + 10.5 * (BOX[2] - BOX[0]) / 80
    y = BOX[3] - 20.5 * (BOX[3] - BOX[1]) / 60
    transformer = pyproj.Transformer.from_crs("EPSG:3857", "OGC:CRS84", always_xy=True)
    assert feature["geometry"]["type"] == "Point"
    assert feature["geometry"]["coordinates"] == pytest.approx(transformer.transform(x, y))


def gdal(environment: dict[str, str], command: str, *arguments: object) -> str:
    if shutil.which(command) is None:
        pytest.skip(f"{command} is not installed")
    done = subprocess.run(
        [command, *map(str, arguments)], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.live
@pytest.mark.parametrize("version", ["1.3.0", "1.1.1"])
def test_gdal_lists_the_layers(url: str, gdal_environment: dict[str, str], version: str) -> None:
    listed = json.loads(
        gdal(
            gdal_environment,
            "gdalinfo",
            "-json",
            f"WMS:{url}?SERVICE=WMS&REQUEST=GetCapabilities&VERSION={version}",
        )
    )
    titles = [value for key, value in listed["metadata"]["SUBDATASETS"].items() if "DESC" in key]
    assert "ground" in titles


@pytest.mark.live
@pytest.mark.parametrize(("version", "word"), [("1.3.0", "CRS"), ("1.1.1", "SRS")])
@pytest.mark.parametrize("crs", ["EPSG:3857", "EPSG:4326"])
def test_gdal_draws_a_map(
    tmp_path: Path, url: str, gdal_environment: dict[str, str], version: str, word: str, crs: str
) -> None:
    box = BOX if crs == "EPSG:3857" else (20.0, 10.0, 70.0, 40.0)
    order = "yxYX" if (version, crs) == ("1.3.0", "EPSG:4326") else "xyXY"
    description = tmp_path / "map.xml"
    description.write_text(
        f"""<GDAL_WMS>
          <Service name="WMS">
            <Version>{version}</Version><ServerUrl>{url}?</ServerUrl>
            <{word}>{crs}</{word}><ImageFormat>image/png</ImageFormat><Layers>ground</Layers>
            <Styles></Styles><BBoxOrder>{order}</BBoxOrder>
          </Service>
          <DataWindow>
            <UpperLeftX>{box[0]}</UpperLeftX><UpperLeftY>{box[3]}</UpperLeftY>
            <LowerRightX>{box[2]}</LowerRightX><LowerRightY>{box[1]}</LowerRightY>
            <SizeX>80</SizeX><SizeY>60</SizeY>
          </DataWindow>
          <Projection>{crs}</Projection><BandsCount>3</BandsCount>
          <BlockSizeX>80</BlockSizeX><BlockSizeY>60</BlockSizeY><OverviewCount>0</OverviewCount>
        </GDAL_WMS>"""
    )
    gdal(gdal_environment, "gdal_translate", "-q", "-of", "PNG", description, tmp_path / "map.png")
    with Image.open(tmp_path / "map.png") as picture:
        pixels = np.asarray(picture)
    assert pixels.shape == (60, 80, 3)
    if crs == "EPSG:3857":
        assert np.array_equal(pixels, direct(url, crs))
    else:
        assert pixels[30, 75, 0] > pixels[30, 5, 0]
