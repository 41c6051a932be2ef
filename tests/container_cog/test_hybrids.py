"""Layers of slabs above, and a COG below."""

from __future__ import annotations

import io
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from PIL import Image
from tests.container_cog.files import by_tifffile, ground
from tests.container_cog.served import (
    SIDE,
    add_layer,
    addresses,
    client_of,
    cog_of,
    images_of,
    place_of,
    write_slabs,
)
from tests.tiny import tiny_installation

from mastaba.config.load import load_catalogue
from mastaba.config.server import load_server
from mastaba.errors import ConfigurationError
from mastaba.plugins.manager import Plugins
from mastaba_documents.faults import Fault, Faults, Severity
from mastaba_storage.environment import Environment
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import web_mercator

SIZE = (256 * SIDE, 256 * SIDE)
FORMATS = {
    "DEFLATE": ("image/png", "png"),
    "JPEG": ("image/jpeg", "jpg"),
    "WEBP": ("image/webp", "webp"),
}


def pixels_of(answer: Any) -> Any:
    with Image.open(io.BytesIO(answer.data)) as picture:
        return np.asarray(picture)


@pytest.mark.parametrize(
    "compression", ["JPEG", pytest.param("DEFLATE", marks=pytest.mark.thorough)]
)
def test_levels_come_from_both_without_a_seam(tmp_path: Path, compression: str) -> None:
    data = cog_of(tmp_path, ground("uint8", 3, SIZE), COMPRESS=compression)
    jpeg = compression == "JPEG"
    media, extension = FORMATS[compression]
    site = tmp_path / "site"
    server = tiny_installation(site)
    above = write_slabs(tmp_path, "above", data, levels="32", jpeg=jpeg)
    full = write_slabs(tmp_path, "full", data, jpeg=jpeg)
    entries = [
        {"path": str(above), "bottom_level": "3", "top_level": "2"},
        {"path": str(tmp_path / "cog.tif"), "bottom_level": "4", "top_level": "4"},
    ]
    add_layer(site, "HYBRID", *entries, resampling="linear")
    add_layer(
        site,
        "FULL",
        {"path": str(full), "bottom_level": "4", "top_level": "2"},
        resampling="linear",
    )
    client = client_of(server)
    catalogue = client.application.site.catalogue
    assert list(catalogue.layers["HYBRID"].pyramid.levels) == ["2", "3", "4"]

    # Each level from its entry, in each protocol.
    for level, rows in (("2", 1), ("3", 2), ("4", 4)):
        for at in (place_of(level, row, col) for row in range(rows) for col in range(rows)):
            ours = addresses("HYBRID", *at, media, extension)
            theirs = addresses("FULL", *at, media, extension)
            for protocol, address in ours.items():
                answer, expected = client.get(address), client.get(theirs[protocol])
                assert (answer.status_code, expected.status_code) == (200, 200), address
                if level == "4" and not jpeg:
                    pixels = [
                        np.asarray(Image.open(io.BytesIO(one.data))) for one in (answer, expected)
                    ]
                    np.testing.assert_array_equal(*pixels)
                else:
                    assert answer.data == expected.data, address

    # Maps around the scale at which the level changes.
    size = catalogue.layers["HYBRID"].pyramid.levels["4"].matrix.cell_size
    for factor in (0.9, 1.0, 1.3, 1.5, 1.9, 2.0, 2.1, 4.0):
        pictures = []
        for layer in ("HYBRID", "FULL"):
            side = 200 * size * factor
            answer = client.get(
                "/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&STYLES=&FORMAT=image/png"
                f"&LAYERS={layer}&CRS=EPSG:3857&WIDTH=200&HEIGHT=200"
                f"&BBOX=1000000,900000,{1000000 + side},{900000 + side}"
            )
            assert answer.status_code == 200
            pictures.append(pixels_of(answer).astype(int))
        assert np.abs(pictures[0] - pictures[1]).max() <= 1 + jpeg, factor

    # The documents are those of a layer with three levels.
    capabilities = client.get("/wmts?SERVICE=WMTS&REQUEST=GetCapabilities").text
    ours, theirs = (
        capabilities.partition(f"<ows:Identifier>{name}</ows:Identifier>")[2].partition("</Layer>")[
            0
        ]
        for name in ("HYBRID", "FULL")
    )
    assert ours.replace("HYBRID", "FULL") == theirs
    assert ours.count("<TileMatrixLimits>") == 3
    for address in (
        "/ogcapi/collections/{}/map/tiles/PM?f=json",
        "/ogcapi/collections/{}?f=json",
        "/tms/1.0.0/{}",
    ):
        one, other = (client.get(address.format(name)) for name in ("HYBRID", "FULL"))
        assert one.status_code == 200
        assert one.text.replace("HYBRID", "FULL") == other.text


@pytest.mark.parametrize("first", ["slabs", "cog"])
@pytest.mark.parametrize(
    ("compression", "above_is_jpeg"), [("WEBP", False), ("JPEG", False), ("DEFLATE", True)]
)
def test_levels_of_other_media_types_are_sent_as_that_of_the_first_entry(
    tmp_path: Path, compression: str, above_is_jpeg: bool, first: str
) -> None:
    data = cog_of(tmp_path, ground("uint8", 3, SIZE), COMPRESS=compression)
    site = tmp_path / "site"
    server = tiny_installation(site)
    slabs_of = data
    if above_is_jpeg:
        (tmp_path / "jpeg").mkdir()
        slabs_of = cog_of(tmp_path / "jpeg", ground("uint8", 3, SIZE), COMPRESS="JPEG")
    above = write_slabs(tmp_path, "above", slabs_of, levels="32", jpeg=above_is_jpeg)
    entries = [
        {"path": str(above), "bottom_level": "3", "top_level": "2"},
        {"path": str(tmp_path / "cog.tif"), "bottom_level": "4", "top_level": "4"},
    ]
    alone = [entries[0], {"path": str(tmp_path / "cog.tif")}]
    media = [FORMATS["JPEG" if above_is_jpeg else "DEFLATE"], FORMATS[compression]]
    if first == "cog":
        entries.reverse(), media.reverse()
    add_layer(site, "HYBRID", *entries)
    for name, entry in zip(("ABOVE", "BELOW"), alone, strict=True):
        add_layer(site, name, entry)
    client = client_of(server)
    catalogue = client.application.site.catalogue
    wanted, other = media
    assert catalogue.layers["HYBRID"].pyramid.format.media_type == wanted[0]
    for level, layer in (("2", "ABOVE"), ("3", "ABOVE"), ("4", "BELOW")):
        at = place_of(level, 0, 0)
        is_first = (layer == "BELOW") == (first == "cog")
        same = addresses(layer, *at, *(wanted if is_first else other))["KVP"]
        expected, tags = client.get(same), set()
        for protocol, address in addresses("HYBRID", *at, *wanted).items():
            answer = client.get(address)
            assert (answer.status_code, answer.content_type) == (200, wanted[0]), protocol
            tags.add(answer.headers["ETag"])
            assert (
                client.get(address, headers={"If-None-Match": answer.headers["ETag"]}).status_code
                == 304
            )
            if is_first:
                assert answer.data == expected.data
                continue
            difference = np.abs(pixels_of(answer).astype(int) - pixels_of(expected))
            # JPEG is not exact.
            assert difference.max() <= (8 if wanted[1] == "jpg" else 0)
        assert len(tags) == 1
    # Maps are drawn from the stored pixels.
    for level, layer in (("3", "ABOVE"), ("4", "BELOW")):
        side = 200 * catalogue.layers["HYBRID"].pyramid.levels[level].matrix.cell_size
        pictures = [
            pixels_of(
                client.get(
                    "/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&STYLES=&FORMAT=image/png"
                    f"&LAYERS={name}&CRS=EPSG:3857&WIDTH=200&HEIGHT=200"
                    f"&BBOX=1000000,900000,{1000000 + side},{900000 + side}"
                )
            )
            for name in ("HYBRID", layer)
        ]
        np.testing.assert_array_equal(*pictures)


@pytest.mark.parametrize("format", ["TIFF_ZIP_FLOAT32", "TIFF_LZW_FLOAT32", "TIFF_RAW_FLOAT32"])
@pytest.mark.parametrize("first", ["slabs", "cog"])
def test_values_of_other_compressions_are_exact(tmp_path: Path, format: str, first: str) -> None:
    data = cog_of(tmp_path, ground("float32", 1, SIZE), COMPRESS="DEFLATE")
    images, places = images_of(data), {level: place_of(level, 0, 0) for level in "432"}

    def values(level: str, row: int, col: int) -> Any:
        _, down, right = places[level]
        top, left = 256 * (row - down), 256 * (col - right)
        return images[level][top : top + 256, left : left + 256]

    plans = []
    for level in "32":
        last, (_, row, col) = len(images[level]) // 256 - 1, places[level]
        plans.append(LevelPlan(level, row, row + last, col, col + last))
    write_pyramid(
        tmp_path,
        "above",
        tile_matrix_set=web_mercator(),
        format=format,
        channels=1,
        nodata=[-99999],
        levels=plans,
        tile=values,
    )
    server = tiny_installation(tmp_path / "site")
    cog = {"path": str(tmp_path / "cog.tif"), "options": {"nodata": -99999}, "top_level": "4"}
    above = {"path": str(tmp_path / "above.json"), "bottom_level": "3", "top_level": "2"}
    add_layer(tmp_path / "site", "A", *((above, cog) if first == "slabs" else (cog, above)))
    client = client_of(server)
    tile_format = client.application.site.catalogue.layers["A"].pyramid.format
    for level, row, col in places.values():
        for accepted in ("deflate", "identity"):
            headers = {"Accept-Encoding": accepted}
            address = f"/tms/1.0.0/A/{level}/{col}/{row}.{tile_format.extension}"
            answer = client.get(address, headers=headers)
            assert answer.content_type == tile_format.media_type
            body = answer.data
            if answer.headers.get("Content-Encoding"):
                body = zlib.decompress(body)
            if tile_format.needs_tiff_header:
                found = tifffile.imread(io.BytesIO(body))
            else:
                found = np.frombuffer(body, "<f4").reshape(256, 256)
            np.testing.assert_array_equal(found, images[level][:256, :256, 0])


def faults_of(server: Path) -> list[Fault]:
    faults, plugins = Faults(), Plugins()
    config = load_server(str(server), plugins, faults)
    with suppress(ConfigurationError):
        load_catalogue(config, plugins, Environment(), faults).storages.close()
    return faults.all


def test_a_level_that_is_encoded_again_is_told(tmp_path: Path) -> None:
    data = cog_of(tmp_path, ground("uint8", 3, SIZE), COMPRESS="WEBP")
    site = tmp_path / "site"
    server = tiny_installation(site)
    above = write_slabs(tmp_path, "above", data, levels="32")
    add_layer(
        site,
        "HYBRID",
        {"path": str(above), "bottom_level": "3", "top_level": "2"},
        {"path": str(tmp_path / "cog.tif"), "top_level": "4"},
    )
    (fault,) = [one for one in faults_of(server) if one.file.endswith("HYBRID.json")]
    assert fault.path == "$.pyramids[1]"
    assert fault.reason == "its tiles, WEBP, are decoded and sent as TIFF_PNG_UINT8"
    assert fault.severity is Severity.WARNING


def test_overviews_of_a_hybrid_that_fit_no_matrix_are_left_out(tmp_path: Path) -> None:
    """Without the option `overviews`: the levels above are those of the other entry."""
    data = cog_of(tmp_path, ground("uint8", 3, SIZE), (5, 9), COMPRESS="DEFLATE")
    site = tmp_path / "site"
    server = tiny_installation(site)
    above = write_slabs(tmp_path, "above", data, levels="32")
    cog = {"path": str(tmp_path / "cog.tif")}
    add_layer(site, "HYBRID", {"path": str(above), "bottom_level": "3", "top_level": "2"}, cog)
    add_layer(site, "ALONE", cog)
    layers = client_of(server).application.site.catalogue.layers
    assert list(layers["HYBRID"].pyramid.levels) == ["2", "3", "4"]
    assert layers["HYBRID"].pyramid.tile_matrix_set.id == "PM"
    # A layer of its own still has the whole file.
    assert list(layers["ALONE"].pyramid.levels) == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("values", "nodata", "word"),
    [
        (ground("float32"), "-99999", "type"),
        (ground("uint8"), "", "channel count"),
        (ground("float32"), "-9999", "nodata"),
    ],
    ids=["values and pictures", "channels", "nodata"],
)
def test_entries_that_do_not_fit_are_refused(
    tmp_path: Path, values: Any, nodata: str, word: str
) -> None:
    site = tmp_path / "site"
    server = tiny_installation(site)
    tags = [(42113, "s", len(nodata), nodata)] if nodata else []
    (tmp_path / "other.tif").write_bytes(by_tifffile(values, tags=tags))
    name = "FLOAT32_RAW" if word == "nodata" else "RGB_PNG"
    entries = [
        {"path": f"{site}/pyramids/{name}.json", "bottom_level": "3", "top_level": "2"},
        {"path": str(tmp_path / "other.tif"), "options": {"crs": "EPSG:3857"}},
    ]
    add_layer(site, "MIXED", *entries)
    (fault,) = [one for one in faults_of(server) if one.path == "$.pyramids[1]"]
    assert f"its {word}" in fault.reason
    assert fault.remedy == "correct the pyramid or its levels"
