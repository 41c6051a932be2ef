"""Histories of pyramids: publications, changes, pins, and what prune keeps."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from tests.build.conftest import Build
from tests.build.ground import read_payloads
from tests.build.test_join import joined
from tests.build.test_updates import FIRST, OPTIONS, SIDE, write_sheet
from tests.fork_server import ForkServer

from mastaba.api.catalogue import digest_of
from mastaba.commands.main import main
from mastaba_build.errors import LockedError, OutputError, PlanError, VerificationError
from mastaba_build.output.destination import Destination
from mastaba_build.output.history import History, Note
from mastaba_build.output.lock import locked
from mastaba_build.output.storage import OutputStore
from mastaba_build.output.versions import read_roots
from mastaba_build.plan.plan import Plan
from mastaba_build.pyramid.copying import copy_pyramid
from mastaba_build.pyramid.history import log, rollback
from mastaba_build.pyramid.pins import pin, unpin
from mastaba_build.pyramid.pruning import prune, withdraw
from mastaba_build.work.build import build
from mastaba_build.work.reports import Reports
from mastaba_history import records as served_histories

CHEAP = {**OPTIONS, "top": "11"}
PlanOf = Callable[..., Plan]
Tiles = dict[Any, bytes]


@pytest.fixture
def few(tmp_path: Path) -> Path:
    """Return a folder with sheets at its corners, which later ones do not extend."""
    folder = tmp_path / "sheets"
    folder.mkdir()
    for number in (0, SIDE * SIDE - 1):
        write_sheet(folder, number)
    return folder


def document(folder: Path, name: str) -> Any:
    if name.endswith(".history.json"):
        # Of which the document itself leaves out what follows from the rest.
        return vars(History.read(store_of(folder), name.removesuffix(".history.json")))
    return json.loads((folder / "out" / name).read_text())


def generation(folder: Path, name: str = "map.json") -> str:
    return digest_of(document(folder, name))


def updated(plan: Plan, update: str = "new", message: str = "") -> None:
    errors = StringIO()
    assert build(plan, Reports(StringIO(), errors), update=update, message=message)


def store_of(folder: Path) -> OutputStore:
    return OutputStore.of_directory(folder / "out")


def expanded(runs: list[list[int]]) -> list[tuple[int, int]]:
    return [(row, col) for row, first, last in runs for col in range(first, last + 1)]


def check_changes(folder: Path, number: int, before: Tiles, after: Tiles) -> None:
    """Compare the document of changes of a version with all tiles of the finest level."""
    found = document(folder, f"map_{number}.changes.json")
    level = str(OPTIONS["bottom"])
    assert found["level"] == level
    old, new = (
        {key[1:]: data for key, data in tiles.items() if key[0] == level}
        for tiles in (before, after)
    )
    keys = old.keys() | new.keys()
    assert expanded(found["tiles"]) == sorted(k for k in keys if old.get(k) != new.get(k))
    assert expanded(found["added"]) == sorted(new.keys() - old.keys())
    assert expanded(found["removed"]) == sorted(old.keys() - new.keys())


def test_publications_and_changes_are_recorded(
    few: Path, tmp_path: Path, plan_of: PlanOf, build_of: Build, fork_server: ForkServer
) -> None:
    # Two tiles in a slab: one of them stays.
    chosen = {**CHEAP, "slab": [2, 2]}
    write_sheet(few, 1)
    descriptor = build_of(few, **chosen)
    first = read_payloads(descriptor)
    assert (tmp_path / "out/map_1.json").read_bytes() == descriptor.read_bytes()
    assert not (tmp_path / "out/map.versions.json").exists()
    write_sheet(few, 1, seed=1)
    write_sheet(few, 7)
    updated(plan_of(few, **chosen), message="two sheets")
    check_changes(tmp_path, 2, first, read_payloads(descriptor))
    changes = document(tmp_path, "map_2.changes.json")
    assert changes["tiles"] == [[FIRST, FIRST + 1, FIRST + 1], [FIRST + 1, FIRST + 1, FIRST + 1]]
    assert list(changes["slabs"]) == ["11"]
    again = fork_server.run(
        "pyramid", "rollback", "map", "--output", tmp_path / "out", "--message", "no"
    )
    assert again.returncode == 0, again.stderr
    history = document(tmp_path, "map.history.json")
    old, new = generation(tmp_path, "map_1.json"), generation(tmp_path, "map_2.json")
    assert [
        (row["generation"], row["number"], row["by"], row["message"])
        for row in history["published"]
    ] == [(old, 1, "build", ""), (new, 2, "update", "two sheets"), (old, 1, "rollback", "no")]
    times = [row["from"] for row in history["published"]]
    assert times == sorted(times)
    entry = history["versions"]["2"]
    assert (entry["since"], entry["state"]) == (old, "kept")
    assert entry["sources"] == {"added": 1, "removed": 0, "changed": 1}
    assert entry["bbox"] == pytest.approx(document(tmp_path, "map_2.json")["update"]["bbox"])
    # To publish what is published already is no publication.
    rollback(store_of(tmp_path), "map", 1)
    assert document(tmp_path, "map.history.json") == history
    assert [one.message for one in log(store_of(tmp_path), "map")] == ["", "two sheets"]


def test_a_history_of_hundreds_of_versions_is_small(tmp_path: Path) -> None:
    history = History()
    for number in range(1, 301):
        version = {
            "generation": f"{number:012x}",
            "built": "2026-11-28T18:58:06Z",
            "bbox": [652000.12, 6861999.88, 653000.12, 6862999.88],
            "sources": {"added": 0, "removed": 0, "changed": 1},
            "slabs": {"written": 12, "linked": 3456},
            "state": "kept",
            **({"since": f"{number - 1:012x}"} if number > 1 else {}),
        }
        history.set_version(number, version)
        history.publish(version["generation"], number, Note("update"))
    history.set_version(7, {**history.versions["7"], "generation": "f" * 12})
    store = store_of(tmp_path)
    history.write(store, "map")
    data = (tmp_path / "out/map.history.json").read_bytes()
    assert len(data) <= 64 * 1024
    again = History.read(store, "map")
    assert again is not None
    assert vars(again) == vars(history)
    served = served_histories.History.parse(data, f"{300:012x}")
    # As older programs write it.
    assert served == served_histories.History.parse(
        json.dumps(vars(history)).encode(), f"{300:012x}"
    )
    assert served is not None
    assert len(served.published) == 300


def test_pyramids_of_older_programs_get_a_history(
    few: Path, tmp_path: Path, plan_of: PlanOf, build_of: Build
) -> None:
    build_of(few, **CHEAP)
    out = tmp_path / "out"
    for path in (*out.glob("map_1.*"), out / "map.history.json"):
        path.unlink()
    assert [one.published for one in log(store_of(tmp_path), "map")] == [True]
    write_sheet(few, 0, seed=1)
    updated(plan_of(few, **CHEAP))
    history = document(tmp_path, "map.history.json")
    assert list(history["versions"]) == ["1", "2"]
    assert [row["number"] for row in history["published"]] == [1, 2]
    # An older program publishes another version, and writes no history.
    write_sheet(few, 0, seed=2)
    updated(plan_of(few, **CHEAP))
    for end in (".list", ".build.json", ".json"):
        (out / f"map{end}").write_bytes((out / f"map_1{end}").read_bytes())
    rollback(store_of(tmp_path), "map", 2)
    history = document(tmp_path, "map.history.json")
    assert [row["number"] for row in history["published"]] == [1, 2, 3, 1, 2]


def test_an_interrupted_publication_is_not_in_the_history(
    few: Path, tmp_path: Path, plan_of: PlanOf, build_of: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_of(few, **CHEAP)
    write_sheet(few, 0, seed=1)
    write = OutputStore.write

    def fail(self: OutputStore, key: str, *args: Any, **more: Any) -> Any:
        if key == "map.json":
            raise OutputError("the disk is full")
        return write(self, key, *args, **more)

    with monkeypatch.context() as patch:
        patch.setattr(OutputStore, "write", fail)
        with pytest.raises(OutputError):
            updated(plan_of(few, **CHEAP))
    history = document(tmp_path, "map.history.json")
    assert history["published"][-1]["generation"] != generation(tmp_path)
    write_sheet(few, 0, seed=2)
    updated(plan_of(few, **CHEAP))
    rows = document(tmp_path, "map.history.json")["published"]
    assert [row["number"] for row in rows] == [1, 3]


def test_injected_slabs_make_another_generation(
    few: Path, tmp_path: Path, plan_of: PlanOf, build_of: Build
) -> None:
    build_of(few, **CHEAP)
    before = generation(tmp_path)
    for revision in (1, 2):
        write_sheet(few, 0, seed=revision)
        updated(plan_of(few, **CHEAP), "inject")
        assert document(tmp_path, "map.json")["revision"] == revision
    assert document(tmp_path, "map_1.json") == document(tmp_path, "map.json")
    entry = document(tmp_path, "map.history.json")["versions"]["1"]
    assert (entry["generation"], entry["state"]) == (generation(tmp_path), "kept")
    assert entry["former"][0] == {"generation": before, "state": "injected"}
    assert len(entry["former"]) == 2


def test_the_documents_of_another_pyramid_are_not_replaced(few: Path, build_of: Build) -> None:
    build_of(few, **CHEAP, name="map_1")
    with pytest.raises(PlanError, match="another pyramid"):
        build_of(few, **CHEAP)


def test_prune_keeps_what_is_pinned_or_was_published_lately(
    few: Path, tmp_path: Path, plan_of: PlanOf, build_of: Build, fork_server: ForkServer
) -> None:
    chosen = {**CHEAP, "retention": {"linked_days": 30}}
    descriptor, store = build_of(few, **chosen), store_of(tmp_path)
    payloads = [read_payloads(descriptor)]
    for seed in (1, 2, 3, 4):
        write_sheet(few, 0, seed=seed)
        updated(plan_of(few, **chosen))
        payloads.append(read_payloads(descriptor))
    assert set(prune(store, "map", 1).kept) == {1, 2, 3, 4}
    # The third version was published again 20 days ago, the others long ago.
    history = document(tmp_path, "map.history.json")
    for row, days in zip(history["published"], (90, 80, 70, 60, 50), strict=True):
        row["from"] = (datetime.now(UTC) - timedelta(days)).isoformat()[:23] + "Z"
    history["published"].insert(4, {**history["published"][2]})
    for row, days in zip(history["published"][4:], (40, 20), strict=True):
        row["from"] = (datetime.now(UTC) - timedelta(days)).isoformat()[:23] + "Z"
    (tmp_path / "out/map.history.json").write_text(json.dumps(history))
    out = ("--output", tmp_path / "out")
    pinned = fork_server.run(
        "pyramid", "pin", "map", "2", "--reason", "a book", "--by", "ann", *out
    )
    assert pinned.returncode == 0, pinned.stderr
    pin(store, "map", 1, "bob", until="2020-01-01")
    with pytest.raises(PlanError, match="not a date"):
        pin(store, "map", 1, "bob", until="tomorrow")
    with pytest.raises(PlanError, match=r"pinned by ann \(a book\); unpin it"):
        withdraw(store, "map", 2)
    done = prune(store, "map", 1)
    assert done.kept == {2: "pinned by ann (a book)", 3: "published in the last 30 days"}
    assert done.versions == 2
    assert [one.number for one in log(store, "map")] == [2, 3, 5]
    for number in (2, 3, 5):
        assert read_payloads(tmp_path / f"out/map_{number}.json") == payloads[number - 1]
    states = {k: v["state"] for k, v in document(tmp_path, "map.history.json")["versions"].items()}
    assert states == dict(zip("12345", ("pruned", "kept", "kept", "pruned", "kept"), strict=True))
    with pytest.raises(PlanError, match="pinned by ann"):
        build(plan_of(few, **CHEAP), Reports(StringIO(), StringIO()), replace=True)
    assert unpin(store, "map", 2, "bob") == (0, [])
    assert unpin(store, "map", 2) == (1, [])
    with pytest.raises(PlanError, match="publish another one first"):
        withdraw(store, "map", 5)
    shown = fork_server.run("pyramid", "withdraw", "map", "2", *out).stdout
    assert f"purge gen-{history['versions']['2']['generation']}" in shown
    assert document(tmp_path, "map.history.json")["versions"]["2"]["state"] == "withdrawn"
    assert not (tmp_path / "out/map_2.json").exists()
    assert read_payloads(descriptor) == payloads[4]


def test_damaged_documents_remove_nothing_and_are_reported(
    few: Path,
    tmp_path: Path,
    plan_of: PlanOf,
    build_of: Build,
    capsys: pytest.CaptureFixture[str],
) -> None:
    build_of(few, **CHEAP)
    store = store_of(tmp_path)
    write_sheet(few, 0, seed=1)
    updated(plan_of(few, **CHEAP))
    victim = tmp_path / "victim/file"
    victim.parent.mkdir()
    victim.touch()
    listed = document(tmp_path, "map.versions.json")
    other = plan_of(few, **{**CHEAP, "format": "png"})
    first = listed["versions"][0]
    for damage in (
        *({"roots": [root]} for root in ("../victim", "..", "", "other", 5, [])),
        *({"roots": roots} for roots in (5, None, {"map": 1})),
        *({"versions": [first | {"number": number}]} for number in ("2", None, True, 1.0)),
        *({"versions": versions} for versions in (5, [5], [{}], [first | {"root": 5}])),
        *({"versions": [first | {"root": root}]} for root in ("../victim", "other", "", "map_2/")),
        None,
    ):
        text = "[" * 200_000 if damage is None else json.dumps(listed | damage)
        (tmp_path / "out/map.versions.json").write_text(text)
        with pytest.raises(VerificationError, match=r"map\.versions\.json is damaged") as pruned:
            prune(store, "map", 1, linked_days=0)
        with pytest.raises(VerificationError, match=r"map\.versions\.json is damaged") as replaced:
            build(other, Reports(StringIO(), StringIO()), replace=True)
        for found in (pruned, replaced):
            # What is said to be wrong is where it is said to be.
            assert ("`roots`" in str(found.value)) == ("roots" in (damage or {}))
            assert ("nested too deeply" in str(found.value)) == (damage is None)
    with pytest.raises(VerificationError, match="nested too deeply"):
        read_roots(store, "map")
    assert victim.exists()
    assert (tmp_path / "out/map.json").exists()
    (tmp_path / "out/map.versions.json").write_text(json.dumps(listed))
    for end in ("history", "pins", "build"):
        path = tmp_path / f"out/map.{end}.json"
        before = path.read_bytes() if path.exists() else b"[]"
        path.write_text("[" * 200_000)
        with pytest.raises(VerificationError, match="nested too deeply"):
            build(other, Reports(StringIO(), StringIO()), replace=end != "build")
        path.write_bytes(before)
    (tmp_path / "out/map.pins.json").write_text("[" * 200_000)
    assert main(["pyramid", "log", "map", "--output", str(tmp_path / "out")]) == 4
    assert "nested too deeply" in capsys.readouterr().err


def test_a_build_record_with_the_root_of_another_pyramid_is_reported(
    few: Path, tmp_path: Path, plan_of: PlanOf, build_of: Build
) -> None:
    build_of(few, **CHEAP)
    store = store_of(tmp_path)
    record = document(tmp_path, "map.build.json")
    write_sheet(few, 0, seed=1)
    for root in ("../victim", "other", "", "map_2/", 5):
        (tmp_path / "out/map.build.json").write_text(json.dumps(record | {"root": root}))
        for command in (
            lambda: prune(store, "map", 1, linked_days=0),
            lambda: log(store, "map"),
            lambda: updated(plan_of(few, **CHEAP)),
        ):
            with pytest.raises(VerificationError, match=r"map\.build\.json is damaged: .* `root`$"):
                command()


def test_a_join_pins_its_sources(
    few: Path, tmp_path: Path, plan_of: PlanOf, build_of: Build
) -> None:
    descriptor, store = build_of(few, **CHEAP), store_of(tmp_path)
    whole = joined(tmp_path / "whole", descriptor)
    before = read_payloads(whole)
    write_sheet(few, 0, seed=1)
    updated(plan_of(few, **CHEAP))
    done = prune(store, "map", 1, linked_days=0)
    assert done.kept == {1: f"pinned by {whole} (it links to slabs of this version)"}
    assert read_payloads(whole) == before
    # A builder that holds the lock could remove what is being pinned.
    with locked(store, "map.lock"), pytest.raises(LockedError):
        joined(tmp_path / "other", descriptor, name="other")
    # The descriptor of a version that is no longer published.
    joined(tmp_path / "third", tmp_path / "out/map_1.json", name="third")
    assert len(document(tmp_path, "map.pins.json")) == 2
    # Only its name removes the pin of a pyramid that links.
    pin(store, "map", 1, "ann")
    third = str(tmp_path / "third/third.json")
    assert unpin(store, "map", 1) == (1, [str(whole), third])
    assert prune(store, "map", 1, linked_days=0).versions == 0
    assert unpin(store, "map", 1, str(whole)) == (1, [])
    assert [one["by"] for one in document(tmp_path, "map.pins.json")] == [third]


def test_a_copy_has_a_history_of_its_own(
    few: Path, tmp_path: Path, plan_of: PlanOf, build_of: Build
) -> None:
    build_of(few, **CHEAP)
    write_sheet(few, 0, seed=1)
    updated(plan_of(few, **CHEAP), message="new sheet")
    target = tmp_path / "copy/deep"
    copy_pyramid(Destination.parse(str(tmp_path / "out")), "map", Destination.parse(str(target)))
    history = vars(History.read(OutputStore.of_directory(target), "map"))
    for number, entry in history["versions"].items():
        descriptor = json.loads((target / f"map_{number}.json").read_text())
        assert entry["generation"] == digest_of(descriptor)
    assert history["published"][-1]["generation"] == digest_of(
        json.loads((target / "map.json").read_text())
    )
    assert (target / "map_2.changes.json").exists()


@pytest.mark.thorough
def test_every_version_stays_as_it_was_published(
    few: Path, tmp_path: Path, plan_of: PlanOf, build_of: Build
) -> None:
    chance = random.Random(11)
    chosen = {**CHEAP, "slab": [2, 2]}
    descriptor = build_of(few, **chosen)
    payloads = {generation(tmp_path): read_payloads(descriptor)}
    for seed in range(1, 21):
        before = read_payloads(descriptor)
        for number in chance.sample(range(1, SIDE * SIDE - 1), 3):
            path = few / f"{number:03}.tif"
            if path.exists() and chance.random() < 0.4:
                path.unlink()
            else:
                write_sheet(few, number, seed)
        updated(plan_of(few, **chosen))
        check_changes(tmp_path, seed + 1, before, read_payloads(descriptor))
        payloads[generation(tmp_path)] = read_payloads(descriptor)
        if seed % 6 == 0:
            rollback(store_of(tmp_path), "map", chance.randrange(1, seed))
    versions = document(tmp_path, "map.history.json")["versions"]
    assert len(versions) == len(payloads) == 21
    for number, entry in versions.items():
        path = tmp_path / f"out/map_{number}.json"
        assert generation(tmp_path, path.name) == entry["generation"]
        assert read_payloads(path) == payloads[entry["generation"]]


class KilledError(BaseException):
    """Stands for a kill: nothing of the program runs after it."""


@pytest.mark.thorough
def test_pruned_in_any_order_and_killed_in_between(
    few: Path, tmp_path: Path, plan_of: PlanOf, build_of: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    descriptor, store = build_of(few, **CHEAP), store_of(tmp_path)
    payloads = {1: read_payloads(descriptor)}
    chance = random.Random(5)
    # Older than the days of the rules.
    monkeypatch.setattr("mastaba_build.output.history.now", lambda: "2020-01-01T00:00:00.000Z")
    calls = {"left": 10**9}

    def dying(call: Callable[..., Any]) -> Callable[..., Any]:
        def run(self: OutputStore, key: str, *args: Any, **more: Any) -> Any:
            if not key.endswith(".lock"):
                calls["left"] -= 1
                if calls["left"] < 0:
                    raise KilledError
            return call(self, key, *args, **more)

        return run

    for name in ("write", "delete"):
        monkeypatch.setattr(OutputStore, name, dying(getattr(OutputStore, name)))
    number = 1
    pinned: set[int] = set()
    # Pyramids that link to slabs of a version, which they have pinned.
    linking: dict[Path, tuple[int, Tiles]] = {}
    for turn in range(30):
        for _ in range(chance.randint(1, 3)):
            number += 1
            write_sheet(few, chance.choice((0, 3, 8, 20)), number)
            updated(plan_of(few, **CHEAP))
            payloads[number] = read_payloads(descriptor)
        known = [one.number for one in log(store, "map")]
        if chance.random() < 0.5:
            rollback(store, "map", chance.choice(known))
        if chance.random() < 0.6:
            pinned.add(one := chance.choice(known))
            pin(store, "map", one, "ann")
        if pinned and chance.random() < 0.4:
            unpin(store, "map", one := chance.choice(sorted(pinned)), "ann")
            pinned.discard(one)
        current = next(one.number for one in log(store, "map") if one.published)
        if chance.random() < 0.4:
            whole = joined(tmp_path / f"whole_{turn}", descriptor)
            linking[whole] = current, read_payloads(whole)
        if linking and chance.random() < 0.3:
            whole = chance.choice(sorted(linking))
            assert unpin(store, "map", linking.pop(whole)[0], str(whole)) == (1, [])
        keep = chance.randint(1, 4)
        calls["left"] = chance.randint(0, 12)
        with suppress(KilledError):
            prune(store, "map", keep, linked_days=0)
        calls["left"] = 10**9
        prune(store, "map", keep, linked_days=0)
        kept = {one.number for one in log(store, "map")}
        joins = {version for version, _ in linking.values()}
        assert kept == pinned | joins | {current} | set(known[-keep:])
        for whole, (_, tiles) in linking.items():
            assert read_payloads(whole) == tiles
        for one in kept:
            assert read_payloads(tmp_path / f"out/map_{one}.json") == payloads[one]
        states = document(tmp_path, "map.history.json")["versions"]
        assert {int(key) for key, entry in states.items() if entry["state"] == "kept"} == kept
        assert {
            int(path.stem.rpartition("_")[2]) for path in (tmp_path / "out").glob("map_*.list")
        } == kept
