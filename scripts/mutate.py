"""Make small changes to the code, one at a time, and count those that no test detects.

cosmic-ray makes the changes. Each is made in a copy of the sources and tried with the tests of its
part, then with those of the parts that use it. Tests that read the real pyramids beside the
repository are not used. The sample depends only on the text of the changed lines and on the seed,
so it stays the same while other code changes.

    python -m scripts.mutate                        # a sample of all parts
    python -m scripts.mutate --parts slab --count 40 --seed 7
    python -m scripts.mutate --quick                # only with the tests of make test
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import IO

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

REPOSITORY = Path(__file__).resolve().parents[1]
COPIES = REPOSITORY / "build" / "mutate"
EQUIVALENT = REPOSITORY / "scripts" / "mutate-equivalent.toml"
CORE = "core/src/mastaba"
SOURCES = ("core/src", "libs/*/src", "plugins/*/src")
WIDER = ("tests/core", "tests/wmts", "tests/wms", "tests/tms", "tests/doctor")
SECONDS = 1800
"""Time limit for one run of pytest; a change that takes longer counts as detected."""


@dataclass(frozen=True)
class Part:
    """Code, its own tests, and the tests of code that uses it."""

    sources: str
    tests: tuple[str, ...]
    wider: tuple[str, ...] = ()


def _parts() -> dict[str, list[Part]]:
    """Return the folders of the core, the libraries, and the plugins."""
    elsewhere = {"containers": "tests/containers", "site": "tests/core/server"}
    tests = {
        path.name: elsewhere.get(path.name, f"tests/core/{path.name}")
        for path in sorted((REPOSITORY / CORE).iterdir())
    }
    parts = {
        name: [Part(f"{CORE}/{name}", (folder,), WIDER)]
        for name, folder in tests.items()
        if name != "__pycache__" and (REPOSITORY / folder).is_dir()
    }
    # Ceph needs a cluster (make live), and the demo is not part of a server.
    projects = REPOSITORY.glob("plugins/*/pyproject.toml")
    names = {path.parent.name for path in projects} - {"storage_ceph", "demo"}
    folders = {name: "build" if name == "builder" else name for name in sorted(names)}
    distributions = [
        Part(f"plugins/{name}/src", (f"tests/{tests}",)) for name, tests in folders.items()
    ]
    libraries = [
        Part("libs/server/src", ("tests/server", "tests/core/server"), WIDER),
        Part("libs/containers/src", ("tests/containers",), ("tests/container_pmtiles",)),
        Part("libs/coverage/src", ("tests/coverage",), ("tests/ogcapi",)),
        Part("libs/documents/src", ("tests/documents",), ("tests/core/config",)),
        Part("libs/http/src", ("tests/http",), ("tests/storage_s3",)),
        Part("libs/ows/src", ("tests/ows",), ("tests/wms", "tests/wmts", "tests/tms")),
        Part("libs/render/src", ("tests/render",), WIDER),
        Part("libs/storage/src", ("tests/storage",), ("tests/core/slab", "tests/storage_s3")),
    ]
    return {**parts, "libs": libraries, "plugins": [*parts["plugins"], *distributions]}


PARTS = _parts()


@dataclass(frozen=True)
class Mutation:
    """A change to one line.

    Attributes:
        file: relative to the repository.
        before, after: the line, without its indentation.
        code: the whole file, with the change.
    """

    part: Part
    file: str
    line: int
    before: str
    after: str
    code: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}\n    - {self.before}\n    + {self.after}"


def _without_effect(code: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return the positions of annotations (never evaluated) and of code for type checkers."""
    found: list[ast.expr | ast.stmt | None] = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.arg | ast.AnnAssign):
            found.append(node.annotation)
        elif isinstance(node, ast.FunctionDef):
            found.append(node.returns)
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            found.append(node)
    return [
        ((n.lineno, n.col_offset), (n.end_lineno or 0, n.end_col_offset or 0))
        for n in found
        if n is not None
    ]


@cache
def _changes(file: str) -> dict[int, list[tuple[str, int]]]:
    """Return the operators that change something on each line, with their occurrence numbers."""
    code = (REPOSITORY / file).read_text("utf-8")
    ignored = _without_effect(code)
    nodes = list(ast_nodes(get_ast(code)))
    found: dict[int, list[tuple[str, int]]] = {}
    for name in operator_names():
        operator = get_operator(name)
        if operator.arguments():
            continue
        places = [place for node in nodes for place in operator().mutation_positions(node)]
        for number, (start, _) in enumerate(places):
            if not any(begin <= start < end for begin, end in ignored):
                found.setdefault(start[0], []).append((name, number))
    return found


def _hash(*words: object) -> str:
    return hashlib.sha256("\0".join(map(str, words)).encode()).hexdigest()


def mutations(part: Part, seed: int) -> Iterator[Mutation]:
    """Yield one change per line of a part, in the order of their hashes."""
    lines = [
        (str(path.relative_to(REPOSITORY)), number, line.strip())
        for path in sorted((REPOSITORY / part.sources).rglob("*.py"))
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
    ]
    for file, number, before in sorted(lines, key=lambda found: _hash(seed, found[0], found[2])):
        choices = _changes(file).get(number, ()) if before else ()
        for operator, occurrence in sorted(choices, key=lambda c: _hash(seed, before, c[0])):
            code = (REPOSITORY / file).read_text("utf-8")
            try:
                changed = mutate_code(code, get_operator(operator)(), occurrence)
            except AttributeError:
                continue  # cosmic-ray cannot replace the name of an exception with dots
            if changed is None:
                continue
            after = changed.splitlines()[number - 1].strip()
            yield Mutation(part, file, number, before, after, changed)
            break


def _in_turns(sources: Iterable[Iterator[Mutation]]) -> Iterator[Mutation]:
    for turn in zip_longest(*sources):
        yield from (found for found in turn if found is not None)


def sample(names: Sequence[str], count: int, seed: int) -> list[Mutation]:
    """Return ``count`` changes, evenly distributed over the parts if they have enough."""
    parts = (_in_turns(mutations(part, seed) for part in PARTS[name]) for name in names)
    return list(islice(_in_turns(parts), count))


def _test_files(folders: Sequence[str]) -> Iterator[Path]:
    for folder in folders:
        yield from (REPOSITORY / folder).rglob("test_*.py")


def _distance(test: Path, changed: str) -> tuple[bool, bool]:
    """Return a key that sorts tests by how likely they are to detect a change to a file."""
    path = Path(changed)
    module = path.stem if path.stem != "__init__" else path.parent.name
    return module not in test.stem, module not in _words(test)


@cache
def _words(path: Path) -> frozenset[str]:
    return frozenset(re.split(r"\W", path.read_text("utf-8")))


class Copy:
    """A copy of all sources, which the tests import instead of the repository."""

    def __init__(self, folder: Path, *, is_quick: bool = False) -> None:
        self._folder = folder
        self._is_quick = is_quick
        self._marks = "not live and not shared_data" + (" and not thorough" if is_quick else "")
        shutil.rmtree(folder, ignore_errors=True)
        self._paths = []
        for source in chain(*(sorted(REPOSITORY.glob(one)) for one in SOURCES)):
            target = folder / source.relative_to(REPOSITORY)
            # Includes the compiled libraries: compiling them takes longer than most tests.
            shutil.copytree(source, target)
            self._paths.append(str(target))

    def failure(self, mutation: Mutation, *, wider: bool) -> str:
        """Return the first test that fails with a change; empty if there is none."""
        path = self._folder / mutation.file
        code, facts = path.read_bytes(), path.stat()
        path.write_text(mutation.code, "utf-8")
        try:
            own, others = mutation.part.tests, mutation.part.wider
            return self.first_failure(
                others if wider else own, mutation.file, without=own if wider else ()
            )
        finally:
            path.write_bytes(code)
            os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))

    def first_failure(
        self, tests: Sequence[str], changed: str = "", *, without: Sequence[str] = ()
    ) -> str:
        """Return the first test that fails; start with those that name the changed module."""
        chosen = set(_test_files(tests)) - set(_test_files(without))
        files = sorted(chosen, key=lambda path: (*_distance(path, changed), path))
        arguments = ["-m", self._marks, "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
        with tempfile.TemporaryFile("w+") as output:
            status = self._run([*arguments, *map(str, files)], output)
            output.seek(0)
            found = re.search(r"^(?:FAILED|ERROR) (\S+)", output.read(), re.MULTILINE)
        # 4: a change may break what pytest loads first, but without any, the tests are missing.
        # 5: all of these tests are thorough.
        if (status == 4 and not changed) or (status == 5 and not self._is_quick):
            raise RuntimeError(f"pytest ended with status {status}: {files}")
        return "" if status in (0, 5) else found[1] if found else f"pytest, with status {status}"

    def _run(self, arguments: Sequence[str], output: IO[str]) -> int | None:
        """Run pytest; return its status, or None after the time limit."""
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *arguments],
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(self._paths)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            return process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            return None
        finally:
            # Also kills processes that the tests have started.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextmanager
def _borrowed(copies: queue.Queue[Copy]) -> Iterator[Copy]:
    copy = copies.get()
    try:
        yield copy
    finally:
        copies.put(copy)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.mutate", description=__doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--count", type=int, default=60, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    parser.add_argument("--minutes", type=float, default=15, help="default: %(default)s")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--quick", action="store_true", help="leave out thorough tests")
    parser.add_argument("--list", action="store_true", help="only list the sample")
    arguments = parser.parse_args()

    chosen = sample(arguments.parts, arguments.count, arguments.seed)
    if arguments.list:
        print(*chosen, sep="\n")
        return 0
    known = {
        (entry["file"], entry["before"], entry["after"]): entry["why"]
        for entry in tomllib.loads(EQUIVALENT.read_text("utf-8")).get("mutation", ())
    }
    tried = [m for m in chosen if (m.file, m.before, m.after) not in known]
    copies: queue.Queue[Copy] = queue.Queue()
    for number in range(arguments.jobs):
        copies.put(Copy(COPIES / str(number), is_quick=arguments.quick))

    def fails(part: Part) -> str:
        with _borrowed(copies) as copy:
            return copy.first_failure(part.tests)

    def try_it(mutation: Mutation, *, wider: bool) -> bool | None:
        if time.monotonic() > end:
            return None
        with _borrowed(copies) as copy:
            test = copy.failure(mutation, wider=wider)
        last = wider or not mutation.part.wider
        result = f"detected by {test}:" if test else "SURVIVED" if last else "left"
        print(result, mutation, flush=True)
        return bool(test)

    with ThreadPoolExecutor(arguments.jobs) as threads:
        parts = sorted({mutation.part for mutation in tried}, key=lambda part: part.sources)
        failures = zip(parts, threads.map(fails, parts), strict=True)
        broken = [f"{' '.join(part.tests)}: {test};" for part, test in failures if test]
        if broken:
            print("These tests fail without any change:", *broken, file=sys.stderr)
            return 1
        end = time.monotonic() + arguments.minutes * 60
        results = list(threads.map(partial(try_it, wider=False), tried))
        left = [
            number
            for number, noticed in enumerate(results)
            if noticed is False and tried[number].part.wider
        ]
        print(f"{len(left)} changes are left to the tests of other parts", flush=True)
        again = threads.map(partial(try_it, wider=True), [tried[number] for number in left])
        for number, outcome in zip(left, again, strict=True):
            results[number] = outcome
    detected, survived = results.count(True), results.count(False)
    print(
        f"{detected} of {detected + survived} changes were detected"
        f" ({detected / max(1, detected + survived):.0%}); {len(chosen) - len(tried)} others in the"
        f" sample have no effect (scripts/mutate-equivalent.toml), {results.count(None)} were not"
        " tried for lack of time"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
