"""Stacks: what they list, and that each publication renews them."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.build.conftest import Build
from tests.build.test_updates import OPTIONS, write_sheet
from tests.fork_server import ForkServer
from tests.series import write_value

from mastaba.api.catalogue import digest_of
from mastaba_build.errors import PlanError, VerificationError
from mastaba_build.output.stacks import renew_stacks, write_stack
from mastaba_build.output.storage import OutputStore

TEMPLATE = "ortho_{time}.json"


def rows(folder: Path, name: str = "ORTHO") -> dict[str, dict[str, Any]]:
    document = json.loads((folder / f"{name}.stack.json").read_text())
    return {row["path"]: row for row in document["variants"]}


def generation(folder: Path, name: str) -> str:
    return digest_of(json.loads((folder / name).read_text()))


def pyramids(folder: Path, *names: str) -> OutputStore:
    for name in names:
        write_value(folder, name, (1, 2, 3))
    return OutputStore.of_directory(folder / "pyramids")


def test_a_stack_lists_what_matches_and_nothing_else(tmp_path: Path) -> None:
    store = pyramids(tmp_path, "ortho_1950", "ortho_1978-06", "ortho_2023_2", "other_1950")
    place = tmp_path / "pyramids"
    for name in ("ortho_2023.layer.json", "ortho_1950.build.json"):
        (place / name).write_text("{}")
    count = write_stack(store, "ORTHO", TEMPLATE, "Flight of {time}", ("1950",))
    found = rows(place)
    assert count == 2
    assert list(found) == ["ortho_1950.json", "ortho_1978-06.json"]
    assert found["ortho_1950.json"] == {
        "at": {"time": "1950"},
        "path": "ortho_1950.json",
        "generation": generation(place, "ortho_1950.json"),
        "levels": {"2": [1, 1, 2, 2], "3": [2, 3, 4, 5]},
        "title": "Flight of 1950",
        "final": True,
    }
    # Titles stay.
    (place / "ortho_1978-06.json").unlink()
    write_stack(store, "ORTHO", TEMPLATE)
    assert {row["title"] for row in rows(place).values()} == {"Flight of 1950"}


def test_texts_do_not_match_the_documents_of_pyramids(tmp_path: Path) -> None:
    store = pyramids(tmp_path, "map_summer", "map_summer_2", "map_level_3")
    for name in ("map_summer.history.json", "map_summer.layer.json", "map_summer_sources.json"):
        (tmp_path / "pyramids" / name).write_text("{}")
    write_stack(store, "MAP", "map_{season}.json")
    # The first is a version of another one.
    assert list(rows(tmp_path / "pyramids", "MAP")) == ["map_level_3.json", "map_summer.json"]


@pytest.mark.parametrize("end", ["history", "versions"])
def test_a_pyramid_named_like_a_version_is_listed(tmp_path: Path, end: str) -> None:
    store = pyramids(tmp_path, "ortho", "ortho_1", "ortho_1950")
    versions = {"history": {"1": {}}, "versions": [{"number": 1}]}[end]
    store.write(f"ortho.{end}.json", json.dumps({"versions": versions}).encode())
    write_stack(store, "ORTHO", TEMPLATE)
    assert list(rows(tmp_path / "pyramids")) == ["ortho_1950.json"]


@pytest.mark.parametrize(
    "template",
    ["ortho.json", "{time}_{time}.json", "{time}/ortho.json", "o_{Time}.json", "o_{time}"],
)
def test_templates_that_cannot_be_used_are_refused(tmp_path: Path, template: str) -> None:
    with pytest.raises(PlanError):
        write_stack(OutputStore.of_directory(tmp_path), "ORTHO", template)
    assert not list(tmp_path.iterdir())


def test_faults_are_named(tmp_path: Path) -> None:
    store = pyramids(tmp_path, "ortho_1950")
    with pytest.raises(PlanError, match="matches nothing_"):
        write_stack(store, "ORTHO", "nothing_{time}.json")
    with pytest.raises(PlanError, match="year"):
        write_stack(store, "ORTHO", TEMPLATE, "{year}")
    write_stack(store, "ORTHO", TEMPLATE)
    (tmp_path / "pyramids/ORTHO.stack.json").write_text("[")
    with pytest.raises(VerificationError, match=r"ORTHO\.stack\.json"):
        renew_stacks(store, "ortho_1950")


def test_each_publication_renews_the_entry_of_its_pyramid(
    tmp_path: Path, build_of: Build, fork_server: ForkServer
) -> None:
    sheets = tmp_path / "sheets"
    sheets.mkdir()
    write_sheet(sheets, 0)
    options = {**OPTIONS, "top": "11"}
    build_of(sheets, name="ortho_1950", **options)
    place = tmp_path / "out"
    words = ("ORTHO", "--output", place, "--template", TEMPLATE, "--final", "1950")
    done = fork_server.run("pyramid", "stack", *words)
    assert (done.returncode, done.stdout) == (
        0,
        "ORTHO.stack.json lists 1 pyramids; reload the server\n",
    )
    before = rows(place)["ortho_1950.json"]
    # A further value, and one that the template does not match.
    build_of(sheets, name="ortho_1978", **options)
    build_of(sheets, name="relief", **options)
    after = rows(place)
    assert list(after) == ["ortho_1950.json", "ortho_1978.json"]
    assert after["ortho_1950.json"] == before
    assert before["final"] is True
    assert after["ortho_1978.json"]["generation"] == generation(place, "ortho_1978.json")
    # Without the stack, publications write none.
    (place / "ORTHO.stack.json").unlink()
    build_of(sheets, name="ortho_1990", **options)
    assert not (place / "ORTHO.stack.json").exists()


def test_publications_at_the_same_time_lose_no_entry(tmp_path: Path) -> None:
    names = [f"ortho_{year}" for year in range(1950, 1956)]
    store = pyramids(tmp_path, *names)
    place = tmp_path / "pyramids"
    write_stack(store, "ORTHO", TEMPLATE)
    (place / "ORTHO.stack.json").write_text('{"variants": []}')
    with ThreadPoolExecutor(3) as threads:
        list(threads.map(lambda name: renew_stacks(store, name), names))
    assert list(rows(place)) == [f"{name}.json" for name in names]
