import io
import json
import struct
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import mapbox_vector_tile  # type: ignore[import-untyped]
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from mastaba_demo.generation import generate
from mastaba_demo.render import FORMATS
from mastaba_demo.settings import Settings
from mastaba_writer.slab_names import slab_path


def ignore(done: int, total: int) -> None:
    pass


@pytest.fixture(scope="module")
def pyramids(tmp_path_factory: pytest.TempPathFactory, settings: Settings) -> Path:
    directory = tmp_path_factory.mktemp("demo") / "pyramids"
    steps: list[tuple[int, int]] = []
    assert generate(directory, settings, lambda *step: steps.append(step), processes=1)
    assert steps == [(done, 4) for done in range(1, 5)]
    return directory


def descriptor(pyramids: Path, layer: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((pyramids / f"{layer}.json").read_text())
    return document


def stored_tile(pyramids: Path, layer: str, level: str, row: int, col: int) -> bytes:
    slab = (pyramids / layer / "DATA" / level / slab_path(col // 2, row // 2)).read_bytes()
    number = row % 2 * 2 + col % 2
    (offset,) = struct.unpack_from("<I", slab, 2048 + 4 * number)
    (size,) = struct.unpack_from("<I", slab, 2064 + 4 * number)
    return slab[offset : offset + size]


def level_tiles(pyramids: Path, layer: str, level: str) -> Iterator[tuple[int, int, bytes]]:
    levels = descriptor(pyramids, layer)["levels"]
    (limits,) = (entry["tile_limits"] for entry in levels if entry["id"] == level)
    for row in range(limits["min_row"], limits["max_row"] + 1):
        for col in range(limits["min_col"], limits["max_col"] + 1):
            yield row, col, stored_tile(pyramids, layer, level, row, col)


def decoded(layer: str, data: bytes) -> NDArray[Any]:
    if FORMATS[layer] == "TIFF_ZIP_FLOAT32":
        return np.frombuffer(zlib.decompress(data), "<f4").reshape(256, 256, 1)
    return np.asarray(Image.open(io.BytesIO(data))).reshape(256, 256, -1)


@pytest.mark.parametrize("layer", FORMATS)
def test_descriptors_match_the_stored_levels(
    pyramids: Path, settings: Settings, layer: str
) -> None:
    document = descriptor(pyramids, layer)
    assert document["tile_matrix_set"] == "PM"
    assert document["format"] == FORMATS[layer]
    assert [level["id"] for level in document["levels"]] == [str(n) for n in settings.levels]
    for level in document["levels"]:
        assert (pyramids / level["storage"]["image_directory"]).is_dir()
        limits = level["tile_limits"]
        assert 0 <= limits["min_row"] <= limits["max_row"] < 2 ** int(level["id"])
        assert 0 <= limits["min_col"] <= limits["max_col"] < 2 ** int(level["id"])


@pytest.mark.sampled(one_in=6)
@pytest.mark.parametrize("layer", [layer for layer in FORMATS if layer != "features"])
@pytest.mark.parametrize("level", ["1", "10", "12"])
def test_rasters_have_no_seams(pyramids: Path, layer: str, level: str) -> None:
    tiles = {
        (row, col): decoded(layer, data).astype(float)
        for row, col, data in level_tiles(pyramids, layer, level)
    }
    assert len(tiles) == 4
    rows = sorted({row for row, _ in tiles})
    columns = sorted({col for _, col in tiles})
    image = np.concatenate(
        [np.concatenate([tiles[row, col] for col in columns], axis=1) for row in rows]
    )
    assert image.std() > 3  # not uniform
    for axis in (0, 1):
        steps = np.abs(np.diff(image, axis=axis)).mean(axis=(1 - axis, 2))
        assert steps[255] <= 1.6 * np.median(steps[225:286]) + 1


@pytest.mark.parametrize("level", ["1", "10", "12"])
def test_elevation_agrees_with_the_coast_on_the_map(pyramids: Path, level: str) -> None:
    for row, col, data in level_tiles(pyramids, "elevation", level):
        height = decoded("elevation", data)[..., 0]
        map_tile = decoded("topographic", stored_tile(pyramids, "topographic", level, row, col))
        is_blue = map_tile[..., 2].astype(int) > map_tile[..., 0].astype(int) + 8
        assert (is_blue[height < -60]).mean() > 0.99 if (height < -60).any() else True


def test_vector_tiles_have_the_described_tables(pyramids: Path) -> None:
    seen: dict[str, set[str]] = {}
    for level in descriptor(pyramids, "features")["levels"]:
        described = {table["name"]: table for table in level["tables"]}
        for _, _, data in level_tiles(pyramids, "features", level["id"]):
            tables = mapbox_vector_tile.decode(data) if data else {}
            assert set(tables) <= set(described)
            for name, table in tables.items():
                seen.setdefault(name, set()).add(level["id"])
                known = {
                    attribute["name"]: attribute for attribute in described[name]["attributes"]
                }
                for feature in table["features"]:
                    kind = feature["geometry"]["type"].upper().removeprefix("MULTI")
                    assert kind == described[name]["geometry"]
                    assert set(feature["properties"]) == set(known)
                    for key, value in feature["properties"].items():
                        if "min" in known[key]:
                            assert known[key]["min"] <= value <= known[key]["max"]
    assert set(seen) == {"coastline", "contours", "rivers", "peaks", "towns"}
    assert seen["coastline"] >= {"0", "1", "10"}
    assert seen["rivers"] == {"10", "12"}


def test_places_are_in_the_world_with_rivers(pyramids: Path, settings: Settings) -> None:
    window = settings.drainage_window()
    places = json.loads((pyramids / "places.json").read_text())
    assert places
    for place in places:
        x = (place["longitude"] + 180) / 360 * window.world
        y = (0.5 - np.arcsinh(np.tan(np.radians(place["latitude"]))) / (2 * np.pi)) * window.world
        assert window.left <= x <= window.left + window.size
        assert window.top <= y <= window.top + window.size


def test_lines_meet_at_the_edges_of_tiles(pyramids: Path) -> None:
    ends: dict[int, set[int]] = {}
    for _, col, data in level_tiles(pyramids, "features", "10"):
        tables = mapbox_vector_tile.decode(data, default_options={"y_coord_down": True})
        for feature in tables.get("contours", {"features": []})["features"]:
            geometry = feature["geometry"]
            lines = geometry["coordinates"]
            lines = [lines] if geometry["type"] == "LineString" else lines
            for line in lines:
                xs = [x for x, _ in line]
                # Lines continue past the edge, into the buffer.
                ends.setdefault(col, set()).update((min(xs), max(xs)))
    first, second = sorted(ends)
    assert max(ends[first]) > 4096
    assert min(ends[second]) < 0


def files(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


@pytest.mark.thorough
def test_several_processes_write_the_same_files(
    pyramids: Path, settings: Settings, tmp_path: Path
) -> None:
    assert generate(tmp_path / "again", settings, ignore, processes=2)
    assert files(tmp_path / "again") == files(pyramids)
    assert [path.name for path in tmp_path.iterdir()] == ["again"]


def test_existing_pyramids_are_not_generated_again(pyramids: Path, settings: Settings) -> None:
    def fail(done: int, total: int) -> None:
        raise AssertionError

    assert not generate(pyramids, settings, fail, processes=1)


def test_other_settings_replace_the_pyramids(settings: Settings, tmp_path: Path) -> None:
    directory = tmp_path / "pyramids"
    small = replace(settings, levels=(0,), drainage_size=64)
    assert generate(directory, small, ignore, processes=1)
    (directory / "left").touch()
    assert generate(directory, replace(small, seed=3), ignore, processes=1)
    assert not (directory / "left").exists()
    (directory / "stamp.json").write_text("{")
    assert generate(directory, small, ignore, processes=1)


@pytest.mark.thorough
def test_an_interrupted_run_leaves_no_files(settings: Settings, tmp_path: Path) -> None:
    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        generate(tmp_path / "pyramids", settings, interrupt, processes=1)
    assert list(tmp_path.iterdir()) == []
