"""The results as text."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from benchmarks.measure import Result

_HEAD = (
    "requests",
    "server",
    "bytes",
    "req/s",
    "p50 ms",
    "p99 ms",
    "p99/p50",
    "max ms",
    "CPU us",
    "ratio",
    "MB",
    "errors",
)


def table(results: Sequence[Result]) -> str:
    """Return one line per result; the ratio is its CPU time to that of the first server."""
    first: dict[str, Result] = {}
    rows: list[tuple[str, ...]] = [_HEAD]
    for result in results:
        base = first.setdefault(result.request_class, result)
        rows.append(_row(result, base))
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _row(result: Result, base: Result) -> tuple[str, ...]:
    ratio = "-"
    if result.cpu is not None and base.cpu:
        ratio = f"{result.cpu / base.cpu:.2f}"
    return (
        result.request_class,
        result.server,
        f"{result.body:.0f}",
        f"{result.rate:.0f}",
        f"{result.p50 / 1000:.2f}",
        f"{result.p99 / 1000:.2f}",
        f"{result.p99 / result.p50:.1f}" if result.p50 else "-",
        f"{result.longest / 1000:.1f}",
        "-" if result.cpu is None else f"{result.cpu:.1f}",
        ratio,
        "-" if result.memory is None else f"{result.memory / 1e6:.0f}",
        str(result.errors),
    )


def machine(workers: int, connections: int, seconds: float, rounds: int) -> str:
    """Return a description of the machine, the versions and the parameters."""
    cores = len(os.sched_getaffinity(0))
    packages = ("mastaba", "flup", "httptools")
    return "\n".join(
        (
            f"{cores} cores, {_processor()}, Linux {platform.release()}",
            f"Python {platform.python_version()}, "
            + ", ".join(f"{name} {version(name)}" for name in packages)
            + f", {_nginx()}, {_wrk()}",
            f"{workers} worker processes, {connections} connections, "
            f"medians of {rounds} rounds of {seconds:g} s (max: of all rounds)",
        )
    )


def _processor() -> str:
    found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found[1] if found else platform.machine()


def _nginx() -> str:
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    done = subprocess.run(
        ["nginx", "-v"], capture_output=True, text=True, check=False, env={"PATH": path}
    )
    return done.stderr.strip().rpartition(": ")[2].replace("/", " ")


def _wrk() -> str:
    done = subprocess.run(["wrk", "-v"], capture_output=True, text=True, check=False)
    return " ".join(done.stdout.split()[:2])
