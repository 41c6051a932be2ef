"""CPU time and memory of a process and its descendants, from /proc."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_SIZES = ("Pss", "Rss", "Pss_Anon")


def cpu_seconds(pid: int) -> float:
    """Return the user and system time of a process, its descendants, and its reaped children."""
    return sum(sum(map(int, fields[11:15])) for _, fields in _family(pid)) / _TICKS


@dataclass(frozen=True)
class Memory:
    """Memory of some processes, bytes.

    Attributes:
        divided: each page divided by the number of processes that share it, other programs
            included.
        resident: shared pages counted in each process.
        own: anonymous pages, divided: written by the processes themselves. Other running programs
            do not change it.
        workers: ``resident`` without the first process.
    """

    divided: int
    resident: int
    own: int
    workers: int


def memory_of(pid: int) -> Memory:
    """Return the memory of a process (the supervisor) and its descendants (its workers)."""
    sums = Counter[str]()
    for member, _ in _family(pid):
        try:
            text = Path(f"/proc/{member}/smaps_rollup").read_text(encoding="ascii")
        except OSError:
            continue
        for line in text.splitlines():
            name, _, rest = line.partition(":")
            if name in _SIZES:
                size = int(rest.split()[0]) * 1024
                sums[name] += size
                if name == "Rss" and member != pid:
                    sums["workers"] += size
    return Memory(*(sums[name] for name in (*_SIZES, "workers")))


def _family(pid: int) -> Iterator[tuple[int, list[str]]]:
    """Yield the pid of each process, and its fields of ``stat`` from the state on."""
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
    # The program name is in parentheses and may contain any character.
    return text.rpartition(")")[2].split()
