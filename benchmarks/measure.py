"""Sends requests to servers and measures the CPU time that they use."""

from __future__ import annotations

import http.client
import itertools
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.classes import RequestClass
from benchmarks.client import ask
from benchmarks.processes import cpu_seconds, memory_of
from benchmarks.servers import Missing, Target, tile_path

_SCRIPT = Path(__file__).with_name("requests.lua")
_WARM_UP = 1.0


@dataclass(frozen=True)
class Result:
    """Medians over the rounds; None if not measurable.

    Attributes:
        body: mean size of a response body in bytes.
        cpu: microseconds per request, of all processes of the server.
        memory: bytes after the last round, proportional share of each process.
        resident: the same, with shared pages counted in each process.
        errors: responses with status 400 or higher, broken connections, and timeouts.
    """

    request_class: str
    server: str
    body: float
    rate: float
    p50: float
    p99: float
    longest: float
    cpu: float | None
    memory: int | None
    resident: int | None
    errors: int


@dataclass(frozen=True)
class _Plan:
    target: Target
    request_class: RequestClass
    file: Path
    body: float


@dataclass(frozen=True)
class _Run:
    rate: float
    p50: float
    p99: float
    longest: float
    cpu: float | None
    errors: int


def measure(
    targets: Sequence[Target],
    classes: Sequence[RequestClass],
    *,
    connections: int,
    seconds: float,
    rounds: int,
    folder: Path,
) -> list[Result]:
    """Run every class on every target, ``rounds`` times.

    The targets take turns within a round, so a change of the machine's speed affects all.
    """
    results: list[Result] = []
    for number, request_class in enumerate(classes):
        plans = [
            _prepare(target, request_class, folder / f"requests-{number}-{index}.txt")
            for index, target in enumerate(targets)
            if _serves(target, request_class)
        ]
        run = _maps if request_class.layer else _wrk
        for plan in plans:
            run(plan, connections, _WARM_UP)
        runs: list[list[_Run]] = [[] for _ in plans]
        for turn in range(rounds):
            for index, plan in enumerate(plans):
                sys.stderr.write(
                    f"{request_class.title}, {plan.target.name}, round {turn + 1} of {rounds}\n"
                )
                runs[index].append(run(plan, connections, seconds))
        results.extend(_result(plan, done) for plan, done in zip(plans, runs, strict=True))
    return results


def _serves(target: Target, request_class: RequestClass) -> bool:
    if target.layers is not None:
        return request_class.layer in target.layers
    if target.template is not None:
        return bool(request_class.tiles) and not request_class.conditional
    return True


def _prepare(target: Target, request_class: RequestClass, file: Path) -> _Plan:
    """Request every path once, check the responses, and write the list for wrk."""
    paths: Sequence[str] = request_class.paths
    if target.template is not None:
        paths = [tile_path(target.template, tile._asdict()) for tile in request_class.tiles]
    parts = urlsplit(target.address)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    lines: list[str] = []
    sizes: list[int] = []
    for path in paths:
        status, etag, media_type, body = _ask(connection, path, None)
        if request_class.conditional and etag:
            status, _, media_type, body = _ask(connection, path, etag)
        if status != request_class.status or not media_type.startswith(request_class.media_type):
            text = body[:500].decode("utf-8", "replace")
            raise Missing(f"{target.name}: {path}: status {status}\n{text}")
        sizes.append(len(body))
        lines.append(f"{path}\t{etag if request_class.conditional else ''}\n")
    connection.close()
    file.write_text("".join(lines), encoding="ascii")
    return _Plan(target, request_class, file, statistics.fmean(sizes))


def _ask(
    connection: http.client.HTTPConnection, path: str, etag: str | None
) -> tuple[int, str, str, bytes]:
    connection.request("GET", path, headers={"If-None-Match": etag} if etag else {})
    response = connection.getresponse()
    body = response.read()
    headers = response.headers
    return response.status, headers.get("ETag") or "", headers.get("Content-Type") or "", body


def _wrk(plan: _Plan, connections: int, seconds: float) -> _Run:
    pid = plan.target.pid
    before = cpu_seconds(pid) if pid is not None else None
    result = run_wrk(plan.target.address, plan.file, connections, seconds)
    cpu = None
    if pid is not None and before is not None and result["requests"]:
        cpu = (cpu_seconds(pid) - before) / result["requests"] * 1e6
    return _Run(
        result["requests"] / result["microseconds"] * 1e6,
        result["p50"],
        result["p99"],
        result["longest"],
        cpu,
        result["errors"],
    )


def run_wrk(address: str, file: Path, connections: int, seconds: float) -> dict[str, int]:
    """Request the paths of a file for some seconds; return the numbers from requests.lua.

    Raises:
        Missing: wrk failed.
    """
    command = ["wrk", "-t1", f"-c{connections}", f"-d{max(1, round(seconds))}s", "--timeout=30s"]
    command += ["-s", str(_SCRIPT), address, "--", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    last = done.stdout.strip().rpartition("\n")[2]
    if done.returncode != 0 or not last.startswith("{"):
        raise Missing(f"wrk failed:\n{done.stdout}{done.stderr}")
    result: dict[str, int] = json.loads(last)
    return result


def _maps(plan: _Plan, connections: int, seconds: float) -> _Run:
    """Request maps until the time is over, and wait for the pending ones."""
    pid = plan.target.pid
    before = cpu_seconds(pid) if pid is not None else None
    deadline = time.monotonic() + seconds
    answers = ask(
        plan.target.address,
        itertools.cycle(plan.request_class.paths),
        connections=connections,
        go_on=lambda: time.monotonic() < deadline,
        media_type=plan.request_class.media_type,
    )
    if answers.first_error:
        sys.stderr.write(f"{plan.target.name}: {answers.first_error}\n")
    count = len(answers.latencies)
    cpu = None
    if pid is not None and before is not None and count:
        cpu = (cpu_seconds(pid) - before) / count * 1e6
    return _Run(
        count / answers.elapsed,
        answers.percentile(0.5) * 1e6,
        answers.percentile(0.99) * 1e6,
        max(answers.latencies, default=0.0) * 1e6,
        cpu,
        answers.errors,
    )


def _result(plan: _Plan, runs: Sequence[_Run]) -> Result:
    pid = plan.target.pid
    cpu = [run.cpu for run in runs if run.cpu is not None]
    memory = memory_of(pid) if pid is not None else None
    return Result(
        plan.request_class.title,
        plan.target.name,
        plan.body,
        _median(run.rate for run in runs),
        _median(run.p50 for run in runs),
        _median(run.p99 for run in runs),
        max(run.longest for run in runs),
        _median(cpu) if cpu else None,
        memory.divided if memory else None,
        memory.resident if memory else None,
        sum(run.errors for run in runs),
    )


def _median(values: Iterable[float]) -> float:
    return statistics.median(values)
