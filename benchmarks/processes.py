"""CPU time and memory of a process and its descendants, from /proc."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """Return user and system time of a process, its descendants, and its waited-for children."""
    return sum(sum(map(int, fields[11:15])) for _, fields in _family(pid)) / _TICKS


def memory_bytes(pid: int) -> tuple[int, int]:
    """Return what a process and its descendants occupy: shared pages divided, and counted anew."""
    divided = resident = 0
    for member, _ in _family(pid):
        try:
            text = Path(f"/proc/{member}/smaps_rollup").read_text(encoding="ascii")
        except OSError:
            continue
        for line in text.splitlines():
            name, _, rest = line.partition(":")
            if name == "Pss":
                divided += int(rest.split()[0]) * 1024
            elif name == "Rss":
                resident += int(rest.split()[0]) * 1024
    return divided, resident


def _family(pid: int) -> Iterator[tuple[int, list[str]]]:
    """Yield the identifier of each process, and its fields of ``stat`` from the state on."""
    facts = {int(path.name): _stat(path) for path in Path("/proc").iterdir() if path.name.isdigit()}
    wanted = {pid}
    grown = True
    while grown:
        children = {
            member for member, fields in facts.items() if fields and int(fields[1]) in wanted
        }
        grown = not children <= wanted
        wanted |= children
    return ((member, facts[member]) for member in wanted if facts.get(member))


def _stat(folder: Path) -> list[str]:
    try:
        text = (folder / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    # The name of the program stands in brackets, and may contain anything.
    return text.rpartition(")")[2].split()
