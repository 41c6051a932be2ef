"""The tiles that only archives have, MLT and AVIF, in each service."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest
from PIL import Image, features
from tests.container_cog.served import add_layer, addresses
from tests.container_pmtiles.test_archives import AVIF, MLT, archive, image
from tests.tiny import tiny_installation
from werkzeug.test import Client

from mastaba.api.tools import create_application

TILE = gzip.compress(b"what a MapLibre tile contains is not looked at", mtime=0)


def client_of(directory: Path, data: bytes) -> Client:
    directory.mkdir(exist_ok=True)
    (directory / "a.pmtiles").write_bytes(data)
    server = tiny_installation(directory / "site")
    add_layer(directory / "site", "A", {"path": str(directory / "a.pmtiles")})
    return Client(create_application(str(server)))


def test_maplibre_tiles_are_sent_as_they_are_stored(tmp_path: Path) -> None:
    data = archive([(0, 1, len(TILE), 0)], TILE, kind=MLT, codings=(1, 2))
    client = client_of(tmp_path, data)
    for address in ("/tms/1.0.0/A/0/0/0.mlt", "/ogcapi/collections/A/tiles/PM/0/0/0"):
        answer = client.get(address, headers={"Accept-Encoding": "gzip"})
        assert (answer.status_code, answer.data) == (200, TILE), address
        assert answer.content_type == "application/vnd.maplibre-tile"
        assert answer.headers["Content-Encoding"] == "gzip"
        plain = client.get(address, headers={"Accept-Encoding": "identity"})
        assert plain.data == gzip.decompress(TILE)
        assert plain.headers["ETag"] != answer.headers["ETag"]
    described = client.get("/tms/1.0.0/A/metadata.json").json
    assert described is not None
    assert described["tiles"][0].endswith(".mlt")
    for service in ("wms", "wmts"):
        text = client.get(f"/{service}?SERVICE={service.upper()}&REQUEST=GetCapabilities").text
        assert "<ows:Identifier>A</ows:Identifier>" not in text
        assert "<Name>A</Name>" not in text


def test_avif_images_are_sent_as_they_are_stored_and_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    data = image("AVIF")
    client = client_of(tmp_path, archive([(0, 1, len(data), 0)], data, kind=AVIF))
    for protocol, address in addresses("A", "0", 0, 0, "image/avif", "avif").items():
        answer = client.get(address)
        assert (answer.status_code, answer.content_type) == (200, "image/avif"), protocol
        assert answer.data == data
    query = (
        "/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&LAYERS=A&STYLES=&CRS=EPSG:3857"
        "&BBOX=-10000000,-10000000,10000000,10000000&FORMAT=image/png&WIDTH=64&HEIGHT={}"
    )
    answer = client.get(query.format(64))
    assert (answer.status_code, answer.content_type) == (200, "image/png")
    assert Image.open(io.BytesIO(answer.data)).convert("RGB").getpixel((32, 32)) == (0, 0, 0)
    # A library that was built without AVIF.
    monkeypatch.setattr(features, "check", lambda name: name != "avif")
    other = client_of(tmp_path / "two", (tmp_path / "a.pmtiles").read_bytes())
    assert other.get(query.format(64)).status_code == 500
    assert "this Pillow cannot decode AVIF: install 11.3" in caplog.text
    assert other.get("/tms/1.0.0/A/0/0/0.avif").data == data
