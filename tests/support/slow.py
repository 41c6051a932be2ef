"""Tests that are thorough because they take long: those of the functions in tests/slow.txt.

The list is measured, not written by hand: ``make slow-tests``. Processor time is measured, because
other programs change it little.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest
from tests.processor_time import phases
from tests.support.sampling import function_of

SECONDS: Final = 0.08
"""A test that takes more processor time, without its fixtures, is not quick."""
_LIST: Final = Path(__file__).parents[1] / "slow.txt"


def mark_slow(items: Sequence[pytest.Item]) -> None:
    """Mark the tests of listed functions as thorough."""
    listed = frozenset(_LIST.read_text("utf-8").splitlines())
    for item in items:
        if function_of(item.nodeid) in listed:
            item.add_marker(pytest.mark.thorough)


class Recorder:
    """A pytest plugin that writes the list anew; it needs `tests.processor_time`.

    Functions whose tests have not run are removed from it.
    """

    def __init__(self) -> None:
        self._seconds: dict[str, list[float]] = defaultdict(list)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            _setup, seconds = phases(report)
            self._seconds[function_of(report.nodeid)].append(seconds)

    def pytest_sessionfinish(self) -> None:
        means = {name: sum(found) / len(found) for name, found in self._seconds.items()}
        slow = sorted(name for name, mean in means.items() if mean > SECONDS)
        _LIST.write_text("".join(f"{name}\n" for name in slow), "utf-8")
