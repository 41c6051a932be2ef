import io
import json
import struct
import zlib
from pathlib import Path
from typing import Any

import mapbox_vector_tile  # type: ignore[import-untyped]
import numpy as np
import pytest
from PIL import Image

from mastaba_conformance.tiny_installation import TINY_LEVELS, tiny_installation
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.slab_names import slab_path
from mastaba_writer.tile_matrix_sets import synthetic


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_installation(tmp_path_factory.mktemp("tiny"), services=["tms"])


def read(path: Path | str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
    return document


def stored_tile(server: Path, layer: str, level: str, row: int, col: int) -> bytes:
    path = server.parent / f"pyramids/{layer}/DATA/{level}" / slab_path(col // 2, row // 2)
    slab, number = path.read_bytes(), row % 2 * 2 + col % 2
    (offset,) = struct.unpack_from("<I", slab, 2048 + 4 * number)
    (size,) = struct.unpack_from("<I", slab, 2064 + 4 * number)
    return slab[offset : offset + size]


def test_every_path_is_absolute_and_exists(tiny: Path) -> None:
    configurations = read(tiny)["configurations"]
    layers = Path(configurations["layers"]).read_text().splitlines()
    pyramids = [pyramid["path"] for layer in layers for pyramid in read(layer)["pyramids"]]
    assert len(layers) == len(pyramids) == 9
    for path in [*configurations.values(), *layers, *pyramids]:
        assert Path(path).is_absolute()
        assert Path(path).exists()
    for pyramid in pyramids:
        for level in read(pyramid)["levels"]:
            assert (Path(pyramid).parent / level["storage"]["image_directory"]).is_dir()
    for style in ("normal", "ember"):
        assert read(f"{configurations['styles']}/{style}.json")["identifier"] == style


def test_tiny_layers_publish_all_levels(tiny: Path) -> None:
    layer = read(tiny.parent / "layers/GREY_PNG.json")
    assert layer["styles"] == ["normal", "ember"]
    assert (layer["pyramids"][0]["top_level"], layer["pyramids"][0]["bottom_level"]) == ("2", "4")
    levels = read(layer["pyramids"][0]["path"])["levels"]
    assert [level["id"] for level in levels] == [plan.id for plan in TINY_LEVELS]


def test_tiny_pixels_follow_their_documented_rule(tiny: Path) -> None:
    level, row, col = "4", 6, 9
    i, j = 9 * 256 + 201, 6 * 256 + 70
    red, green, blue, alpha = (
        i // 4 % 256,
        j // 4 % 256,
        64,
        128 if (i // 32 + j // 32) % 2 else 255,
    )

    def pixel(layer: str) -> object:
        tile = stored_tile(tiny, layer, level, row, col)
        return Image.open(io.BytesIO(tile)).getpixel((201, 70))

    assert pixel("RGB_PNG") == (red, green, blue)
    assert pixel("RGBA_PNG") == (red, green, blue, alpha)
    assert pixel("GREY_PNG") == red
    assert pixel("RGB_JPG") == pytest.approx((red, green, blue), abs=8)

    def samples(data: bytes, dtype: str, channels: int) -> list[float]:
        values: list[float] = (
            np.frombuffer(data, dtype).reshape(256, 256, channels)[70, 201].tolist()
        )
        return values

    assert samples(stored_tile(tiny, "RGB_RAW", level, row, col), "u1", 3) == [red, green, blue]
    grey = zlib.decompress(stored_tile(tiny, "GREYA_ZIP", level, row, col))
    assert samples(grey, "u1", 2) == [red, alpha]
    raw = stored_tile(tiny, "FLOAT32_RAW", level, row, col)
    assert samples(raw, "<f4", 1) == [4000 + i / 2 + j / 4]
    assert zlib.decompress(stored_tile(tiny, "FLOAT32_ZIP", level, row, col)) == raw
    vector = mapbox_vector_tile.decode(stored_tile(tiny, "VECTOR", level, row, col))
    assert vector["tiles"]["features"][0]["properties"] == {"row": 6, "col": 9}
    assert vector["centres"]["features"][0]["properties"] == {"name": "4/6/9"}


def test_only_the_requested_services_are_configured(tiny: Path) -> None:
    services = read(tiny.parent / "services.json")
    assert set(services) == {"enabled", "global", "tms"}
    assert services["tms"]["endpoint_uri"] == "http://localhost/tms"


def test_overrides_are_merged(tmp_path: Path) -> None:
    server = write_installation(
        tmp_path,
        layers={"L": {"title": "As given"}},
        tile_matrix_sets={"S": {"crs": "EPSG:2154"}},
        styles={"s": {"identifier": "s"}},
        public_url="https://maps.example.org",
        services_overrides={"global": {"fee": "much"}, "wms": {"name": "N"}},
        server_overrides={"threads": 3, "logger": {"level": "debug"}},
    )
    services = read(tmp_path / "services.json")
    assert services["global"]["fee"] == "much"
    assert services["global"]["provider"]
    assert services["wms"]["name"] == "N"
    assert services["wms"]["endpoint_uri"] == "https://maps.example.org/wms"
    assert read(server)["logger"] == {"output": "standard_output", "level": "debug"}
    assert read(server)["threads"] == 3
    assert read(tmp_path / "layers/L.json") == {"title": "As given"}
    assert read(tmp_path / "styles/s.json") == {"identifier": "s"}
    assert read(tmp_path / "tilematrixsets/S.json") == {"crs": "EPSG:2154"}


def test_top_and_bottom_levels_are_determined_by_cell_size(tmp_path: Path) -> None:
    matrices = synthetic("S", crs="EPSG:2154", origin=(0, 0), cell_sizes=[1] * 11)
    for matrix in matrices["tileMatrices"]:
        matrix["cellSize"] = 1 / (1 + int(matrix["id"]))
    descriptor = write_pyramid(
        tmp_path,
        "P",
        tile_matrix_set=matrices,
        format="TIFF_PBF_MVT",
        levels=[LevelPlan(level, 0, 0, 0, 0) for level in ("10", "9")],
        tile=lambda level, row, col: b"tile",
    )
    layer = layer_document(descriptor, tile_matrix_sets={"S": matrices}, abstract="A")
    assert layer["title"] == "P"
    assert layer["abstract"] == "A"
    assert layer["pyramids"][0]["top_level"] == "9"
    assert layer["pyramids"][0]["bottom_level"] == "10"
    with pytest.raises(ValueError, match="'S'"):
        layer_document(descriptor)
    with pytest.raises(ValueError, match="'10'"):
        layer_document(descriptor, tile_matrix_sets={"S": {"tileMatrices": []}})
