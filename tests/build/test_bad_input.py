"""Bad input is named; nothing is half published."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import shlex
import struct
import subprocess
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pyproj
import pytest
import rasterio
from rasterio.transform import Affine
from tests.build.ground import grid, noise, read_tiles, write_raster
from tests.documents.test_reading import BY_ALIASES, MOST_MEMORY
from tests.support.memory import peak_of

from mastaba.api.catalogue import TILE_FORMATS
from mastaba.commands.main import main
from mastaba_build.errors import PlanError
from mastaba_build.pixels.stored import slab_index
from mastaba_build.plan.plan import Plan
from mastaba_build.work.build import build
from mastaba_build.work.reports import Reports
from mastaba_render.api.decoding import TileDecoder
from mastaba_writer.slab_names import slab_path
from mastaba_writer.slab_writer import build_slab, encode_tile

PlanOf = Callable[..., Plan]
Command = Callable[..., subprocess.CompletedProcess[str]]
LAMBERT = grid(900000, 6500000, 5)


def fails(completed: subprocess.CompletedProcess[str], status: int, *texts: str) -> None:
    """Check that a command failed with a clear message and published nothing."""
    assert completed.returncode == status, completed.stdout + completed.stderr
    assert "Traceback" not in completed.stderr
    for text in texts:
        assert text in completed.stderr, completed.stderr


def published(directory: Path) -> list[str]:
    return [path.name for path in directory.glob("*.json")] if directory.exists() else []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"crs": None}, "has no CRS; state it with --crs"),
        ({"transform": Affine(5, 0, 9e5, 0, 0, 6e6)}, "pixels have no area"),
        ({"options": {"tile_matrix_set": "NOPE"}}, "unknown tile matrix set 'NOPE'"),
        ({"options": {"tile_matrix_sets": "/none"}}, "/none, for tile matrix sets, is not a"),
        ({"options": {"bottom": "99"}}, "level '99' is not in the tile matrix set PM"),
        ({"options": {"format": "gif"}}, "unknown format 'gif'"),
        ({"options": {"format": "jpg", "channels": 4}}, "cannot store 4 channels"),
        ({"options": {"nodata": [300, 0, 0]}}, "stores values from 0 to 255"),
        ({"options": {"slab": [256, 256], "format": "zip"}}, "can exceed 4 GiB"),
        ({"options": {"output": "/tmp/white space"}}, "white space"),
        ({"dtype": np.uint16, "options": {"format": "png"}}, "--scale MIN,MAX"),
        ({"dtype": np.complex64}, "samples of type complex64 are not supported"),
        ({"options": {"tile_matrix_set": "2154_1m"}, "crs": "EPSG:32701"}, "outside the tile"),
        ({"source": {"bands": [9]}}, "band 9 is wanted"),
        ({"source": {"nodata": [1, 2]}}, "2 nodata values for 3 bands"),
        ({"source": {"nodata_ranges": [[5, 1]]}}, "nodata_ranges: a first value is above"),
        ({"source": {"bands": [0]}}, "sources/0/bands/0: 0 is less than the minimum of 1"),
        ({"source": {"order": "x"}}, "sources/0/order: "),
        ({"source": {"path": ""}}, "sources/0/path: "),
        ({"source": {"tolerance": -1}}, "sources/0/tolerance: -1 is less than the minimum of 0"),
    ],
)
def test_what_does_not_fit_is_named_before_the_build(
    tmp_path: Path, plan_of: PlanOf, options: dict[str, Any], message: str
) -> None:
    pixels = noise(3, 300, 300).astype(options.get("dtype", np.uint8))
    transform = options.get("transform", LAMBERT)
    source = write_raster(tmp_path / "a.tif", pixels, transform, options.get("crs", "EPSG:2154"))
    with pytest.raises(PlanError, match=message.replace("(", r"\(")):
        plan_of({"path": str(source), **options.get("source", {})}, **options.get("options", {}))
    assert not (tmp_path / "out").exists()


def test_missing_and_foreign_files_are_named(tmp_path: Path, command: Command) -> None:
    (tmp_path / "text.tif").write_text("not a raster")
    (tmp_path / "empty").mkdir()
    output = tmp_path / "out"
    fails(command(tmp_path / "none.tif", "--output", output), 2, "none.tif: cannot be opened")
    fails(command(tmp_path / "text.tif", "--output", output), 2, "text.tif: cannot be opened")
    fails(command(tmp_path / "empty", "--output", output), 2, "no raster file")
    fails(command("--output", output), 2, 'the document: "name" is a required property')
    fails(command("--nodata", "nan", "--output", output), 2, "'nan' is not a list of numbers")
    fails(command("", "--output", output), 2, 'mastaba build: the options: sources/0/path: ""')
    fails(command("--config", tmp_path / "none.json"), 2, "none.json does not exist")
    (tmp_path / "bad.json").write_text('{"name": "a b", "output": "x", "sources": [], "foo": 1}')
    fails(command("--config", tmp_path / "bad.json"), 2, "sources", "foo", "name")
    assert not output.exists()


@pytest.mark.thorough
@pytest.mark.parametrize("text", BY_ALIASES.values(), ids=BY_ALIASES)
def test_configuration_whose_aliases_would_fill_the_memory_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (tmp_path / "a.yaml").write_text(text)
    status, peak = peak_of(lambda: main(["build", "--config", str(tmp_path / "a.yaml")]))
    assert status == 2
    assert "by its aliases" in capsys.readouterr().err
    assert peak < MOST_MEMORY


def test_a_truncated_source_fails_its_slabs_and_can_be_repaired(
    tmp_path: Path, command: Command
) -> None:
    good = write_raster(tmp_path / "a.tif", noise(3, 700, 700), LAMBERT, "EPSG:2154")
    whole = write_raster(
        tmp_path / "b.tif", noise(3, 700, 700, 2), grid(903500, 6500000, 5), "EPSG:2154"
    )
    intact = whole.read_bytes()
    whole.write_bytes(intact[: len(intact) // 2])
    words = [good, whole, "--output", tmp_path / "out", "--workers", "1", "--slab", "2x2"]
    fails(command(*words), 1, "of level 15: ", "b.tif: cannot be read", "nothing is published")
    assert published(tmp_path / "out") == []
    assert list((tmp_path / "out/a").rglob("*.tif"))  # the other slabs are kept
    whole.write_bytes(intact)
    assert command(*words).returncode == 0
    assert "a.json" in published(tmp_path / "out")


def test_a_header_that_lies_is_an_error(tmp_path: Path, command: Command) -> None:
    source = write_raster(tmp_path / "a.tif", noise(1, 256, 256), LAMBERT, "EPSG:2154")
    data = bytearray(source.read_bytes())
    start = struct.unpack_from("<I", data, 4)[0]
    for entry in range(struct.unpack_from("<H", data, start)[0]):
        tag, kind, count, value = struct.unpack_from("<HHII", data, start + 2 + 12 * entry)
        if tag == 324:  # tile offsets
            assert kind == 4
            struct.pack_into(f"<{count}I", data, value, *[0xFFFFFF00] * count)
    source.write_bytes(data)
    completed = command(source, "--output", tmp_path / "out", "--bottom", "10", "--workers", "1")
    fails(completed, 1, "a.tif: cannot be read at row", "nothing is published")
    assert published(tmp_path / "out") == []


def test_a_source_that_disappears_during_the_build_is_named(
    tmp_path: Path, plan_of: PlanOf
) -> None:
    first = write_raster(tmp_path / "a.tif", noise(3, 300, 300), LAMBERT, "EPSG:2154")
    away = grid(950000, 6400000, 5)
    second = write_raster(tmp_path / "b.tif", noise(3, 300, 300), away, "EPSG:2154")
    plan = plan_of(first, second, slab=[4, 4])
    errors = StringIO()
    reports = Reports(StringIO(), errors)
    reports.slab = lambda *_: second.unlink(missing_ok=True)  # type: ignore[method-assign]
    assert not build(plan, reports)
    assert "b.tif: cannot be opened" in errors.getvalue()
    assert published(tmp_path / "out") == []


def vrt(path: Path, source: Path, size: int, cell: float) -> Path:
    """Write a VRT of any size that repeats a source over all of it."""
    path.write_text(f"""<VRTDataset rasterXSize="{size}" rasterYSize="{size}">
  <SRS>EPSG:2154</SRS>
  <GeoTransform>500000, {cell}, 0, 6800000, 0, -{cell}</GeoTransform>
  <VRTRasterBand dataType="Byte" band="1">
    <SimpleSource>
      <SourceFilename>{source}</SourceFilename><SourceBand>1</SourceBand>
      <SrcRect xOff="0" yOff="0" xSize="300" ySize="300"/>
      <DstRect xOff="0" yOff="0" xSize="{size}" ySize="{size}"/>
    </SimpleSource>
  </VRTRasterBand>
</VRTDataset>""")
    return path


def test_huge_sources(tmp_path: Path, plan_of: PlanOf) -> None:
    source = write_raster(tmp_path / "a.tif", noise(1, 300, 300), LAMBERT, "EPSG:2154")
    huge = vrt(tmp_path / "huge.vrt", source, 2_000_000_000, 0.0001)
    with pytest.raises(PlanError, match="slabs; use larger slabs or a coarser --bottom"):
        plan_of(huge, bottom="21", slab=[1, 1])
    # Only the cells that a slab needs are read: here one slab of a trillion pixels.
    large = vrt(tmp_path / "large.vrt", source, 1_000_000, 0.2)
    plan = plan_of(large, bottom="3", top="3", format="png")
    assert sum(1 for _ in plan.slabs(0)) == 1


def test_blocks_that_do_not_fit_into_memory(tmp_path: Path, plan_of: PlanOf) -> None:
    path = tmp_path / "a.tif"
    side = {"width": 16000, "height": 16000, "blockxsize": 16000, "blockysize": 16000}
    profile = {"tiled": True, "compress": "deflate", "sparse_ok": True, **side}
    profile |= {"driver": "GTiff", "count": 1, "dtype": "uint8"}
    with rasterio.open(path, "w", crs="EPSG:2154", transform=LAMBERT, **profile):
        pass
    with pytest.raises(PlanError, match=r"a\.tif: has blocks of 244 MiB; write it with tiles"):
        plan_of(path)


@pytest.mark.thorough
def test_a_source_that_changes_during_the_build_is_named(tmp_path: Path, plan_of: PlanOf) -> None:
    source = write_raster(tmp_path / "a.tif", noise(3, 1200, 1200), LAMBERT, "EPSG:2154")
    plan = plan_of(source, slab=[2, 2])
    errors = StringIO()
    reports = Reports(StringIO(), errors)

    def change(*_: object) -> None:
        os.utime(source, (1, 1))

    reports.slab = change  # type: ignore[method-assign]
    assert not build(plan, reports)
    assert "a.tif: has changed since the start" in errors.getvalue()
    assert published(tmp_path / "out") == []


@pytest.mark.thorough
def test_a_full_disk_stops_the_build_and_it_resumes(tmp_path: Path, command: Command) -> None:
    source = write_raster(tmp_path / "a.tif", noise(3, 600, 600), LAMBERT, "EPSG:2154")
    words = [source, "--output", tmp_path / "out", "--format", "raw", "--slab", "2x2"]

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, 500_000))

    words += ["--workers", "1"]
    fails(command(*words, preexec_fn=limit), 1, "File too large")
    assert published(tmp_path / "out") == []
    assert not list((tmp_path / "out").rglob("*.tmp"))
    assert command(*words).returncode == 0


def test_an_unwritable_output_is_named(tmp_path: Path, command: Command) -> None:
    source = write_raster(tmp_path / "a.tif", noise(1, 300, 300), LAMBERT, "EPSG:2154")
    (tmp_path / "file").write_text("")
    fails(command(source, "--output", tmp_path / "file"), 1, "file", "ot a directory")
    (tmp_path / "out/a").mkdir(parents=True)
    (tmp_path / "out/a/mine.txt").write_text("keep")
    fails(command(source, "--output", tmp_path / "out"), 2, "is not an unfinished build")
    assert (tmp_path / "out/a/mine.txt").read_text() == "keep"


def test_the_command_that_serves_can_be_copied(tmp_path: Path, plan_of: PlanOf) -> None:
    source = write_raster(tmp_path / "a.tif", noise(3, 20, 20), grid(9e5, 65e5, 9), "EPSG:2154")
    output = StringIO()
    installation = tmp_path / "it's mine/server.json"
    Reports(output, StringIO()).done(plan_of(source), installation, "127.0.0.1:1")
    words = shlex.split(output.getvalue().splitlines()[-1])
    assert words[words.index("-f") + 1] == str(installation)


def test_a_rotated_grid_is_drawn_in_its_place(tmp_path: Path, plan_of: PlanOf) -> None:
    turned = Affine(4.33, 2.5, 900000, 2.5, -4.33, 6500000)
    pixels = np.full((1, 400, 400), 10, np.uint8)
    pixels[:, 300:320, 100:120] = 210
    source = write_raster(tmp_path / "a.tif", pixels, turned, "EPSG:2154")
    plan = plan_of(source, format="png")
    assert build(plan, Reports(StringIO(), StringIO()))
    matrix = plan.levels[0].matrix
    places = []
    for (level, row, column), tile in read_tiles(tmp_path / "out/map.json").items():
        if level == matrix.id:
            down, across = np.nonzero((tile[:, :, 0] > 110) & (tile[:, :, 0] < 255))
            places += [*zip(256 * column + across + 0.5, 256 * row + down + 0.5, strict=True)]
    x, y = np.mean(places, axis=0) * matrix.cell_size
    to_map = pyproj.Transformer.from_crs("EPSG:2154", "EPSG:3857", always_xy=True)
    expected = to_map.transform(9e5 + 4.33 * 110 + 2.5 * 310, 65e5 + 2.5 * 110 - 4.33 * 310)
    assert abs(matrix.origin_x + x - expected[0]) < matrix.cell_size
    assert abs(matrix.origin_y - y - expected[1]) < matrix.cell_size


def test_verification_finds_damage(tmp_path: Path, command: Command) -> None:
    source = write_raster(tmp_path / "a.tif", noise(1, 300, 300), LAMBERT, "EPSG:2154")
    words = ["--output", tmp_path / "out", "--name", "a"]
    options = ["--format", "png", "--slab", "2x2", "--workers", "1"]
    assert command(source, *words, *options).returncode == 0
    assert command(*words, "--verify").returncode == 0
    slab = max((tmp_path / "out/a").rglob("*.tif"))
    data = bytearray(slab.read_bytes())
    data[-1] ^= 1
    slab.write_bytes(data)
    fails(command(*words, "--verify"), 4, "differs from the build record")
    slab.unlink()
    (slab.parent / "ZZ.tif").write_bytes(b"")
    fails(command(*words, "--verify", "full"), 4, "does not exist", "is not in the build record")


@pytest.mark.parametrize(
    "words",
    [
        ("--format", "png"),
        ("--format", "png", "--channels", "4"),
        ("--format", "zip", "--masks", "--decimation", "max"),
    ],
    ids=["nodata", "alpha", "masks"],
)
def test_verification_compares_levels(
    tmp_path: Path, command: Command, words: tuple[str, ...]
) -> None:
    pixels = noise(3, 700, 700)
    pixels[:, 100:300, 100:200] = 255  # data with the colour of nodata
    pixels[:, 400:600, 333:500] = 1
    source = write_raster(tmp_path / "a.tif", pixels, LAMBERT, "EPSG:2154", nodata=1)
    where = ["--output", tmp_path / "out", "--name", "a"]
    options = ["--slab", "2x2", "--top", "10", "--workers", "1"]
    assert command(source, *where, *words, *options).returncode == 0
    assert command(*where, "--verify", "full").returncode == 0
    record = tmp_path / "out/a.build.json"
    document = json.loads(record.read_text())
    slab = next(one for one in document["slabs"] if one[0] == "11" and one[3])
    path = tmp_path / "out/a/DATA/11" / slab_path(slab[1], slab[2], 2)
    data = changed_slab(path.read_bytes(), 4 if "4" in words else 3, words[1])
    path.write_bytes(data)
    slab[3:5] = len(data), hashlib.md5(data).hexdigest()
    record.write_text(json.dumps(document))
    assert command(*where, "--verify").returncode == 0
    fails(command(*where, "--verify", "full"), 4, "pixels are not those of level 12")


def test_the_list_may_contain_checksums(tmp_path: Path, command: Command) -> None:
    source = write_raster(tmp_path / "a.tif", noise(1, 300, 300), LAMBERT, "EPSG:2154")
    words = ["--output", tmp_path / "out", "--name", "a"]
    options = ["--list-md5", "--masks", "--slab", "2x2", "--workers", "1", "--top", "12"]
    assert command(source, *words, *options).returncode == 0
    lines = (tmp_path / "out/a.list").read_text().partition("#\n")[2].splitlines()
    data = [line.split() for line in lines if "DATA" in line]
    assert len(data) > 3
    for name, md5 in data:
        stored = (tmp_path / "out/a" / name.removeprefix("0/")).read_bytes()
        assert hashlib.md5(stored).hexdigest() == md5
    assert command(*words, "--verify").returncode == 0


def changed_slab(data: bytes, channels: int, format: str) -> bytes:
    """Return a slab of 2 x 2 tiles whose colours differ by one where there is data."""
    name = f"TIFF_{format.upper()}_UINT8"
    decoder = TileDecoder(TILE_FORMATS[name], channels, 256, 256)
    tiles: list[bytes | None] = []
    for offset, size in slab_index(data, 4):
        if not size:
            tiles.append(None)
            continue
        pixels = decoder.decode(data[offset : offset + size]).copy()
        pixels[:, :, 0] ^= (pixels[:, :, -1] < 255) | (channels == 4)
        tiles.append(encode_tile(name, pixels))
    return build_slab(tiles, format=name, channels=channels)


def test_all_nodata_is_an_error(tmp_path: Path, command: Command) -> None:
    source = write_raster(
        tmp_path / "a.tif", np.zeros((1, 300, 300), np.uint8), LAMBERT, "EPSG:2154", nodata=0
    )
    fails(command(source, "--output", tmp_path / "out", "--workers", "1"), 1, "no source pixel")
    assert published(tmp_path / "out") == []


def test_a_dry_run_writes_nothing(tmp_path: Path, command: Command) -> None:
    source = write_raster(tmp_path / "a.tif", noise(1, 300, 300), LAMBERT, "EPSG:2154")
    completed = command(source, "--output", tmp_path / "out", "--dry-run", "--json")
    assert completed.returncode == 0, completed.stderr
    assert '"event": "estimate"' in completed.stdout
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("crs", "message"),
    [
        ("IAU_2015:30100", r"same celestial body \([A-Z]\w+ vs [A-Z]\w+\); choose another set"),
        ("+proj=eqc +R=3396190 +units=m", r"same celestial body \([A-Z]\w+ vs [A-Z]\w+\)"),
        ("EPSG:4978", r"\(Geocentric CRS\) has no positions on the ground"),
        ("EPSG:5773", r"has no positions on the ground"),
        (
            'ENGCRS["plan",EDATUM["site"],CS[Cartesian,2],AXIS["x",east],AXIS["y",north],'
            'LENGTHUNIT["metre",1]]',
            r"'plan' \(Engineering CRS\) has no positions on the ground; assign another one",
        ),
    ],
)
def test_a_crs_that_cannot_be_transformed_is_named(
    tmp_path: Path, plan_of: PlanOf, crs: str, message: str
) -> None:
    wkt = pyproj.CRS.from_user_input(crs).to_wkt()
    source = write_raster(tmp_path / "a.tif", noise(1, 64, 64), grid(0, 10, 0.1), wkt)
    with pytest.raises(PlanError, match=rf"a\.tif: .*{message}"):
        plan_of(source)


def test_a_palette_without_colours_is_named(tmp_path: Path, plan_of: PlanOf) -> None:
    write_raster(tmp_path / "a.tif", noise(1, 64, 64), grid(5, 45, 0.1), "EPSG:4326")
    source = tmp_path / "a.vrt"
    source.write_text(
        '<VRTDataset rasterXSize="64" rasterYSize="64"><SRS>EPSG:4326</SRS><GeoTransform>5, 0.1, '
        '0, 45, 0, -0.1</GeoTransform><VRTRasterBand dataType="Byte" band="1"><ColorInterp>Palette'
        '</ColorInterp><SimpleSource><SourceFilename relativeToVRT="1">a.tif</SourceFilename>'
        "</SimpleSource></VRTRasterBand></VRTDataset>"
    )
    with pytest.raises(PlanError, match=r"a\.vrt: band 1 is a palette without colours"):
        plan_of(source)


def test_events_name_levels_by_their_identifiers(tmp_path: Path, command: Command) -> None:
    source = write_raster(tmp_path / "a.tif", noise(1, 300, 300), LAMBERT, "EPSG:2154")
    words = [source, "--output", tmp_path / "out", "--top", "13", "--slab", "1x1"]
    done = command(*words, "--json")
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    planned = {level["level"] for event in events for level in event.get("levels", [])}
    assert "14" in planned
    assert {event["level"] for event in events if event["event"] == "slab"} == planned


@pytest.mark.thorough
def test_a_build_uses_the_plugins_of_the_command_line(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "a.tif", noise(1, 64, 64), LAMBERT, "EPSG:2154")
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins/seen.py").write_text(
        "import os\n"
        "with open(os.environ['SEEN'], 'a') as file:\n"
        "    file.write(f'{os.getpid()}\\n')\n"
    )
    environment = {**os.environ, "SEEN": str(tmp_path / "seen"), "PYTHONPATH": str(tmp_path)}
    words = [source, "--output", tmp_path / "out", "--top", "13", "--workers", "1"]
    before = ["--plugins", tmp_path / "plugins", "--block", "wmts", "--block", "storage_s3"]
    done = subprocess.run(
        [sys.executable, "-m", "mastaba", *map(str, [*before, "build", *words])],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "seen").read_text().split()) == 1  # loaded once, and not without them
