"""The command as users run it, and the estimates that it shows."""

from __future__ import annotations

import argparse
import json
import random
import shlex
from pathlib import Path
from typing import Any

import pytest
from tests.export.ground import LEVELS, opened, planned, write_world
from tests.forked import run as mastaba
from tests.sizes import sized

from mastaba.api.services import Site
from mastaba.api.storages import StoragePool
from mastaba.errors import StorageUnavailableError
from mastaba_export import sizes
from mastaba_export.errors import EmptyExportError, InvalidRequestError
from mastaba_export.options import add_options, command_of, given_inputs
from mastaba_export.request import format_of
from mastaba_export.run import run


def test_export_estimate_and_verification(world: Path, tmp_path: Path) -> None:
    words = ["export", "-f", str(world), "IMAGES", str(tmp_path / "a.pmtiles"), "--zoom", "5-7"]
    ended = mastaba(*words, "--dry-run", "--json")
    assert ended.returncode == 0, ended.stderr
    estimate = json.loads(ended.stdout)
    assert set(estimate["levels"]) == {"5", "6", "7"}
    assert list(tmp_path.iterdir()) == []
    ended = mastaba(*words, "--json", "--bbox=-180,-90,180,90")
    assert ended.returncode == 0, ended.stderr
    result = json.loads(ended.stdout)
    assert result["tiles"] == estimate["tiles"]
    assert result["payload_bytes"] == estimate["payload_bytes"]
    ended = mastaba(*words, "--verify", "--deep")
    assert ended.returncode == 0, ended.stderr
    ended = mastaba(*words)
    assert ended.returncode == 1
    assert "exists" in ended.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["IMAGES", "a.zip"], "--format"),
        (["NOTHING", "a.pmtiles"], "no layer"),
        (["IMAGES", "a.pmtiles", "--bbox", "1,2,3"], "bbox"),
        (["IMAGES", "a.pmtiles", "--bbox", "1,2,3,nan"], "XMIN,YMIN,XMAX,YMAX"),
        (["IMAGES", "a.pmtiles", "--area", "none.geojson"], "none.geojson"),
        (["IMAGES", "a.pmtiles", "--zoom", "x"], "A-B"),
        (["IMAGES", "a.pmtiles", "--rate", "0"], "MB/s"),
        (["IMAGES", "a.pmtiles", "--deep"], "--verify"),
        (["none.json", "a.pmtiles"], "none.json"),
    ],
)
def test_wrong_usage(world: Path, words: list[str], said: str) -> None:
    ended = mastaba("export", "-f", str(world), *words)
    assert ended.returncode == 2
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("inputs", "out"),
    [
        ({"format": "cog", "bbox": [-1.5, 40, 2, 43.25], "crs": "EPSG:4326"}, "a.tif"),
        ({"format": "tif", "levels": ["a b", "2"], "fit": "exact"}, "a.tif"),
        ({"format": "pmtiles", "area": {"type": "Polygon"}, "zoom": [2, 9]}, "a.pmtiles"),
        ({"format": "gpkg", "style": "it's", "clip": True, "tile_format": "png"}, "a.gpkg"),
    ],
)
def test_the_command_of_inputs_means_the_same(
    inputs: dict[str, Any], out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "area.geojson").write_text(json.dumps(inputs.get("area")))
    command = command_of({"layer": "L $(x)", **inputs}, out)
    start, options = shlex.split(command)[:6], shlex.split(command)[6:]
    assert start == ["mastaba", "export", "L $(x)", out, "-f", "server.json"]
    parser = argparse.ArgumentParser()
    add_options(parser)
    parsed = given_inputs(parser.parse_args(options))
    assert {"format": format_of(out), **parsed} == inputs


def test_a_descriptor_and_an_area_in_a_file(world: Path, tmp_path: Path) -> None:
    area = {"type": "Polygon", "coordinates": [[[-30, 60], [30, 60], [0, 10]]]}
    (tmp_path / "area.geojson").write_text(json.dumps(area))
    (tmp_path / "out").mkdir()
    words = ["export", str(world.parent / "pyramids/HEIGHTS.json"), str(tmp_path / "out/h.gpkg")]
    ended = mastaba(*words)
    assert ended.returncode == 2
    assert "--tms-directory" in ended.stderr
    ended = mastaba(*words, "--tms-directory", str(world.parent / "tilematrixsets"))
    assert ended.returncode == 0, ended.stderr
    images = str(world.parent / "pyramids/IMAGES.json")
    ended = mastaba(
        "export", images, str(tmp_path / "out/small.json"), "--area", str(tmp_path / "area.geojson")
    )
    assert ended.returncode == 0, ended.stderr
    # The smaller pyramid is a layer like any other.
    ended = mastaba("export", str(tmp_path / "out/small.json"), str(tmp_path / "out/x.mbtiles"))
    assert ended.returncode == 0, ended.stderr


def random_inputs(chance: random.Random) -> dict[str, Any]:
    west, south = chance.uniform(-45, 50), chance.uniform(-5, 62)
    width, height = chance.uniform(1, 60), chance.uniform(1, 40)
    if chance.random() < 0.5:
        return {"bbox": [west, south, west + width, south + height]}
    points = [
        [west + chance.uniform(0, width), south + chance.uniform(0, height)] for _ in range(6)
    ]
    return {"area": {"type": "Polygon", "coordinates": [points]}}


@pytest.mark.thorough
@pytest.mark.parametrize("format", ["pmtiles", "mbtiles", "gpkg", "dir", "pyramid"])
def test_estimates_are_exact_for_copies(site: Site, tmp_path: Path, format: str) -> None:
    """The bytes of all payloads are exact; those of the file are within 2 % and 64 KiB."""
    chance = random.Random(3)
    done = 0
    while done < 30:
        inputs = random_inputs(chance)
        if chance.random() < 0.3:
            inputs["levels"] = [chance.choice(LEVELS).id]
        try:
            made = planned(site, "IMAGES", format, **inputs)
            path = tmp_path / f"a{done}{made.extension}"
            estimate = made.estimate()
            result = run(made, path)
        except (EmptyExportError, InvalidRequestError):
            continue
        done += 1
        assert estimate["is_exact"]
        assert estimate["interval"] == [estimate["bytes"]] * 2
        assert (result.tiles, result.payload_bytes) == (
            estimate["tiles"],
            estimate["payload_bytes"],
        )
        if format != "pmtiles" and format != "mbtiles":  # equal tiles are written once there
            assert abs(result.bytes - estimate["bytes"]) <= 0.02 * result.bytes + 131072
    assert done == 30


SAMPLED_AREAS = sized(12, 30)


def made_estimate(
    site: Site, layer: str, format: str, folder: Path, chance: random.Random, **inputs: Any
) -> tuple[dict[str, Any], int]:
    """Return the estimate for a random area, and the bytes that it really has."""
    while True:
        if layer == "HEIGHTS":
            x, y = chance.uniform(600_200, 601_500), chance.uniform(6_797_300, 6_799_000)
            side = chance.uniform(300, 1500)
            area = {"bbox": [x, y, x + side, y + side], "crs": "EPSG:2154"}
        else:
            area = random_inputs(chance)
        try:
            made = planned(site, layer, format, **area, **inputs)
            path = folder / f"a{chance.random()}{made.extension}"
            estimate = made.estimate()
            result = run(made, path)
        except (EmptyExportError, InvalidRequestError):
            continue
        if result.tiles >= 40:
            return estimate, result.bytes


@pytest.mark.thorough
@pytest.mark.parametrize("compression", ["deflate", "lzw"])
def test_estimates_of_compressed_files(site: Site, tmp_path: Path, compression: str) -> None:
    """They are within 10 %, and in 95 % of all areas within their interval."""
    chance, inside = random.Random(4), 0
    for _ in range(SAMPLED_AREAS):
        estimate, size = made_estimate(
            site, "HEIGHTS", "cog", tmp_path, chance, compression=compression
        )
        assert not estimate["is_exact"]
        assert abs(estimate["bytes"] - size) <= 0.1 * size
        low, high = estimate["interval"]
        inside += low <= size <= high
    assert inside >= 0.95 * SAMPLED_AREAS - 1


@pytest.mark.thorough
def test_estimates_from_some_slabs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many slabs, some are looked at: the interval contains what is written."""
    monkeypatch.setattr(sizes, "MOST_INDICES", 40)
    site = opened(write_world(tmp_path / "world", slab=4))
    chance, inside = random.Random(5), 0
    for _ in range(SAMPLED_AREAS):
        while True:
            estimate, size = made_estimate(site, "IMAGES", "dir", tmp_path, chance)
            if not estimate["is_exact"]:
                break
        low, high = estimate["interval"]
        assert low < high
        inside += low <= size <= high
    site.catalogue.storages.close()
    assert inside >= 0.95 * SAMPLED_AREAS - 1


def test_a_storage_that_does_not_answer_is_not_wrong_usage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same command may succeed later, also if it is the descriptor that cannot be read."""

    def silent(*_: object) -> Any:
        raise StorageUnavailableError("the response is 503")

    monkeypatch.setattr(StoragePool, "read_full", silent)
    ended = mastaba("export", str(tmp_path / "map.json"), str(tmp_path / "a.pmtiles"))
    assert ended.returncode == 3
    assert ended.stderr == "mastaba: the response is 503; try again\n"
