"""The pytest plugin of the conformance tests: time limits and ``--mastaba-report``.

pytest loads it in every run of an environment that has the kit, so it imports nothing heavy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from mastaba_conformance.deadline import within

for _module in ("storage", "services", "encoders", "containers"):
    pytest.register_assert_rewrite(f"mastaba_conformance.{_module}")

_PROPERTY = "mastaba conformance"
_COLUMNS = ("tests", "passed", "failed", "not declared")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("mastaba").addoption(
        "--mastaba-report",
        action="store_true",
        help="print how many conformance tests of each level passed",
    )


def pytest_itemcollected(item: pytest.Item) -> None:
    if isinstance(item, pytest.Function) and (level := _level(item)) is not None:
        title = f"{item.cls.__name__} ({item.cls.kit})"
        item.user_properties.append((_PROPERTY, (title, item.cls.levels.index(level), level)))


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[None]:
    if _level(pyfuncitem) is None:
        return (yield)
    test = pyfuncitem.obj
    limit = pyfuncitem.cls.time_limit

    def limited(**arguments: Any) -> None:
        within(limit, "the test", lambda: test(**arguments))

    pyfuncitem.obj = limited
    try:
        return (yield)
    finally:
        pyfuncitem.obj = test


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if not config.getoption("mastaba_report"):
        return
    outcomes = _outcomes(terminalreporter)
    terminalreporter.section("Mastaba conformance")
    if not outcomes:
        terminalreporter.line("no conformance tests were run")
    title = ""
    for (plugin, _, level), counts in sorted(outcomes.items()):
        if plugin != title:
            title = plugin
            terminalreporter.line(f"{title:40}" + "".join(f"{name:>14}" for name in _COLUMNS))
        row = "".join(f"{counts[name]:14}" for name in _COLUMNS)
        colour = {"red": True} if counts["failed"] else {"green": True} if counts["passed"] else {}
        terminalreporter.line(f"  {level:38}{row}", **colour)


def _level(item: pytest.Function) -> str | None:
    """Return the level of a conformance test; None for other tests.

    It is that of the class in which the test was first defined: plugins may override tests.
    """
    found = None
    for cls in getattr(item.cls, "__mro__", ()):
        if item.originalname in vars(cls) and "level" in vars(cls):
            found = cls.level
    return found


def _outcomes(reporter: pytest.TerminalReporter) -> dict[tuple[str, int, str], Counter[str]]:
    """Return the number of tests by plugin, number of the level, and level."""
    outcomes: dict[tuple[str, int, str], Counter[str]] = {}
    # A test that passes, but fails when it is torn down, has two reports.
    results: dict[str, tuple[tuple[str, int, str], str]] = {}
    for category in ("passed", "skipped", "failed", "error"):
        for report in reporter.stats.get(category, ()):
            for name, place in getattr(report, "user_properties", ()):
                if name == _PROPERTY:
                    results[report.nodeid] = (tuple(place), category)
    for place, category in results.values():
        counts = outcomes.setdefault(place, Counter())
        counts["tests"] += 1
        column = {"passed": "passed", "skipped": "not declared"}.get(category, "failed")
        counts[column] += 1
    return outcomes
