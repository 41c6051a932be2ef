"""The kit reports every wrong plugin, and passes right ones.

The tables of wrong plugins are in `wrong_storages`, `wrong_services` and `wrong_encoders`. Each
table is run in one process of its own, with the tests that must report each plugin.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest
from tests.conformance import wrong_encoders, wrong_services, wrong_storages

REPOSITORY = Path(__file__).parents[2]

Result = dict[str, Counter[str]]


def run_kit(directory: Path, nodes: list[str], *options: str) -> tuple[Result, str]:
    """Run tests in a process of their own.

    Returns:
        How often each outcome (passed, failed, skipped) occurs, by name of the test class; and
        what pytest prints.
    """
    arguments, junit = directory / "nodes.txt", directory / "junit.xml"
    arguments.write_text("\n".join(nodes))
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-c", directory / "none.ini"),
            *("--rootdir", REPOSITORY, "--noconftest", "--import-mode=importlib"),
            *("--disable-plugin-autoload", "-p", "mastaba_conformance.plugin"),
            *("-p", "no:cacheprovider", "-W", "error", "--basetemp", directory / "tmp"),
            *("--junitxml", junit, *options, f"@{arguments}"),
        ],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert junit.is_file(), ended.stdout + ended.stderr
    results: Result = {}
    for case in ElementTree.parse(junit).iter("testcase"):
        kinds = {element.tag for element in case}
        outcome = (
            "failed"
            if kinds & {"failure", "error"}
            else "skipped"
            if "skipped" in kinds
            else "passed"
        )
        name = case.get("classname", "").rpartition(".")[2]
        results.setdefault(name, Counter())[outcome] += 1
    return results, ended.stdout


@pytest.fixture
def ini(tmp_path: Path) -> None:
    (tmp_path / "none.ini").write_text("[pytest]\n")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("module", "least"),
    [(wrong_storages, 150), (wrong_services, 62), (wrong_encoders, 40)],
    ids=lambda value: getattr(value, "__name__", "").rpartition(".")[2],
)
@pytest.mark.usefixtures("ini")
def test_every_wrong_plugin_is_reported_and_right_ones_pass(
    module: ModuleType, least: int, tmp_path: Path
) -> None:
    file = f"tests/conformance/{Path(module.__file__ or '').name}"
    assert len(module.WRONG) >= least

    # Tracebacks of hundreds of failures would take a quarter of the time.
    results, output = run_kit(tmp_path, [file], "--tb=no", "-rf")

    right = results.pop("TestRight")
    assert right["passed"] > 20
    assert right["failed"] == 0, output[-8000:]
    # The right service takes no POST, and has no abilities.
    assert right["skipped"] == (2 if module is wrong_services else 0)
    assert set(results) == {f"Test{plugin.__name__}" for plugin in module.WRONG}
    assert [name for name, counts in results.items() if not counts["failed"]] == []


@pytest.fixture(scope="module")
def plain_output(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return what pytest prints for a few tests, without options of the kit."""
    directory = tmp_path_factory.mktemp("plain")
    (directory / "none.ini").write_text("[pytest]\n")
    file = "tests/conformance/wrong_storages.py"
    nodes = [
        f"{file}::TestRight::test_exists",
        f"{file}::TestHangsOnRead::test_whole_object",
        f"{file}::TestHangsOnOpen::test_whole_object",
        f"{file}::TestHangsOnClose::test_whole_object",
        f"{file}::TestHangsInChildren::test_child_process_can_read",
    ]
    return run_kit(directory, nodes)[1]


@pytest.mark.thorough
def test_a_hanging_driver_is_reported_with_its_place(plain_output: str) -> None:
    assert "the test hangs: it has not finished after 1 s" in plain_output
    assert "opening the storage hangs" in plain_output
    assert "close hangs" in plain_output
    assert "the driver fails in a child process" in plain_output
    assert "a read after a fork hangs" in plain_output
    assert "wrong_storages.py" in plain_output
    assert "threading.Event().wait()" in plain_output


@pytest.mark.usefixtures("ini")
def test_report_counts_the_tests_of_each_level(tmp_path: Path) -> None:
    file = "tests/conformance/wrong_storages.py"
    nodes = [
        f"{file}::TestRight::test_range",
        f"{file}::TestRight::test_whole_object",
        f"{file}::TestIncludesTheEnd::test_range",
        f"{file}::TestNoVersions::test_other_versions_are_refused",
        "tests/storage/test_file_conformance.py::TestFileStorage::test_silent_store_is_reported",
    ]
    _, output = run_kit(tmp_path, nodes, "--mastaba-report")
    _, _, report = output.partition("Mastaba conformance")
    rows = [line.split() for line in report.splitlines() if line.startswith(("Test", "  "))]
    columns = ["tests", "passed", "failed", "not", "declared"]
    assert rows == [
        ["TestFileStorage", "(storage", "driver)", *columns],
        ["faults", "1", "0", "0", "1"],
        ["TestIncludesTheEnd", "(storage", "driver)", *columns],
        ["ranges", "6", "3", "3", "0"],
        ["TestNoVersions", "(storage", "driver)", *columns],
        ["versions", "4", "0", "4", "0"],
        ["TestRight", "(storage", "driver)", *columns],
        ["reads", "1", "1", "0", "0"],
        ["ranges", "6", "6", "0", "0"],
    ]


def test_nothing_is_reported_unless_it_is_requested(plain_output: str) -> None:
    # A driver that hangs when it is opened or closed is an error of the fixture.
    assert "2 failed, 2 passed, 2 errors" in plain_output
    assert "Mastaba conformance" not in plain_output
