"""The tiles that only archives have, MLT and AVIF, in each service."""

from __future__ import annotations

import gzip
import io
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, features
from tests.container_cog.served import add_layer, addresses
from tests.container_pmtiles.test_archives import AVIF, JPEG, LAYER, MLT, WEBP, archive, image
from tests.tiny import tiny_installation
from werkzeug.test import Client

from mastaba.api.tools import create_application
from mastaba.commands.main import main
from mastaba_pmtiles.directory import MAX_TILE
from mastaba_pmtiles.tile_ids import ZoomIds

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


@pytest.mark.parametrize(("form", "kind"), [("JPEG", JPEG), ("WEBP", WEBP), ("AVIF", AVIF)])
def test_pictures_below_slabs_are_sent_in_the_format_of_the_slabs(
    form: str, kind: int, tmp_path: Path
) -> None:
    data, first = image(form), ZoomIds(4).of(0, 0)
    (tmp_path / "a.pmtiles").write_bytes(
        archive([(first, 256, len(data), 0)], data, kind=kind, zooms=(4, 4))
    )
    server = tiny_installation(tmp_path / "site")
    slabs = f"{tmp_path}/site/pyramids/RGB_PNG.json"
    add_layer(
        tmp_path / "site",
        "A",
        {"path": slabs, "bottom_level": "3", "top_level": "2"},
        {"path": str(tmp_path / "a.pmtiles")},
    )
    client = Client(create_application(str(server)))
    expected = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
    for protocol, address in addresses("A", "4", 3, 5, "image/png", "png").items():
        answer = client.get(address)
        assert (answer.status_code, answer.content_type) == (200, "image/png"), protocol
        np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(answer.data))), expected)


def compressed(data: bytes, coding: str) -> tuple[bytes, int]:
    """Return compressed data, and the number of the coding in headers."""
    if coding == "br":
        return pytest.importorskip("brotli").compress(data, quality=1), 3
    return pytest.importorskip("zstandard").ZstdCompressor().compress(data), 4


@pytest.mark.parametrize("coding", ["br", "zstd"])
def test_tiles_in_other_codings_are_decompressed_only_for_clients_that_do_not_take_them(
    coding: str, tmp_path: Path
) -> None:
    stored, number = compressed(LAYER, coding)
    data = archive([(0, 1, len(stored), 0)], stored, codings=(1, number))
    client = client_of(tmp_path, data)
    for address in ("/tms/1.0.0/A/0/0/0.pbf", "/ogcapi/collections/A/tiles/PM/0/0/0"):
        tags = set()
        for accepted in (coding, f"gzip, {coding};q=0.5", "*"):
            answer = client.get(address, headers={"Accept-Encoding": accepted})
            assert (answer.status_code, answer.data) == (200, stored), accepted
            assert answer.headers["Content-Encoding"] == coding
            assert answer.headers["Vary"] == "Accept-Encoding"
            tags.add(answer.headers["ETag"])
        # Nobody must be sent what he did not ask for.
        for accepted in (None, "identity", "gzip", f"{coding};q=0", "*;q=0"):
            headers = {} if accepted is None else {"Accept-Encoding": accepted}
            answer = client.get(address, headers=headers)
            assert (answer.status_code, answer.data) == (200, LAYER), accepted
            assert "Content-Encoding" not in answer.headers
            assert answer.headers["Vary"] == "Accept-Encoding"
            assert answer.headers["ETag"] not in tags
        headers = {"Accept-Encoding": coding, "If-None-Match": tags.pop()}
        assert client.get(address, headers=headers).status_code == 304
        assert (
            client.get(address, headers={**headers, "Accept-Encoding": "gzip"}).status_code == 200
        )


@pytest.mark.parametrize("coding", ["br", "zstd"])
def test_tiles_in_other_codings_inflate_to_a_limit(coding: str, tmp_path: Path) -> None:
    stored, number = compressed(bytes(MAX_TILE + 1), coding)
    client = client_of(tmp_path, archive([(0, 1, len(stored), 0)], stored, codings=(1, number)))
    address = "/tms/1.0.0/A/0/0/0.pbf"
    assert client.get(address, headers={"Accept-Encoding": coding}).data == stored
    assert client.get(address).status_code == 500


@pytest.mark.parametrize(("coding", "library"), [("br", "brotli"), ("zstd", "zstandard")])
def test_without_a_decompressor_only_clients_that_take_the_coding_get_tiles(
    coding: str, library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored, number = compressed(LAYER, coding)
    monkeypatch.setitem(sys.modules, library, None)
    client = client_of(tmp_path, archive([(0, 1, len(stored), 0)], stored, codings=(1, number)))
    for address in ("/tms/1.0.0/A/0/0/0.pbf", "/ogcapi/collections/A/tiles/PM/0/0/0"):
        answer = client.get(address, headers={"Accept-Encoding": coding})
        assert (answer.status_code, answer.data) == (200, stored)
        tag = answer.headers["ETag"]
        for headers in ({}, {"Accept-Encoding": "gzip"}, {"If-None-Match": tag}):
            answer = client.get(address, headers=headers)
            assert answer.status_code == 406, headers
            assert coding in answer.text
            # A cache may keep it for clients like this one only.
            assert "Accept-Encoding" in answer.headers.getlist("Vary")


@pytest.mark.parametrize(("coding", "library"), [("br", "brotli"), ("zstd", "zstandard")])
def test_what_reads_tiles_of_other_codings_names_the_decompressor_that_is_missing(
    coding: str,
    library: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    stored, number = compressed(LAYER, coding)
    monkeypatch.setitem(sys.modules, library, None)
    client_of(tmp_path, archive([(0, 1, len(stored), 0)], stored, codings=(1, number)))
    server, out = str(tmp_path / "site/server.json"), tmp_path / "out.mbtiles"
    assert main(["check", "-f", server, "--deep"]) == 1
    said = capsys.readouterr().out
    assert f"compressed with {coding}, for which nothing is installed: only clients" in said
    assert f"compressed with {coding}, for which nothing is installed: install {library}" in said
    assert main(["export", "-f", server, "A", str(out)]) != 0
    assert f"install {library}" in capsys.readouterr().err
    assert not out.exists()
