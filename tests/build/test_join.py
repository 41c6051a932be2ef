"""Pyramids are joined by links, and the head of a pyramid is computed from stored slabs."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
from collections.abc import Callable
from contextlib import closing
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from PIL import Image
from tests.build.conftest import Build, built, plan_in
from tests.build.ground import grid, noise, read_payloads, read_tiles, write_raster
from tests.build.test_pixels import aligned, cell
from tests.build.test_served import TILE
from tests.fork_server import ForkServer
from werkzeug.test import Client

from mastaba.api.catalogue import digest_of
from mastaba.wsgi import create_application
from mastaba_build.config.configuration import configuration_of
from mastaba_build.errors import BuildError, PlanError
from mastaba_build.output.destination import Destination
from mastaba_build.output.storage import OutputStore
from mastaba_build.plan.plan import Plan
from mastaba_build.pyramid.history import log
from mastaba_build.pyramid.verification import verify
from mastaba_build.work.build import build
from mastaba_build.work.derived import head, join
from mastaba_build.work.reports import Reports
from mastaba_writer.installation import installed_services, write_installation

LEVEL, ROW, COLUMN = 12, 1400, 2100
OPTIONS: dict[str, Any] = {
    "slab": [2, 2],
    "bottom": str(LEVEL),
    "top": "10",
    "format": "png",
    "channels": 3,
    "nodata": [0, 0, 0],
}
LINKED = 4
"""Slabs that one of the pair has: two of level 12, one each of the levels above."""
Slab = tuple[str, int, int]
PlanOf = Callable[..., Plan]


def sheet(path: Path, column: int, seed: int, bands: int = 3) -> Path:
    """Write 4 x 2 tiles, from a tile column. Their values are 1 at least, so none is nodata."""
    pixels = np.maximum(noise(bands, 512, 1024, seed), 1)
    return write_raster(path, pixels, grid(*aligned(LEVEL, ROW, column), cell(LEVEL)), "EPSG:3857")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the one folder of all tests: pyramids contain the paths of their slabs."""
    return tmp_path_factory.mktemp("place")


def emptied(folder: Path) -> Path:
    shutil.rmtree(folder)
    folder.mkdir()
    return folder


@pytest.fixture
def tmp_path(place: Path) -> Path:
    """Return an empty folder."""
    return emptied(place)


@pytest.fixture(scope="module")
def saved_pair(place: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the folder with the sources and pyramids of `pair`."""
    emptied(place)
    built(plan_in(place, sheet(place / "a.tif", COLUMN, 1), name="a", **OPTIONS))
    path = sheet(place / "b.tif", COLUMN + 2, 2)
    with rasterio.open(path, "r+") as dataset:
        pixels = dataset.read()
        pixels[:, :256, :512] = 0
        pixels[:, 10, 10] = 77
        dataset.write(pixels)
        dataset.nodata = 0
    built(plan_in(place, path, name="b", **OPTIONS))
    return Path(shutil.copytree(place, tmp_path_factory.mktemp("saved") / "pair", symlinks=True))


@pytest.fixture
def pair(saved_pair: Path, tmp_path: Path) -> tuple[Path, Path]:
    """Return the descriptors of two pyramids with one slab of level 12 in common.

    The upper half of this slab has no data in the second one, except one pixel.
    """
    shutil.copytree(saved_pair, tmp_path, symlinks=True, dirs_exist_ok=True)
    return tmp_path / "out/a.json", tmp_path / "out/b.json"


def configured(output: Path | str, name: str, **options: Any) -> Any:
    values = {"name": name, "output": str(output), "sources": ["-"], "workers": 1, **options}
    return configuration_of(values, "test")


def joined(output: Path, *sources: Path, name: str = "whole", **options: Any) -> Path:
    configuration = configured(output, name, **options)
    errors = StringIO()
    with closing(configuration.output.open()) as place:
        reports = Reports(StringIO(), errors)
        done = join(configuration, place, reports, list(map(str, sources)))
    assert done, errors.getvalue()
    return output / f"{name}.json"


def headed(output: Path, name: str, base: str, *options: str | None, inject: bool = False) -> str:
    configuration = configured(output, name)
    out, errors = StringIO(), StringIO()
    with closing(configuration.output.open()) as place:
        reports = Reports(out, errors)
        done = head(configuration, place, reports, base, *options, inject=inject)
        assert done, errors.getvalue()
    assert "mastaba" not in errors.getvalue()
    return out.getvalue()


def slabs(descriptor: Path) -> dict[str, Path]:
    folder = descriptor.with_suffix("")
    return {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*.tif"))}


def md5s(descriptor: Path) -> dict[Slab, str]:
    record = json.loads(descriptor.with_suffix(".build.json").read_text())
    return {tuple(slab[:3]): slab[4] for slab in record["slabs"] if slab[4]}  # type: ignore[misc]


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_source_named_like_a_version_of_another_pyramid_is_pinned_itself(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    for end in ("json", "build.json", "list"):
        shutil.copy(out / f"b.{end}", out / f"a_1950.{end}")
    joined(tmp_path / "new", pair[0], out / "a_1950.json")
    pins = {one.name: json.loads(one.read_text()) for one in out.glob("*.pins.json")}
    generation = digest_of(json.loads(pair[1].read_text()))
    assert pins.keys() == {"a.pins.json", "a_1950.pins.json"}
    assert [pin["generation"] for pin in pins["a_1950.pins.json"]] == [generation]


def test_slabs_of_one_source_are_linked_and_others_are_composed(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    before = files(tmp_path / "out")
    whole = joined(tmp_path / "new/deep", *pair)
    after = files(tmp_path / "out")
    pins = [after.pop(str(one.with_suffix(".pins.json"))) for one in pair]
    assert after == before
    assert all(str(whole).encode() in text for text in pins)
    own, (first, second) = slabs(whole), map(slabs, pair)
    assert own.keys() == first.keys() | second.keys()
    for key, path in own.items():
        if key in first and key in second:
            assert not path.is_symlink()
        else:
            assert not os.path.isabs(path.readlink())
            assert path.resolve() == (first.get(key) or second[key]).resolve()
    assert sum(path.is_symlink() for path in own.values()) == LINKED

    tiles, lower, upper = map(read_tiles, (whole, *pair))
    assert tiles.keys() == lower.keys() | upper.keys()
    for key, pixels in tiles.items():
        if key not in upper:
            assert np.array_equal(pixels, lower[key])
        elif key not in lower:
            assert np.array_equal(pixels, upper[key])
        else:
            has_data = (upper[key] != 0).any(axis=2, keepdims=True)
            assert np.array_equal(pixels, np.where(has_data, upper[key], lower[key]))
    common = tiles["12", ROW, COLUMN + 2]
    assert (common[10, 10] == 77).all()
    assert np.array_equal(common[11:], lower["12", ROW, COLUMN + 2][11:])
    assert verify(Destination.parse(str(whole.parent)), "whole", full=True) == len(own)


def test_documents_are_those_of_a_build(pair: tuple[Path, Path], tmp_path: Path) -> None:
    whole = joined(tmp_path / "new", *pair, title="Whole town")
    document, lower, upper = (json.loads(path.read_text()) for path in (whole, *pair))
    assert [level["id"] for level in document["levels"]] == ["10", "11", "12"]
    for level, one, two in zip(document["levels"], lower["levels"], upper["levels"], strict=True):
        limits, *both = (entry["tile_limits"] for entry in (level, one, two))
        for key, choose in {"min_row": min, "max_row": max, "min_col": min, "max_col": max}.items():
            assert limits[key] == choose(entry[key] for entry in both)
    for key in ("tile_matrix_set", "format", "raster_specifications"):
        assert document[key] == lower[key]
    lines = whole.with_suffix(".list").read_text().splitlines()
    roots = [str(tmp_path / "new/whole"), str(tmp_path / "out/a"), str(tmp_path / "out/b")]
    assert lines[:3] == [f"{number}={root}" for number, root in enumerate(roots)]
    for line in lines[4:]:
        number, _, key = line.partition("/")
        path = Path(roots[int(number)], key)
        assert path.is_file()
        assert not path.is_symlink()
    layer = json.loads((tmp_path / "new/whole.layer.json").read_text())
    assert layer["title"] == "Whole town"
    assert layer["pyramids"][0]["path"] == str(whole)
    sums = md5s(whole)
    for path in slabs(whole).values():
        assert hashlib.md5(path.read_bytes()).hexdigest() in sums.values()


def test_a_later_source_is_above_an_earlier_one(pair: tuple[Path, Path], tmp_path: Path) -> None:
    tiles = read_tiles(joined(tmp_path / "new", *reversed(pair)))
    lower = read_tiles(pair[0])
    key = "12", ROW + 1, COLUMN + 2
    assert np.array_equal(tiles[key], lower[key])


def test_links_lead_to_real_slabs(pair: tuple[Path, Path], tmp_path: Path, plan_of: PlanOf) -> None:
    """A source that consists of links, seen through a symbolic link, and an output behind one."""
    sheet(tmp_path / "a.tif", COLUMN, 3)
    plan = plan_of(tmp_path / "a.tif", name="a", **OPTIONS)
    assert build(plan, Reports(StringIO(), StringIO()), update="new")
    once = joined(tmp_path / "once", *pair)
    (tmp_path / "far/away").mkdir(parents=True)
    (tmp_path / "near").symlink_to(tmp_path / "far/away")
    (tmp_path / "seen").symlink_to(once.parent)
    twice = joined(tmp_path / "near", tmp_path / "seen/whole.json", name="twice")
    for path in slabs(twice).values():
        assert path.is_symlink()
        assert not Path(path.parent.resolve(), path.readlink()).is_symlink()
    assert read_payloads(twice) == read_payloads(once)
    assert verify(Destination.parse(str(tmp_path / "near")), "twice", full=True)


@pytest.mark.thorough
def test_alpha_is_blended_and_levels_may_be_missing(tmp_path: Path, build_of: Build) -> None:
    options = {**OPTIONS, "channels": 4, "nodata": [0, 0, 0, 0], "top": "12"}
    sources = []
    for name, colour, alpha in (("low", 200, 255), ("high", 100, 128)):
        pixels = np.full((4, 512, 512), colour, np.uint8)
        pixels[3] = alpha
        path = write_raster(
            tmp_path / f"{name}.tif",
            pixels,
            grid(*aligned(LEVEL, ROW, COLUMN), cell(LEVEL)),
            "EPSG:3857",
            photometric="RGB",
            alpha="YES",
        )
        top = "12" if name == "low" else "11"
        sources.append(build_of(path, name=name, **{**options, "top": top}))
    whole = joined(tmp_path / "out", *sources)
    tiles = read_tiles(whole)
    # 128 / 255 of 100, and the rest of 200.
    assert np.abs(tiles["12", ROW, COLUMN].astype(int) - [150, 150, 150, 255]).max() <= 1
    assert {key[0] for key in tiles} == {"11", "12"}
    above = [path for key, path in slabs(whole).items() if key.startswith("DATA/11/")]
    assert all(path.is_symlink() for path in above)


@pytest.mark.parametrize("both", [True, False], ids=["both", "one"])
def test_masks_say_which_pixels_have_data(tmp_path: Path, build_of: Build, both: bool) -> None:
    low = np.full((3, 512, 512), 9, np.uint8)
    high = np.zeros((3, 512, 256), np.uint8)  # data with the colour of nodata
    sources = []
    for name, pixels, masks in (("low", low, both), ("high", high, True)):
        place = grid(*aligned(LEVEL, ROW, COLUMN), cell(LEVEL))
        path = write_raster(tmp_path / f"{name}.tif", pixels, place, "EPSG:3857")
        sources.append(build_of(path, name=name, **{**OPTIONS, "masks": masks, "top": "12"}))
    whole = joined(tmp_path / "out", *sources)
    payloads = read_payloads(whole)
    tiles = {column: payloads["12", ROW, COLUMN + column] for column in range(2)}
    left, right = (np.asarray(Image.open(io.BytesIO(tiles[column]))) for column in range(2))
    assert (left == 0).all()
    assert (right == 9).all()
    assert any(key.startswith("MASK/") for key in slabs(whole)) == both
    assert ("mask_format" in json.loads(whole.read_text())) == both


def test_pyramids_of_other_tools_are_joined(pair: tuple[Path, Path], tmp_path: Path) -> None:
    """Without build records, one without a list, and moved since the other list was written."""
    for path in pair:
        path.with_suffix(".build.json").unlink()
    pair[1].with_suffix(".list").unlink()
    (tmp_path / "out").rename(tmp_path / "moved")
    moved = [tmp_path / "moved" / path.name for path in pair]
    whole = joined(tmp_path / "new", *moved)
    assert sum(path.is_symlink() for path in slabs(whole).values()) == LINKED
    assert verify(Destination.parse(str(tmp_path / "new")), "whole", full=True) == len(slabs(whole))


def test_a_join_that_has_failed_is_resumed(pair: tuple[Path, Path], tmp_path: Path) -> None:
    common = slabs(pair[0]).keys() & slabs(pair[1]).keys()
    path = slabs(pair[1])[next(key for key in sorted(common) if "DATA/12/" in key)]
    correct = path.read_bytes()
    path.write_bytes(bytes(len(correct)))
    configuration = configured(tmp_path / "new", "whole")
    out, errors = StringIO(), StringIO()
    with closing(configuration.output.open()) as place:

        def run() -> bool:
            reports = Reports(out, errors, command="mastaba pyramid")
            return join(configuration, place, reports, list(map(str, pair)))

        assert not run()
        assert "mastaba pyramid: slab 1051, 700" in errors.getvalue()
        assert "header is damaged" in errors.getvalue()
        assert not (tmp_path / "new/whole.json").exists()
        path.write_bytes(correct)
        assert run()
    assert "1 slabs, 2 from the run before, 4 unchanged" in out.getvalue()
    assert not (tmp_path / "new/.whole.work").exists()


def test_the_head_is_computed_from_the_slabs_below(
    pair: tuple[Path, Path], tmp_path: Path, build_of: Build
) -> None:
    """The result is that of a build, whose pixels are not changed by its lossless format."""
    whole = joined(tmp_path / "out", *pair, title="Whole town")
    before = md5s(whole)
    stored = files(tmp_path / "out/whole")
    # Another version: its levels 10 and 11 are those of a build of both sources.
    assert "Published" in headed(tmp_path / "out", "whole", "12")
    both = build_of(tmp_path / "a.tif", tmp_path / "b.tif", name="both", **OPTIONS)
    tiles, expected = read_tiles(whole), read_tiles(both)
    assert tiles.keys() == expected.keys()
    assert all(np.array_equal(pixels, expected[key]) for key, pixels in tiles.items())
    after = md5s(whole)
    assert {key: value for key, value in after.items() if key[0] == "12"} == {
        key: value for key, value in before.items() if key[0] == "12"
    }
    assert files(tmp_path / "out/whole") == stored
    version = tmp_path / "out/whole_2.json"
    assert {key for key, path in slabs(version).items() if not path.is_symlink()} == {
        key for key in slabs(version) if not key.startswith("DATA/12/")
    }
    assert json.loads((tmp_path / "out/whole.layer.json").read_text())["title"] == "Whole town"
    assert verify(Destination.parse(str(tmp_path / "out")), "whole", full=True) == len(after)
    # The same head again is not another version.
    assert "complete" in headed(tmp_path / "out", "whole", "12")
    place = OutputStore.of_directory(tmp_path / "out")
    assert [entry.number for entry in log(place, "whole")] == [1, 2]


def test_the_head_may_have_further_levels_and_another_decimation(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    document = json.loads(pair[0].with_suffix(".build.json").read_text())
    assert document["decimation"] == "average"
    headed(tmp_path / "out", "a", "11", "8", "nn")
    tiles = read_tiles(pair[0])
    assert {key[0] for key in tiles} == {"8", "9", "10", "11", "12"}
    record = json.loads(pair[0].with_suffix(".build.json").read_text())
    assert record["decimation"] == "nn"
    for (level, row, column), pixels in tiles.items():
        if int(level) >= 11:
            continue
        below = str(int(level) + 1)
        for down in range(2):
            for right in range(2):
                child = tiles.get((below, 2 * row + down, 2 * column + right))
                part = pixels[128 * down :][:128, 128 * right :][:, :128]
                expected = 0 if child is None else child[::2, ::2]
                assert np.array_equal(part, np.broadcast_to(expected, part.shape))


@pytest.mark.thorough
def test_the_head_replaces_slabs_if_wanted(pair: tuple[Path, Path], tmp_path: Path) -> None:
    output = tmp_path / "out"
    whole = joined(output, *pair)
    other = joined(output, *pair, name="other")
    sources = files(output / "a")
    headed(output, "other", "12")
    headed(output, "whole", "12", inject=True)
    assert not (output / "whole.versions.json").exists()
    assert not (output / "whole_2").exists()
    found, expected = read_tiles(whole), read_tiles(other)
    assert found.keys() == expected.keys()
    assert all((found[key] == expected[key]).all() for key in found)
    assert not any(path.is_symlink() for path in (output / "whole/DATA/11").rglob("*.tif"))
    assert files(output / "a") == sources
    assert verify(Destination.parse(str(output)), "whole", full=True)
    assert "is complete" in headed(output, "whole", "12", inject=True)
    with pytest.raises(PlanError, match="other has several versions"):
        headed(output, "other", "12", None, "max", inject=True)


@pytest.mark.thorough
def test_a_build_is_updated_after_its_head_was_computed(
    pair: tuple[Path, Path], tmp_path: Path, plan_of: PlanOf, build_of: Build
) -> None:
    headed(tmp_path / "out", "a", "12", None, "max")
    os.utime(sheet(tmp_path / "a.tif", COLUMN, 9), (1e9, 1e9))
    plan = plan_of(tmp_path / "a.tif", name="a", **OPTIONS)
    assert build(plan, Reports(StringIO(), StringIO()), update="new")
    again = build_of(tmp_path / "a.tif", name="again", **OPTIONS)
    assert md5s(pair[0]) == md5s(again)


def test_a_joined_pyramid_is_served(pair: tuple[Path, Path], tmp_path: Path) -> None:
    pytest.importorskip("mastaba_wmts")
    whole = joined(tmp_path / "out", *pair)
    headed(tmp_path / "out", "whole", "12")
    server = write_installation(
        tmp_path / "server",
        layers={"whole": json.loads((tmp_path / "out/whole.layer.json").read_text())},
        tile_matrix_sets={},
        services=installed_services(),
        public_url="http://localhost",
    )
    client = Client(create_application(str(server)))
    for (level, row, col), pixels in read_tiles(whole).items():
        answer = client.get(TILE.format(layer="whole", level=level, row=row, col=col))
        assert answer.status_code == 200
        assert np.array_equal(np.asarray(Image.open(io.BytesIO(answer.data))), pixels)


CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "format": ({"format": "jpg"}, "its format is TIFF_JPG_UINT8"),
    "channels": ({"channels": 1, "nodata": [0]}, "its number of channels is 1"),
    "nodata": ({"nodata": [1, 2, 3]}, "its nodata is 1,2,3, and that of"),
    "slab size": ({"slab": [4, 4]}, "its slab size is 4x4, and that of .* is 2x2"),
    "registration": ({"registration": "post"}, "its registration is post, and that of .* is area"),
    "path depth": ({"path_depth": 3}, "its path depth is 3"),
    "set": (
        {"tile_matrix_set": "LAMB93_10cm", "bottom": "auto", "top": "5"},
        "its tile matrix set is LAMB93_10cm",
    ),
}


@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize("what", CHANGES)
def test_pyramids_that_differ_are_refused(what: str, tmp_path: Path, build_of: Build) -> None:
    changes, message = CHANGES[what]
    source = sheet(tmp_path / "a.tif", COLUMN, 1)
    first = build_of(source, name="a", **OPTIONS)
    if "bottom" in changes:
        source = write_raster(
            tmp_path / "c.tif", noise(3, 64, 64), grid(900000, 6500000, 100), "EPSG:2154"
        )
    second = build_of(source, name="c", **{**OPTIONS, **changes})
    with pytest.raises(PlanError, match=message) as caught:
        joined(tmp_path / "new", first, second)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("nodata", ["nan,0,0", "0,inf,0", "0,0", "none"])
def test_nodata_that_the_server_refuses_is_refused(
    pair: tuple[Path, Path], tmp_path: Path, nodata: str
) -> None:
    for path in pair:
        document = json.loads(path.read_text())
        document["raster_specifications"]["nodata"] = nodata
        path.write_text(json.dumps(document))
    with pytest.raises(PlanError, match=r"a\.json: nodata is not a list of 3 numbers"):
        joined(tmp_path / "new", *pair)
    assert not (tmp_path / "new").exists()


def test_values_of_nodata_beyond_the_channels_are_ignored(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    document = json.loads(pair[1].read_text())
    document["raster_specifications"]["nodata"] = "0,0,0,7"
    pair[1].write_text(json.dumps(document))
    whole = json.loads(joined(tmp_path / "new", *pair).read_text())
    assert whole["raster_specifications"]["nodata"] == "0,0,0"


def test_other_bad_input_is_refused(pair: tuple[Path, Path], tmp_path: Path) -> None:
    first, second = pair
    vector = tmp_path / "out/vector.json"
    document = json.loads(first.read_text())
    vector.write_text(
        json.dumps(
            {
                "tile_matrix_set": "PM",
                "format": "TIFF_PBF_MVT",
                "levels": [{**level, "tables": []} for level in document["levels"]],
            }
        )
    )
    lists = {path: path.with_suffix(".list") for path in pair}
    shutil.copy(lists[first], vector.with_suffix(".list"))
    (tmp_path / "out/broken.json").write_text("{")
    shutil.copy(lists[first], tmp_path / "out/broken.list")
    shutil.copy(first, tmp_path / "out/listed.json")
    (tmp_path / "out/listed.list").write_text("0=/x\n#\n0/DATA/12/nonsense/!.tif\n")
    shutil.copy(first, tmp_path / "out/empty.json")
    (tmp_path / "out/empty.list").write_text("0=/x\n#\n")
    before = files(tmp_path)
    cases: list[tuple[list[Path | str], str]] = [
        ([first, first], "is the same pyramid as"),
        ([first, tmp_path / "out/../out/a.json"], "is the same pyramid as"),
        ([first, tmp_path / "none.json"], r"none\.json: does not exist"),
        ([first, tmp_path / "out/broken.json"], "is not valid JSON"),
        ([first, tmp_path / "out/listed.json"], "line 3 cannot be used"),
        ([first, vector], "vector tiles, whose features cannot be merged"),
        ([tmp_path / "out/empty.json"], "name no slab"),
        ([first, tmp_path / "a.tif"], "is not the descriptor of a pyramid"),
        ([first, "s3://tiles/b.json"], "is not below the output"),
    ]
    for sources, message in cases:
        with pytest.raises(PlanError, match=message) as caught:
            joined(tmp_path / "new", *sources)  # type: ignore[arg-type]
        assert "\n" not in str(caught.value)
    with pytest.raises(PlanError, match="exists; choose another name"):
        joined(tmp_path / "out", first, second, name="b")
    assert files(tmp_path) == before
    slab = next(iter(slabs(second).values()))
    slab.write_bytes(slab.read_bytes() + b"x")
    with pytest.raises(PlanError, match="differs from the build record"):
        joined(tmp_path / "new", first, second)
    slab.unlink()
    with pytest.raises(PlanError, match=r"its slab .* does not exist"):
        joined(tmp_path / "new", first, second)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("a", ("13",), "a has no level '13'; its levels are 10, 11, 12"),
        ("a", ("10",), "there is no level above 10; name a coarser one with --top"),
        ("a", ("12", "11"), "--top 11 is finer than 10"),
        ("a", ("12", "x"), "level 'x' is not in the tile matrix set PM"),
        ("none", ("12",), "none does not exist"),
    ],
)
def test_heads_that_cannot_be_computed_are_refused(
    pair: tuple[Path, Path], tmp_path: Path, name: str, options: tuple[str], message: str
) -> None:
    before = files(tmp_path)
    with pytest.raises(BuildError, match=message):
        headed(tmp_path / "out", name, *options)
    assert files(tmp_path) == before


def test_the_command_joins_and_computes_the_head(
    pair: tuple[Path, Path], tmp_path: Path, fork_server: ForkServer
) -> None:
    output = ("--output", tmp_path / "new", "--workers", "1")
    pyramid = partial(fork_server.run, "pyramid")
    first = pyramid("join", *pair, "--name", "whole", *output)
    assert first.returncode == 0, first.stderr
    assert "3 slabs, 4 unchanged" in first.stdout
    second = pyramid("head", "whole", "--from", "12", *output, "--json")
    assert second.returncode == 0, second.stderr
    assert json.loads(second.stdout.splitlines()[-1])["event"] == "done"
    third = pyramid("join", pair[0], pair[0], "--name", "other", *output)
    assert third.returncode == 2
    assert third.stderr.count("\n") == 1
    assert third.stderr.startswith("mastaba pyramid: ")
