"""OWSLib, a client that others wrote, reads the capabilities and fetches tiles over HTTP."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from owslib.util import ServiceException
from owslib.wmts import WebMapTileService
from PIL import Image
from tests.tiny import tiny_installation

Serving = Callable[[Callable[[str], Path]], AbstractContextManager[str]]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory, serving: Serving) -> Iterator[str]:
    """Return the address of a WMTS that listens on a free port of this machine."""
    directory = tmp_path_factory.mktemp("owslib")
    with serving(
        lambda url: tiny_installation(directory, public_url=url, services=["wmts"])
    ) as url:
        yield f"{url}/wmts"


def test_owslib_reads_the_capabilities(url: str) -> None:
    service = WebMapTileService(url)
    assert service.identification.type == "OGC WMTS"
    assert service.identification.version == "1.0.0"
    assert not service.restonly
    assert {operation.name for operation in service.operations} == {"GetCapabilities", "GetTile"}
    assert sorted(service.contents) == [
        "FLOAT32_RAW",
        "FLOAT32_ZIP",
        "GREYA_ZIP",
        "GREY_PNG",
        "RGBA_PNG",
        "RGB_JPG",
        "RGB_PNG",
        "RGB_RAW",
    ]
    layer = service.contents["GREY_PNG"]
    assert layer.formats == ["image/png", "image/jpeg", "image/webp"]
    assert list(layer.styles) == ["normal", "ember"]
    assert layer.styles["normal"]["isDefault"]
    assert layer.boundingBoxWGS84 == pytest.approx((22.5, 21.943, 67.5, 55.777), abs=1e-3)
    limits = layer.tilematrixsetlinks["PM_2_4"].tilematrixlimits["4"]
    found = (limits.mintilerow, limits.maxtilerow, limits.mintilecol, limits.maxtilecol)
    assert found == (5, 6, 9, 10)
    assert sorted(service.tilematrixsets) == ["PM", "PM_2_4"]
    assert service.tilematrixsets["PM_2_4"].crs == "urn:ogc:def:crs:EPSG::3857"


@pytest.mark.parametrize("address", ["", "/1.0.0/WMTSCapabilities.xml"])
def test_owslib_fetches_a_tile(url: str, address: str) -> None:
    service = WebMapTileService(url + address)
    tile = service.gettile(
        layer="RGB_PNG",
        style="normal",
        format="image/png",
        tilematrixset="PM_2_4",
        tilematrix="4",
        row=5,
        column=9,
    )
    assert tile.info()["Content-Type"] == "image/png"
    assert Image.open(io.BytesIO(tile.read())).size == (256, 256)


def test_owslib_understands_an_error(url: str, tmp_path: Path) -> None:
    service = WebMapTileService(url)
    with pytest.raises(ServiceException, match="no such tile"):
        service.gettile(
            layer="RGB_PNG",
            style="normal",
            format="image/png",
            tilematrixset="PM",
            tilematrix="4",
            row=1,
            column=9,
        )
