"""Copies of pyramids between storages are complete, resumed and verified."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from tests.build.conftest import Build, built
from tests.build.ground import read_tiles
from tests.build.test_updates import OPTIONS, write_sheet
from tests.conformance.shelf import ShelfStorage
from tests.forked import run

from mastaba.api.catalogue import digest_of
from mastaba.api.storages import ByteRange, ObjectRead
from mastaba_build.errors import LockedError, OutputError, PlanError, VerificationError
from mastaba_build.output.destination import Destination
from mastaba_build.output.history import History
from mastaba_build.output.lock import locked
from mastaba_build.output.packs import pack_pyramid
from mastaba_build.plan.plan import Plan
from mastaba_build.pyramid import copying
from mastaba_build.pyramid.copy_journal import CopiedSlab, CopyJournal
from mastaba_build.pyramid.copying import Options, copy_pyramid
from mastaba_build.pyramid.history import log
from mastaba_build.work.build import build
from mastaba_build.work.reports import Reports


class Counting(ShelfStorage):
    """Counts the bytes that are read, and fails when a slab is written after some."""

    read_bytes = 0
    writes_left = 10**6

    def read(
        self, key: str, byte_range: ByteRange | None = None, version: str | None = None
    ) -> ObjectRead:
        found = super().read(key, byte_range, version)
        Counting.read_bytes += len(found.data)
        return found

    def write(self, key: str, data: bytes, *, only_if_absent: bool = False) -> str | None:
        if "/DATA" in key:
            Counting.writes_left -= 1
            if Counting.writes_left < 0:
                raise OSError(28, "No space left on device", key)
        return super().write(key, data, only_if_absent=only_if_absent)


COUNTING = "tests.build.test_copying:Counting"


@pytest.fixture
def shelves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Destination]:
    """Return a function that makes an object store and returns a prefix in it."""
    monkeypatch.chdir(tmp_path)
    Counting.read_bytes, Counting.writes_left = 0, 10**6

    def shelf(name: str) -> Destination:
        Path(name).mkdir(exist_ok=True)
        return Destination("shelf", name, "maps", COUNTING, "shelf_name")

    return shelf


@pytest.fixture
def pyramid(tmp_path: Path, plan_of: Callable[..., Plan]) -> Destination:
    """Return the directory of a pyramid with two versions, the second of which has links."""
    sheets = tmp_path / "sheets"
    sheets.mkdir()
    for number in range(6):
        write_sheet(sheets, number)
    built(plan_of(sheets, **OPTIONS, masks=True))
    write_sheet(sheets, 3, seed=1)
    assert build(
        plan_of(sheets, **OPTIONS, masks=True), Reports(StringIO(), StringIO()), update=True
    )
    return Destination.parse(str(tmp_path / "out"), {})


def objects(output: Destination) -> dict[str, str]:
    """Return the digests of all objects of a place, links resolved."""
    place = output.open()
    return {
        key: hashlib.sha256(place.read(key)).hexdigest()
        for key in place.list("")
        if not key.startswith(".")
    }


def tiles_of(output: Destination, name: str = "map") -> list[tuple[Any, bytes]]:
    place = output.open()
    return [(key, place.read(key)) for key in sorted(place.list(f"{name}/"))]


def test_copy_to_a_store_and_back(
    tmp_path: Path, pyramid: Destination, shelves: Callable[[str], Destination]
) -> None:
    store = shelves("one")
    copied = copy_pyramid(pyramid, "map", store, Options(verify=True))
    assert copied.before == 0
    assert [(one.number, one.published, one.linked > 0) for one in log(store.open(), "map")] == [
        (1, False, False),
        (2, True, True),
    ]
    layer = json.loads(store.open().read("map.layer.json"))
    assert layer["pyramids"][0]["path"] == "shelf://one/maps/map.json"
    storage = json.loads(store.open().read("map.json"))["levels"][0]["storage"]
    assert storage["type"] == "SHELF"
    assert storage["shelf_name"] == "one"
    # Links stay links.
    raw = ShelfStorage("one")
    starts = [raw.read(key, ByteRange(0, 8)).data for key in raw.list("maps/map_2/DATA_")]
    assert b"SYMLINK#" in starts
    assert any(start != b"SYMLINK#" for start in starts)

    back = Destination.parse(str(tmp_path / "back"), {})
    copy_pyramid(store, "map", back)
    assert (
        read_tiles(Path(back.prefix) / "map.json").keys()
        == read_tiles(Path(pyramid.prefix) / "map.json").keys()
    )
    first, last = objects(pyramid), objects(back)
    slabs = [key for key in first if "/DATA/" in key or "/MASK/" in key]
    assert slabs
    assert {key: first[key] for key in slabs} == {key: last[key] for key in slabs}
    linked = [key for key in slabs if (Path(pyramid.prefix) / key).is_symlink()]
    assert linked
    assert all((Path(back.prefix) / key).is_symlink() for key in linked)
    for key in ("map.json", "map_1.json", "map.build.json", "map.versions.json"):
        assert json.loads((Path(back.prefix) / key).read_text()) == json.loads(
            (Path(pyramid.prefix) / key).read_text()
        ), key


def test_no_byte_is_read_twice(pyramid: Destination, shelves: Callable[[str], Destination]) -> None:
    one, two = shelves("one"), shelves("two")
    copy_pyramid(pyramid, "map", one)
    Counting.read_bytes = 0
    copied = copy_pyramid(one, "map", two)
    assert Counting.read_bytes <= 1.1 * copied.bytes + 200_000  # and the documents


def test_few_slabs_wait_for_a_thread(
    pyramid: Destination, shelves: Callable[[str], Destination], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pyramid may have millions of them."""
    waiting: list[int] = []
    submitted: list[Any] = []

    class Watched(ThreadPoolExecutor):
        def submit(self, *call: Any, **options: Any) -> Any:
            submitted.append(super().submit(*call, **options))
            waiting.append(sum(not one.done() for one in submitted))
            return submitted[-1]

    monkeypatch.setattr(copying, "ThreadPoolExecutor", Watched)
    monkeypatch.setattr(copying, "_TOGETHER", 5)
    reports: list[tuple[int, int]] = []
    copied = copy_pyramid(
        pyramid, "map", shelves("store"), report=lambda *numbers: reports.append(numbers)
    )
    assert max(waiting) <= 5
    assert len(submitted) == copied.slabs > 10
    assert reports == [(number, copied.slabs) for number in range(1, copied.slabs + 1)]


def test_an_interrupted_copy_is_resumed(
    pyramid: Destination, shelves: Callable[[str], Destination], tmp_path: Path
) -> None:
    store = shelves("one")
    Counting.writes_left = 10
    with pytest.raises(OutputError, match="No space left"):
        copy_pyramid(pyramid, "map", store, Options(threads=1))
    assert store.open().stat("map.json") is None
    Counting.writes_left = 10**6
    copied = copy_pyramid(pyramid, "map", store, Options(threads=1))
    assert copied.before >= 10
    whole = shelves("two")
    fresh = copy_pyramid(pyramid, "map", whole)
    assert (fresh.before, fresh.slabs) == (0, copied.slabs + copied.before)
    assert [data for _, data in tiles_of(store)] == [data for _, data in tiles_of(whole)]
    assert not list(tmp_path.glob(".*.copy"))


@pytest.mark.parametrize("damage", ["lost", "short", "changed"])
def test_what_the_target_has_lost_is_copied_again(
    pyramid: Destination, shelves: Callable[[str], Destination], damage: str
) -> None:
    store, whole = shelves("one"), shelves("two")
    Counting.writes_left = 10
    with pytest.raises(OutputError, match="No space left"):
        copy_pyramid(pyramid, "map", store, Options(threads=1))
    Counting.writes_left = 10**6
    raw = ShelfStorage("one")
    key = next(iter(sorted(raw.list("maps/map/DATA_"))))
    data = raw.read(key).data
    raw.delete(key)
    if damage != "lost":
        raw.write(key, data[:-1] if damage == "short" else data[:-1] + bytes([data[-1] ^ 1]))
    copied = copy_pyramid(pyramid, "map", store, Options(verify=damage == "changed"))
    assert copied.before > 0
    copy_pyramid(pyramid, "map", whole)
    assert tiles_of(store) == tiles_of(whole)


def test_the_rate_is_kept(pyramid: Destination, tmp_path: Path) -> None:
    target = Destination.parse(str(tmp_path / "copy"), {})
    started = time.monotonic()
    copied = copy_pyramid(pyramid, "map", target, Options(rate=1e6, threads=4))
    # Only the last slab may be written without a wait.
    largest = max(path.stat().st_size for path in (tmp_path / "copy").rglob("*.tif"))
    assert time.monotonic() - started >= (copied.bytes - largest) / 1e6


def test_a_pyramid_is_not_replaced(
    pyramid: Destination, shelves: Callable[[str], Destination]
) -> None:
    copy_pyramid(pyramid, "map", shelves("one"))
    with pytest.raises(PlanError, match=r"map\.json exists"):
        copy_pyramid(pyramid, "map", shelves("one"))


def test_a_damaged_slab_is_found(
    pyramid: Destination, shelves: Callable[[str], Destination]
) -> None:
    slab = next(Path(pyramid.prefix, "map/DATA/12").rglob("*.tif"))
    data = bytearray(slab.read_bytes())
    data[-3] ^= 1
    slab.write_bytes(data)
    with pytest.raises(VerificationError, match="differs from the build record"):
        copy_pyramid(pyramid, "map", shelves("one"))
    assert shelves("one").open().stat("map.json") is None
    slab.unlink()
    with pytest.raises((VerificationError, OutputError), match=r"is missing|cannot be read"):
        copy_pyramid(pyramid, "map", shelves("two"))


def test_a_locked_target(pyramid: Destination, shelves: Callable[[str], Destination]) -> None:
    store = shelves("one")
    with locked(store.open(), "map.lock"), pytest.raises(LockedError):
        copy_pyramid(pyramid, "map", store)


def test_links_to_other_pyramids_become_slabs(
    tmp_path: Path, build_of: Build, shelves: Callable[[str], Destination]
) -> None:
    sheets = tmp_path / "sheets"
    sheets.mkdir()
    descriptor = build_of(write_sheet(sheets, 0), **OPTIONS)
    slab = next((descriptor.parent / "map/DATA/12").rglob("*.tif"))
    other = tmp_path / "elsewhere.tif"
    slab.rename(other)
    slab.symlink_to(other)
    store = shelves("one")
    copy_pyramid(Destination.parse(str(descriptor.parent), {}), "map", store)
    key = next(store.open().list("map/DATA_12"))
    assert store.open().read(key) == other.read_bytes()


@pytest.mark.parametrize("text", [None, "{}", '{"levels": []}', "["])
def test_no_such_pyramid(
    tmp_path: Path, shelves: Callable[[str], Destination], text: str | None
) -> None:
    if text is not None:
        (tmp_path / "map.json").write_text(text)
    with pytest.raises((PlanError, VerificationError), match="map"):
        copy_pyramid(Destination.parse(str(tmp_path), {}), "map", shelves("one"))


def test_pyramid_of_the_rok4_tools(shared_data: Path, tmp_path: Path) -> None:
    """A pyramid without build record, list of versions and layer beside it."""
    descriptor = next(iter(sorted((shared_data / "alps/pyramids").rglob("*.json"))))
    source = Destination.parse(str(descriptor.parent), {})
    target = Destination.parse(str(tmp_path / "copy"), {})
    copied = copy_pyramid(source, descriptor.stem, target, Options(verify=True))
    assert copied.slabs > 0
    levels = json.loads((tmp_path / "copy" / descriptor.name).read_text())["levels"]
    for level in levels:
        found = list(Path(tmp_path, "copy", level["storage"]["image_directory"]).rglob("*.tif"))
        assert found


def test_the_command(pyramid: Destination, tmp_path: Path) -> None:
    done = run("pyramid", "copy", f"{pyramid.prefix}/map.json", str(tmp_path / "copy"))
    assert done.returncode == 0, done.stderr
    assert "slabs copied" in done.stdout
    assert "Copying: 100 %" in done.stderr
    done = run("pyramid", "copy", f"{pyramid.prefix}/map.json", str(tmp_path / "copy"))
    assert done.returncode == 2
    assert "exists; remove it, or copy elsewhere" in done.stderr
    done = run("pyramid", "copy", "map", str(tmp_path / "copy"))
    assert done.returncode == 2
    assert "is not the descriptor of a pyramid" in done.stderr


def test_index_packs_are_written_anew(
    pyramid: Destination, shelves: Callable[[str], Destination], tmp_path: Path
) -> None:
    one, two = shelves("one"), shelves("two")
    copy_pyramid(pyramid, "map", one)
    pack_pyramid(one.open(), one, "map")
    assert list(one.open().list("map_2/INDEX_"))
    # The descriptor has changed, and the slabs have not: the version has two generations.
    history = vars(History.read(one.open(), "map"))
    current = digest_of(json.loads(one.open().read("map.json")))
    before = history["versions"]["2"]["former"]
    assert (
        history["published"][-1]["generation"] == history["versions"]["2"]["generation"] == current
    )
    assert before == [{"generation": history["published"][-2]["generation"], "state": "kept"}]
    copy_pyramid(one, "map", two)
    levels = json.loads(two.open().read("map.json"))["levels"]
    assert [one["storage"]["index_prefix"] for one in levels] == [
        f"maps/map_2/INDEX_{one['id']}" for one in levels
    ]
    assert len(list(two.open().list("map_2/INDEX_"))) == len(levels)
    files = Destination.parse(str(tmp_path / "files"), {})
    copy_pyramid(one, "map", files)
    text = (tmp_path / "files/map.json").read_text()
    assert "index_prefix" not in text


def test_a_slab_that_is_not_read_whole(
    pyramid: Destination, shelves: Callable[[str], Destination], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = shelves("one"), shelves("two")
    copy_pyramid(pyramid, "map", one)
    read = ShelfStorage.read

    def cut(
        self: ShelfStorage,
        key: str,
        byte_range: ByteRange | None = None,
        version: str | None = None,
    ) -> ObjectRead:
        found = read(self, key, byte_range, version)
        return found._replace(data=b"") if "/DATA" in key else found

    with monkeypatch.context() as broken:
        broken.setattr(ShelfStorage, "read", cut)
        with pytest.raises(OutputError, match="not read whole; copy again"):
            copy_pyramid(one, "map", two)
    copy_pyramid(one, "map", two)
    assert objects(two).keys() == objects(one).keys()


def test_a_slab_in_another_container_that_is_not_read_whole(
    pyramid: Destination, shelves: Callable[[str], Destination], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = shelves("one"), shelves("two")
    shelves("far")
    copy_pyramid(pyramid, "map", one)
    near, far = ShelfStorage("one"), ShelfStorage("far")
    key = next(key for key in near.list("maps/") if "/DATA_" in key)
    far.write("slab", near.read(key).data)
    near.write(key, b"SYMLINK#far/slab")
    read = ShelfStorage.read

    def cut(
        self: ShelfStorage,
        key: str,
        byte_range: ByteRange | None = None,
        version: str | None = None,
    ) -> ObjectRead:
        found = read(self, key, byte_range, version)
        return found._replace(data=b"") if key == "slab" else found

    monkeypatch.setattr(ShelfStorage, "read", cut)
    with pytest.raises(OutputError, match="the slab slab was replaced, or not read whole"):
        copy_pyramid(one, "map", two)


def test_a_journal_that_cannot_be_written(tmp_path: Path) -> None:
    with closing(CopyJournal(tmp_path / "journal")) as journal:
        with closing(sqlite3.connect(tmp_path / "journal")) as other:
            other.execute("DROP TABLE slabs")
        with pytest.raises(OutputError, match="journal cannot be used"):
            journal.put("key", CopiedSlab("", 0, "", ""))
        with pytest.raises(OutputError, match="journal cannot be used"):
            journal.get("key")
