"""Exports that are stopped, killed or disturbed: nothing half written looks whole."""

from __future__ import annotations

import dataclasses
import os
import random
import re
import shutil
import signal
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import rasterio
from tests.export.ground import opened, planned, write_world
from tests.fork_server import ForkServer
from tests.sizes import sized

from mastaba.api.catalogue import Palette, PaletteEntry
from mastaba.api.services import Site
from mastaba_export import run as running
from mastaba_export.errors import DataChangedError, DestinationError
from mastaba_export.output import discard
from mastaba_export.plan import ExportPlan
from mastaba_export.run import Progress, run
from mastaba_export.sources import DrawnTiles, StoredTiles
from mastaba_export.verify import verify

DEFLATED = "deflated"
"""Stands for a COG that is compressed again."""
FORMATS = ["pmtiles", "mbtiles", "gpkg", "dir", "pyramid", "cog", DEFLATED]


def made_for(site: Site, format: str) -> ExportPlan:
    """Return a plan with enough slabs for some interruptions."""
    if format in ("cog", DEFLATED):
        return raster(site, format)
    return planned(site, "IMAGES", format, zoom=[5, 7])


def raster(site: Site, format: str) -> ExportPlan:
    """Return the plan of a COG, copied or compressed."""
    compression = "deflate" if format == DEFLATED else "stored"
    return planned(site, "HEIGHTS", "cog", compression=compression)


def content(path: Path) -> Any:
    """Return what an output contains: bytes of files, or the rows of a database."""
    if path.suffix in (".mbtiles", ".gpkg"):
        with sqlite3.connect(path) as database:
            names = [
                name
                for (name,) in database.execute(
                    "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
                )
            ]
            rows = {name: database.execute(f"SELECT * FROM {name}").fetchall() for name in names}
        for row in rows.get("gpkg_contents", []):
            rows["gpkg_contents"] = [(*row[:4], *row[5:])]  # without the time
        return rows
    if path.suffix == ".json":
        slabs = {
            str(one.relative_to(path.parent)): one.read_bytes()
            for one in path.with_suffix("").rglob("*.tif")
        }
        return path.read_bytes(), slabs
    if path.is_dir():
        files = (one for one in path.rglob("*") if one.is_file())
        return {str(one.relative_to(path)): one.read_bytes() for one in files}
    return path.read_bytes() if path.stem != DEFLATED else values(path)


def values(path: Path) -> Any:
    """Return the values of a raster and its overviews: they may be compressed into other bytes."""
    with rasterio.open(path) as file:
        factors = file.overviews(1)
        found = [file.read().tobytes()]
    for number in range(len(factors)):
        with rasterio.open(path, overview_level=number) as file:
            found.append(file.read().tobytes())
    return factors, found


@pytest.fixture(scope="module")
def whole(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return what undisturbed exports contain, by format."""
    found = {}

    def get(format: str) -> Any:
        if format not in found:
            made = made_for(site, format)
            path = tmp_path_factory.mktemp("whole") / f"{format}{made.extension}"
            run(made, path)
            found[format] = content(path)
        return found[format]

    return get


def test_stopped_while_the_output_is_completed(site: Site, tmp_path: Path, whole: Any) -> None:
    """All tiles of an MBTiles archive are read again for its hash, which may take minutes."""
    made = made_for(site, "mbtiles")
    path = tmp_path / f"map{made.extension}"
    left = made.count

    def progress(_: Progress) -> None:
        nonlocal left
        left -= 1

    stopped = run(made, path, progress=progress, should_stop=lambda: left == 0)
    assert (left, stopped.is_complete, path.exists()) == (0, False, False)
    assert run(made, path, resume=True).is_complete
    assert content(path) == whole("mbtiles")


@pytest.mark.parametrize("format", FORMATS)
def test_stopped_and_resumed_gives_the_same(
    site: Site, tmp_path: Path, whole: Any, monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    from mastaba_coverage import compressed
    from mastaba_export.writers import coverage

    monkeypatch.setattr(running, "_HORIZON", 3)
    monkeypatch.setattr(coverage, "_PART", 100_000)
    monkeypatch.setattr(compressed, "_PART", 1_000_000)
    made = made_for(site, format)
    path = tmp_path / f"{format}{made.extension}"
    calls: list[int] = []

    def stop() -> bool:
        calls.append(1)
        return len(calls) % 5 == 0

    stops = 0
    result = run(made, path, should_stop=stop)
    while not result.is_complete:
        stops += 1
        assert not path.exists()
        result = run(made, path, resume=True, should_stop=stop)
    assert stops > 1
    assert content(path) == whole(format)
    names = {one.name for one in tmp_path.iterdir()}
    assert not [name for name in names if "part" in name or "journal" in name]


class Killed(BaseException):
    """Stands for a kill: nothing may catch it."""


def run_with_kills(made: Any, path: Path, seed: int, most_units: int) -> int:
    """Export, killed each time after up to ``most_units`` units; return the number of kills."""
    chance = random.Random(seed)
    for kills in range(50):
        left = chance.randint(1, most_units)

        def progress(_progress: Progress) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise Killed

        try:
            run(made, path, resume=kills > 0, progress=progress)
        except Killed:
            assert not path.exists()
        else:
            return kills
    raise AssertionError("it does not come to its end")


@pytest.mark.parametrize("format", FORMATS)
def test_ended_between_checkpoints_and_resumed_gives_the_same(
    site: Site, tmp_path: Path, whole: Any, monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    from mastaba_coverage import compressed
    from mastaba_export.writers import coverage

    monkeypatch.setattr(running, "_HORIZON", 4)
    monkeypatch.setattr(coverage, "_PART", 100_000)
    monkeypatch.setattr(compressed, "_PART", 1_000_000)
    made = made_for(site, format)
    path = tmp_path / f"{format}{made.extension}"
    assert run_with_kills(made, path, 1, 8) > 2
    assert content(path) == whole(format)


@pytest.mark.parametrize("format", ["pmtiles", "mbtiles", "pyramid", "cog"])
def test_little_is_read_again_after_a_kill(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    """All that was read since the checkpoint is read again, also what was read ahead."""
    from mastaba_export.writers import coverage

    monkeypatch.setattr(coverage, "_PART", 50_000)
    made = made_for(site, format)
    sizes: list[int] = []

    def counting(fetch: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any) -> Any:
            batch = fetch(*args)
            sizes.append(batch.read)
            return batch

        return counted

    monkeypatch.setattr(StoredTiles, "_current", counting(StoredTiles._current))
    writer = coverage.CoverageWriter
    monkeypatch.setattr(writer, "fetch", counting(writer.fetch))
    run(made, tmp_path / f"whole{made.extension}")
    once, largest = sum(sizes), max(sizes)
    sizes.clear()
    repeated = 4 * largest
    monkeypatch.setattr(running, "_REPEATED", repeated)
    monkeypatch.setattr(running, "_CHECKPOINT_BYTES", repeated // 2)
    # The clock makes no checkpoint.
    monkeypatch.setattr(running, "_CHECKPOINT_SECONDS", 1e9)
    kills = run_with_kills(made, tmp_path / f"a{made.extension}", 3, 11)
    assert kills > 1
    assert sum(sizes) - once <= kills * repeated


@pytest.mark.parametrize("size", [1 << 20, 10 << 20, 24 << 20, 33 << 20, 60 << 20])
def test_large_units_are_not_read_ahead_beyond_what_may_be_repeated(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    made = planned(site, "IMAGES", "pmtiles", zoom=[7, 8])
    read, repeated = [0], [0]
    read_now = StoredTiles._current

    def counted(*args: Any) -> Any:
        batch = read_now(*args)
        read[0] += size
        return dataclasses.replace(batch, read=size)

    safe = [0]
    commit = running._Run._commit

    def noted(self: Any) -> None:
        commit(self)
        safe[0] = self._next * size

    def progress(_progress: Progress) -> None:
        repeated[0] = max(repeated[0], read[0] - safe[0])

    monkeypatch.setattr(StoredTiles, "_current", counted)
    monkeypatch.setattr(running._Run, "_commit", noted)
    assert run(made, tmp_path / "a.pmtiles", progress=progress).is_complete
    assert size <= repeated[0] <= 64 << 20


def test_what_is_compressed_is_kept(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compressing again may give other bytes, so finished tiles are not compressed again."""
    from mastaba_coverage import TileCodec, compressed

    monkeypatch.setattr(compressed, "_PART", 1_000_000)
    made = raster(site, DEFLATED)
    path = tmp_path / f"{DEFLATED}.tif"
    stops = iter([False] * 4 + [True])
    assert not run(made, path, should_stop=lambda: next(stops)).is_complete
    part = path.with_name("deflated.tif.part")
    head = made.file().reserved
    done = part.read_bytes()[head:]
    assert len(done) > 100_000
    part.write_bytes(part.read_bytes()[:-9] + b"123456789")
    with pytest.raises(DestinationError, match="not as its journal says"):
        run(made, path, resume=True)
    part.write_bytes(bytes(head) + done)
    # Another compression of the same values.
    monkeypatch.setattr(TileCodec, "_deflated", lambda s, p: zlib.compress(s._predicted(p), 9))
    assert run(made, path, resume=True).is_complete
    whole = path.read_bytes()
    assert whole[head : head + len(done)] == done
    assert b"\x78\xda" in whole[head + len(done) :]
    monkeypatch.undo()
    verify(made, path, deep=True)


@pytest.mark.parametrize(
    ("format", "name", "other"),
    [
        ("dir", "a.part", None),
        ("dir", "a.part", b"a file"),
        ("pyramid", "a", None),
        ("pyramid", "a", b"a file"),
        ("mbtiles", "a.mbtiles.part", None),
        ("pmtiles", "a.pmtiles.part", None),
    ],
)
def test_an_output_that_is_gone_is_not_resumed(
    site: Site, tmp_path: Path, format: str, name: str, other: bytes | None
) -> None:
    """Nor is a directory that is a file now."""
    made = planned(site, "IMAGES", format, levels=["5"])
    path = tmp_path / f"a{made.extension}"
    assert not run(made, path, should_stop=lambda: True).is_complete
    first = tmp_path / name
    if first.is_dir():
        shutil.rmtree(first)
    else:
        first.unlink()
    if other is not None:
        first.write_bytes(other)
    message = f"^{re.escape(name)} of the interrupted export is missing; remove its journal"
    with pytest.raises(DestinationError, match=message):
        run(made, path, resume=True)
    assert (first.read_bytes() if first.exists() else None) == other
    assert not path.exists()


@pytest.mark.parametrize("format", ["pmtiles", DEFLATED])
@pytest.mark.parametrize("is_there", [True, False], ids=["shorter", "missing"])
def test_entries_that_are_gone_are_not_zeros(
    site: Site,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    format: str,
    is_there: bool,
) -> None:
    from mastaba_coverage import compressed

    monkeypatch.setattr(compressed, "_PART", 1_000_000)
    made = made_for(site, format)
    path = tmp_path / f"a{made.extension}"
    stops = iter([False] * 4 + [True])
    assert not run(made, path, should_stop=lambda: next(stops)).is_complete
    entries = path.with_name(f"{path.name}.part.entries")
    if is_there:
        entries.write_bytes(entries.read_bytes()[:-1])
    else:
        entries.unlink()
    with pytest.raises(DestinationError, match=r"\.part\.entries is missing, or shorter"):
        run(made, path, resume=True)
    assert not path.exists()


@pytest.mark.sampled
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("moment", ["publish", "unlink"])
def test_ended_around_the_rename(
    site: Site,
    tmp_path: Path,
    whole: Any,
    monkeypatch: pytest.MonkeyPatch,
    format: str,
    moment: str,
) -> None:
    made = made_for(site, format)
    path = tmp_path / f"{format}{made.extension}"

    def end(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        if moment == "publish":
            patch.setattr(running.Output, "publish", end)
        else:
            patch.setattr(running._Run, "_result", end)
        with pytest.raises(Killed):
            run(made, path)
    assert path.exists() == (moment == "unlink")
    result = run(made, path, resume=True)
    assert result.is_complete
    assert result.tiles > 0
    assert content(path) == whole(format)
    names = {one.name for one in tmp_path.iterdir()}
    assert not [name for name in names if "part" in name or "journal" in name]


def test_other_inputs_are_refused(site: Site, tmp_path: Path) -> None:
    path = tmp_path / "a.pmtiles"
    run(planned(site, "IMAGES", "pmtiles"), path, should_stop=lambda: True)
    with pytest.raises(DestinationError, match="--resume"):
        run(planned(site, "IMAGES", "pmtiles"), path)
    with pytest.raises(DestinationError, match="other inputs"):
        run(planned(site, "IMAGES", "pmtiles", zoom=[5, 7]), path, resume=True)
    discard(path)
    assert list(tmp_path.iterdir()) == []


def test_drawn_tiles_in_another_style_are_refused(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The payloads of this layer are no pictures.
    monkeypatch.setattr(DrawnTiles, "tile", lambda *_: b"drawn")
    drawn = planned(site, "IMAGES", "pmtiles", tile_format="jpg")
    stored = planned(site, "IMAGES", "pmtiles")

    def restyled(made: ExportPlan) -> ExportPlan:
        style = dataclasses.replace(
            made.layer.styles[0], palette=Palette((PaletteEntry(0, 1, 2, 3, 255),))
        )
        layer = dataclasses.replace(made.layer, styles=(style,))
        return dataclasses.replace(made, layer=layer)

    assert restyled(stored).digest == stored.digest
    path = tmp_path / "a.pmtiles"
    run(drawn, path, should_stop=lambda: True)
    with pytest.raises(DestinationError, match="other data or styles"):
        run(restyled(drawn), path, resume=True)


def test_what_exists_is_not_replaced(site: Site, tmp_path: Path) -> None:
    made = planned(site, "IMAGES", "pmtiles", levels=["5"])
    path = tmp_path / "a.pmtiles"
    path.write_bytes(b"precious")
    with pytest.raises(DestinationError, match="exists"):
        run(made, path)
    slabs = tmp_path / "p"
    slabs.mkdir()
    (slabs / "precious").write_bytes(b"")
    pyramid = planned(site, "IMAGES", "pyramid", levels=["5"])
    for resume in (False, True):
        with pytest.raises(DestinationError, match="exists"):
            run(pyramid, tmp_path / "p.json", resume=resume)
    discard(tmp_path / "p.json")
    assert path.read_bytes() == b"precious"
    assert (slabs / "precious").exists()
    part = tmp_path / "b.part"
    part.mkdir()
    with pytest.raises(DestinationError, match="exists"):
        run(planned(site, "IMAGES", "dir"), tmp_path / "b")
    part.rmdir()
    with pytest.raises(DestinationError, match="no directory"):
        run(made, tmp_path / "none/a.pmtiles")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.pmtiles", "p"]


def test_two_exports_to_one_output(site: Site, tmp_path: Path) -> None:
    made = planned(site, "IMAGES", "pmtiles", levels=["5"])
    path = tmp_path / "a.pmtiles"
    seen = []

    def progress(_progress: Progress) -> None:
        if not seen:
            seen.append(1)
            with pytest.raises(DestinationError, match="another export"):
                run(made, path, resume=True)

    assert run(made, path, progress=progress).is_complete


@pytest.fixture
def changing(tmp_path: Path) -> Iterator[tuple[Site, Path]]:
    server = write_world(tmp_path / "changing")
    site = opened(server)
    yield site, server.parent
    site.catalogue.storages.close()


def change(directory: Path, level: str, number: int) -> None:
    """Replace a slab by a copy that is newer."""
    slabs = sorted((directory / f"pyramids/IMAGES/DATA/{level}").rglob("*.tif"))
    slab = slabs[number]
    data = bytearray(slab.read_bytes())
    data[-1] ^= 1
    new = slab.with_suffix(".new")
    new.write_bytes(data)
    os.utime(new, ns=(1, 1))
    new.replace(slab)


def test_a_slab_that_is_replaced_after_it_was_written(
    changing: tuple[Site, Path], tmp_path: Path
) -> None:
    site, directory = changing
    made = planned(site, "IMAGES", "pmtiles")
    path = tmp_path / "a.pmtiles"
    stops = iter([False] * 6 + [True])
    assert not run(made, path, should_stop=lambda: next(stops)).is_complete
    change(directory, "5", 0)
    with pytest.raises(DataChangedError, match="--allow-changes"):
        run(made, path, resume=True)
    assert not path.exists()
    result = run(made, path, resume=True, allow_changes=True)
    assert len(result.changed) == 1
    assert result.changed[0].startswith("5/")


def test_a_slab_that_is_replaced_before_it_is_written(
    changing: tuple[Site, Path], tmp_path: Path
) -> None:
    site, directory = changing
    made = planned(site, "IMAGES", "pmtiles")
    made.estimate()
    change(directory, "8", 3)
    assert run(made, tmp_path / "a.pmtiles").changed == ()
    verify(made, tmp_path / "a.pmtiles", deep=True)


def test_a_slab_that_is_replaced_during_the_export(
    changing: tuple[Site, Path], tmp_path: Path
) -> None:
    site, directory = changing
    made = planned(site, "IMAGES", "pmtiles")

    def progress(progress: Progress) -> None:
        if progress.units == progress.of_units:
            change(directory, "5", 0)

    with pytest.raises(DataChangedError):
        run(made, tmp_path / "a.pmtiles", progress=progress)
    assert not (tmp_path / "a.pmtiles").exists()


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the server.json of a world whose exports take long enough to be killed."""
    return write_world(tmp_path_factory.mktemp("large"), size=9000)


@pytest.fixture(scope="module")
def fork_server() -> Iterator[ForkServer]:
    server = ForkServer("tests.export.resumed")
    yield server
    server.close()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("format", "kills"),
    [
        ("pmtiles", sized(5, 50)),
        *((name, sized(3, 25)) for name in ("mbtiles", "gpkg", "dir", "pyramid", "cog", DEFLATED)),
    ],
)
def test_killed_at_random_moments(
    large: Path, fork_server: ForkServer, tmp_path: Path, format: str, kills: int
) -> None:
    """Kill -9, then resume: the output is that of an undisturbed export."""
    site = opened(large)
    is_raster = format in ("cog", DEFLATED)
    layer = "HEIGHTS" if is_raster else "IMAGES"
    made = raster(site, format) if is_raster else planned(site, layer, format)
    inputs = (
        {"format": "cog", "compression": "deflate"} if format == DEFLATED else {"format": format}
    )
    expected = tmp_path / "whole" / f"{format}{made.extension}"
    expected.parent.mkdir()
    run(made, expected)
    path = tmp_path / f"{format}{made.extension}"
    chance = random.Random(7)
    killed = 0
    while not path.exists():
        # A compressed file is smaller.
        rate = (2e6 if format == DEFLATED else 6e6) if killed < kills else 0
        words = str(large), layer, inputs, str(path), rate
        with fork_server.running_program("tests.export.resumed:resume", *words) as process:
            assert process.output.readline() == "ready\n"
            if killed < kills:
                time.sleep(chance.uniform(0.0, 0.6))
                process.send_signal(signal.SIGKILL)
            status = process.wait()
        killed += status == -signal.SIGKILL
    assert killed >= min(kills, 5)
    if format == "pyramid":
        assert content(path)[1] == content(expected)[1]
    else:
        assert content(path) == content(expected)
    verify(made, path, deep=True)
    site.catalogue.storages.close()
