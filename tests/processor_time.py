"""A pytest plugin that reports the processor time of tests: ``-p tests.processor_time``.

It counts the process of the tests and the processes that the tests waited for. Time that a fixture
takes belongs to the first test that needs it, and the imports of a module to collection. Programs
of `tests/fork_server.py` belong to no test: they are counted when their server ends.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

LONGEST = 25
"""Folders, files and tests in the report, each."""

_NAME = "processor seconds"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    yield from _measured(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    yield from _measured(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    yield from _measured(item)


def _measured(item: pytest.Item) -> Iterator[None]:
    before = _processor_time()
    try:
        return (yield)
    finally:
        item.user_properties.append((_NAME, _processor_time() - before))


def phases(report: pytest.TestReport) -> list[Any]:
    """Return the seconds of the phases of a test up to that of a report, its setup first."""
    return [value for name, value in report.user_properties if name == _NAME]


def _processor_time() -> float:
    """Return the seconds of this process and of its children that have exited."""
    return sum(os.times()[:4])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    tests: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            # The report of the teardown has the times of all phases.
            if getattr(report, "when", None) == "teardown":
                tests[report.nodeid] = sum(phases(report))
    files: Counter[str] = Counter()
    folders: Counter[str] = Counter()
    for test, seconds in tests.items():
        file = test.partition("::")[0]
        files[file] += seconds
        folders[file.rpartition("/")[0]] += seconds
    terminalreporter.section(f"{sum(tests.values()):.1f} s of processor time in tests")
    for counted in (folders, files, tests):
        for name, seconds in counted.most_common(LONGEST):
            terminalreporter.write_line(f"{seconds:8.2f}  {name}")
        terminalreporter.write_line("")
