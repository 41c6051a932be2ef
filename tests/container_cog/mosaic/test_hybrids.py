"""Slabs above, made with ``mastaba build --top-only``, and a mosaic of COGs below."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.container_cog.files import ground
from tests.container_cog.mosaic.test_services import entry, quarters
from tests.container_cog.served import add_layer, client_of, place_of
from tests.container_cog.test_services import maps
from tests.sizes import sized
from tests.tiny import tiny_installation

from mastaba.commands.main import main
from mastaba_render.api.decoding import TileDecoder

SIDE = 1024


def built(folder: Path, name: str, *options: str) -> Path:
    """Build a pyramid of the COGs of a folder, and return its descriptor."""
    words = ["build", str(folder), "--output", str(folder.parent / "built"), "--name", name]
    assert main([*words, "--tms", "PM", "--top", "2", *options]) == 0
    return folder.parent / "built" / f"{name}.json"


def size(folder: Path) -> int:
    """Return the bytes of the files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def smooth(bands: int, *, is_colour: bool) -> Any:
    """Return a picture of which JPEG keeps all detail."""
    rows, columns = np.mgrid[:SIDE, :SIDE]
    waves = [
        128 + 50 * np.sin(rows / (60 + 20 * band)) + 40 * np.cos(columns / (75 + 30 * band))
        for band in (range(bands) if is_colour else [0] * bands)
    ]
    return np.stack(waves, axis=2).astype(np.uint8)


def pixels_of(catalogue: Any, layer: str, level: str) -> Any:
    """Return the decoded pixels of all tiles of an image of 1024 pixels at level 4."""
    reader, pyramid = catalogue.readers[layer][level], catalogue.layers[layer].pyramid
    decoder = reader.decoder or TileDecoder(pyramid.format, pyramid.raster.channels, 256, 256)
    count = SIDE // 256 >> 4 - int(level)
    rows = []
    for row in range(count):
        places = [place_of(level, row, col)[1:] for col in range(count)]
        tiles = [decoder.decode(reader.locate(*place).read()) for place in places]
        rows.append(np.concatenate(tiles, axis=1))
    return np.concatenate(rows).astype(float)


@pytest.mark.parametrize(
    ("compression", "dtype", "is_colour", "tolerance"),
    [
        # JPEG differs by 2, after rounding.
        ("JPEG", "uint8", False, 2.5),
        ("JPEG", "uint8", True, 2),
        pytest.param("DEFLATE", "uint8", True, 1, marks=pytest.mark.thorough),
        pytest.param("DEFLATE", "float32", False, 1e-3, marks=pytest.mark.thorough),
    ],
)
def test_there_is_no_seam(
    tmp_path: Path, compression: str, dtype: str, is_colour: bool, tolerance: float
) -> None:
    folder = tmp_path / "cogs"
    folder.mkdir()
    bands = 3 if dtype == "uint8" else 1
    options: dict[str, Any] = {"COMPRESS": compression, "OVERVIEWS": "NONE"}
    form = {"JPEG": "jpg90", "DEFLATE": "png"}[compression]
    if dtype == "float32":
        options["nodata"], form = -9999, "raw"
    else:
        options |= {"QUALITY": 100} if compression == "JPEG" else {}
    picture = ground(dtype, bands, (SIDE, SIDE))
    if compression == "JPEG":
        picture = smooth(bands, is_colour=is_colour)
    quarters(folder, picture, **options)
    (tmp_path / "table.json").write_text((folder / "table.json").read_text())
    (folder / "table.json").unlink()
    document = json.loads((tmp_path / "table.json").read_text())
    for feature in document["features"]:
        feature["properties"]["path"] = f"cogs/{feature['properties']['path']}"
    (tmp_path / "table.json").write_text(json.dumps(document))
    nodata = ["--pyramid-nodata=-9999"] if dtype == "float32" else []
    above = built(folder, "TOP", "--top-only", "--format", form, *nodata)
    levels = [level["id"] for level in json.loads(above.read_text())["levels"]]
    assert sorted(map(int, levels)) == [2, 3]
    full = built(folder, "FULL", "--format", form, *nodata)

    server = tiny_installation(tmp_path / "site")
    entries = [
        {"path": str(above), "bottom_level": "3", "top_level": "2"},
        {
            **entry(tmp_path / "table.json", tile_matrix_set="PM", levels=["4"]),
            "bottom_level": "4",
            "top_level": "4",
        },
    ]
    fields = {"resampling": "linear"}
    add_layer(tmp_path / "site", "HYBRID", *entries, **fields)
    whole = {"path": str(full), "bottom_level": "4", "top_level": "2"}
    add_layer(tmp_path / "site", "FULL", whole, **fields)
    client = client_of(server)
    catalogue = client.application.site.catalogue
    assert list(catalogue.layers["HYBRID"].pyramid.levels) == ["2", "3", "4"]
    fine = pixels_of(catalogue, "HYBRID", "4")
    means = fine.reshape(SIDE // 2, 2, SIDE // 2, 2, bands).mean(axis=(1, 3))
    difference = pixels_of(catalogue, "HYBRID", "3") - means
    # JPEG stores colours of 16 × 16 pixels together, and rounds them; there must be no shift.
    side = 8 if is_colour else 1
    blocks = difference.reshape(SIDE // 2 // side, side, -1, side, bands).mean(axis=(1, 3))
    assert np.abs(blocks).max() <= tolerance
    assert np.abs(difference.mean(axis=(0, 1))).max() <= 0.1
    if dtype == "uint8" and compression == "DEFLATE":
        for view in ("own", "degrees"):
            for ours, theirs in zip(
                maps(client, "HYBRID", view), maps(client, "FULL", view), strict=True
            ):
                assert np.abs(ours.astype(int) - theirs).max() <= 1


def test_features_and_services_have_no_level_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.geojson").write_text('{"type": "FeatureCollection", "features": []}')
    words = ["build", str(tmp_path / "a.geojson"), "--output", str(tmp_path), "--name", "A"]
    assert main([*words, "--top-only", "--format", "mvt"]) != 0
    assert "--top-only is for images" in capsys.readouterr().err


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("compression", "form"), [("JPEG", "jpg"), *sized((), [("DEFLATE", "png")])]
)
def test_slabs_above_take_less_than_a_third(tmp_path: Path, compression: str, form: str) -> None:
    """Rows and columns of 4096 pixels, as 16 files."""
    folder = tmp_path / "cogs"
    folder.mkdir()
    chance = np.random.default_rng(2)
    # The same amount of detail of all sizes, as in photographs.
    values = np.full((4096, 4096, 3), 128, np.float32)
    for step in (2**power for power in range(11)):
        coarse = chance.normal(0, 8, (4096 // step, 4096 // step, 3))
        values += coarse.repeat(step, axis=0).repeat(step, axis=1)
    values = np.clip(values, 0, 255).astype(np.uint8)
    for number in range(4):
        part = tmp_path / f"part{number}"
        part.mkdir()
        down, right = divmod(number, 2)
        window = values[down * 2048 :, right * 2048 :][:2048, :2048]
        quarters(part, window, 6, 16 + 8 * down, 32 + 8 * right, COMPRESS=compression)
        (part / "table.json").unlink()
        for file in part.iterdir():
            file.rename(folder / f"{number}-{file.name}")
    assert len(list(folder.iterdir())) == 16
    above = built(folder, "TOP", "--top-only", "--format", form)
    full = built(folder, "FULL", "--format", form)
    share = size(above.parent / "TOP") / size(full.parent / "FULL")
    print(f"{compression}: slabs above take {100 * share:.1f} % of a whole pyramid")
    assert share <= 0.30
