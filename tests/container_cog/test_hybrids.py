"""Layers of slabs above, and a COG below."""

from __future__ import annotations

import io
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.container_cog.files import by_tifffile, ground
from tests.container_cog.served import (
    SIDE,
    add_layer,
    addresses,
    client_of,
    cog_of,
    place_of,
    write_slabs,
)
from tests.tiny import tiny_installation

from mastaba.config.load import load_catalogue
from mastaba.config.server import load_server
from mastaba.errors import ConfigurationError
from mastaba.plugins.manager import Plugins
from mastaba_documents.faults import Faults
from mastaba_storage.environment import Environment

SIZE = (256 * SIDE, 256 * SIDE)
FORMATS = {"DEFLATE": ("image/png", "png"), "JPEG": ("image/jpeg", "jpg")}


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


@pytest.mark.parametrize(
    ("values", "nodata", "word"),
    [
        (ground("float32"), "-99999", "media type"),
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
    faults = Faults()
    plugins = Plugins()
    config = load_server(str(server), plugins, faults)
    with suppress(ConfigurationError):
        load_catalogue(config, plugins, Environment(), faults).storages.close()
    (fault,) = [one for one in faults.all if one.path == "$.pyramids[1]"]
    assert f"its {word}" in fault.reason
    assert fault.remedy == "correct the pyramid or its levels"
