"""The coordinator: gives ready slabs to workers, and records what they return."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from mastaba_build.errors import BuildError, ServiceError, StoppedError
from mastaba_build.output.storage import OutputStore
from mastaba_build.pixels.quarters import quarter_key
from mastaba_build.pixels.task import SlabResult
from mastaba_build.plan.fingerprints import Fingerprints
from mastaba_build.plan.names import slab_key
from mastaba_build.plan.plan import Plan, SlabKey, morton
from mastaba_build.pyramid.journal import Journal, Row
from mastaba_build.sources.source import Source
from mastaba_build.work.engine import Engine
from mastaba_build.work.worker import Job, prepare, restore, run

_ATTEMPTS = 3
_LOST_TASKS = "the engine has lost the tasks; the same command resumes the build"

Observer: TypeAlias = Callable[[SlabResult, int, int], None]
"""Called after each slab with its result, the number of finished slabs, and the total."""
Order: TypeAlias = Callable[[SlabKey], bytes]
_Running: TypeAlias = dict[Future[Any], SlabKey]


@dataclass
class Outcome:
    """Totals of a run.

    Attributes:
        built: slabs computed in this run.
        kept: slabs of an earlier run that were complete.
        unchanged: slabs of the version before that an update keeps.
        inexact: unchanged slabs whose pixels differ from those that were encoded.
        failures: messages by slab.
        losses: which source pixels slabs lack, if the build accepts that.
    """

    built: int = 0
    kept: int = 0
    unchanged: int = 0
    inexact: int = 0
    failures: dict[SlabKey, str] = field(default_factory=dict)
    losses: list[str] = field(default_factory=list)


class Coordinator:
    """Builds all slabs of a plan that are not done yet.

    Args:
        target: root of the pyramid.
        work: work directory.
        previous: slabs of the version before, which an update keeps if they would not change.
    """

    def __init__(
        self,
        plan: Plan,
        journal: Journal,
        target: OutputStore,
        work: OutputStore,
        previous: Mapping[SlabKey, Row] | None = None,
    ) -> None:
        self._plan = plan
        self._journal = journal
        self._target = target
        self._work = work
        self._previous = previous or {}
        self._fingerprints = Fingerprints(plan)
        self._done: dict[SlabKey, Row] = {}
        self._waiting: dict[SlabKey, int] = {}
        self._ready: list[tuple[int, bytes, SlabKey]] = []
        self._restored: set[SlabKey] = set()
        self._attempts: dict[SlabKey, int] = {}
        self._outcome = Outcome()
        self._key_of: Order = lambda slab: morton(slab.column, slab.row)

    def run(
        self,
        observer: Observer,
        engine: Engine,
        job: Job,
        order: Order | None = None,
    ) -> Outcome:
        """Build the slabs; failed ones do not stop the others.

        Args:
            observer: called after each slab.
            engine: its workers were checked.
            job: the plan of this coordinator, saved for the workers.
            order: key of the order of ready slabs of one level; a Z curve by default.

        Raises:
            BuildError: the build cannot go on, for example because the disk is full.
        """
        submit = partial(self._start, engine, job)
        self._key_of = order or self._key_of
        slabs = [list(self._plan.slabs(level)) for level in range(len(self._plan.levels))]
        total = sum(map(len, slabs))
        missing = self._missing(slabs)
        outcome = self._outcome
        wanted = frozenset(missing)
        for slab in missing:
            pending = sum(child in wanted for child in self._plan.children(slab))
            if pending:
                self._waiting[slab] = pending
            else:
                self._push(slab)
        self._prepare(engine, job, missing)
        running: _Running = {}
        while self._ready or running:
            while self._ready and len(running) < engine.slots:
                submit(heapq.heappop(self._ready)[2], running)
            if not running:
                continue
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                slab = running.pop(future)
                try:
                    result = future.result()
                except CancelledError:
                    raise BuildError(_LOST_TASKS) from None
                except StoppedError:
                    raise
                except Exception as error:  # noqa: BLE001 - one slab does not stop the others
                    if isinstance(error, ServiceError):
                        self._attempts[slab] = _ATTEMPTS
                    self._again(slab, _message(error, engine))
                    continue
                if isinstance(result, SlabResult):
                    self._finish(Row(result, self._fingerprint(slab)))
                    outcome.built += 1
                    outcome.losses += filter(None, [result.losses])
                    observer(result, outcome.kept + outcome.unchanged + outcome.built, total)
                else:
                    self._restored.add(slab)
                    outcome.inexact += not result
                    self._release(slab)
        return outcome

    def _prepare(self, engine: Engine, job: Job, missing: Iterable[SlabKey]) -> None:
        """Prepare the sources of missing slabs, each once.

        An error that belongs to one source is left to its slabs, which find it again.
        """
        sources = self._plan.sources
        if not any(isinstance(one, Source) and one.touching_edges for one in sources):
            return
        near = {number for slab in missing for number in self._fingerprints.sources_of(slab)}
        waiting = deque(sorted(one for one in near if sources[one].touching_edges))
        running: set[Future[Any]] = set()
        while waiting or running:
            while waiting and len(running) < engine.slots:
                running.add(engine.submit(prepare, job, waiting.popleft()))
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                if future.cancelled():
                    raise BuildError(_LOST_TASKS)
                if isinstance(error := future.exception(), StoppedError):
                    raise error

    def _missing(self, slabs: Iterable[list[SlabKey]]) -> list[SlabKey]:
        """Return the slabs that are neither done nor known to be unchanged."""
        levels = list(slabs)
        complete = {row.result.slab: row for row in self._journal.rows() if self._is_stored(row)}
        missing: set[SlabKey] = set()
        result: list[SlabKey] = []
        unchanged: list[Row] = []
        for level in levels:
            for slab in level:
                row = complete.get(slab)
                if row is None and not any(c in missing for c in self._plan.children(slab)):
                    row = self._unchanged(slab)
                    if row is not None:
                        unchanged.append(row)
                if row is None:
                    missing.add(slab)
                else:
                    self._done[slab] = row
        self._journal.record(unchanged)
        for level in reversed(levels):
            for slab in level:
                # A parent that is still missing needs the quarter images of what is done.
                row = self._done.get(slab)
                if (
                    row is not None
                    and row.holder is None
                    and row.result.tiles > 0
                    and self._plan.parent(slab) in missing
                    and self._work.stat(quarter_key(slab)) is None
                ):
                    missing.add(slab)
                    del self._done[slab]
                if slab in missing:
                    result.append(slab)
        self._outcome.unchanged = sum(row.holder is not None for row in self._done.values())
        self._outcome.kept = len(self._done) - self._outcome.unchanged
        return result

    def _is_stored(self, row: Row) -> bool:
        result = row.result
        if result.size == 0 or row.holder is not None:
            return True
        found = self._target.stat(slab_key(self._plan, result.slab))
        return (
            found is not None
            and found.size == result.size
            and (None in (found.version, result.version) or found.version == result.version)
        )

    def _unchanged(self, slab: SlabKey) -> Row | None:
        """Return the row of the version before, if the slab would have the same pixels."""
        row = self._previous.get(slab)
        if row is None or row.fingerprint != self._fingerprint(slab):
            return None
        return row

    def _fingerprint(self, slab: SlabKey) -> str:
        children = self._with_data(slab)
        return self._fingerprints.of(
            slab, [(child, self._done[child].result.quarter) for child in children]
        )

    def _with_data(self, slab: SlabKey) -> list[SlabKey]:
        return [
            child
            for child in self._plan.children(slab)
            if child in self._done and self._done[child].result.tiles > 0
        ]

    def _start(self, engine: Engine, job: Job, slab: SlabKey, running: _Running) -> None:
        """Start a ready slab, restore quarter images that it needs, or find it unchanged."""
        row = self._done.get(slab)
        if row is not None:
            assert row.holder is not None
            task = engine.submit(restore, job, slab, row.holder, row.result.quarter)
            running[task] = slab
            return
        row = self._unchanged(slab)
        if row is not None:
            self._outcome.unchanged += 1
            self._finish(row)
            return
        children = self._with_data(slab)
        lost = [
            child
            for child in children
            if self._done[child].holder is not None and child not in self._restored
        ]
        if lost:
            self._waiting[slab] = len(lost)
            for child in lost:
                self._push(child)
            return
        running[engine.submit(run, job, slab, children)] = slab

    def _push(self, slab: SlabKey) -> None:
        # Parents first: then few quarter images wait at a time.
        heapq.heappush(self._ready, (-slab.level, self._key_of(slab), slab))

    def _again(self, slab: SlabKey, error: str) -> None:
        self._attempts[slab] = self._attempts.get(slab, 0) + 1
        if self._attempts[slab] < _ATTEMPTS:
            self._push(slab)
        else:
            self._outcome.failures[slab] = error
            if slab not in self._done:
                self._journal.record_failure(slab, error)

    def _finish(self, row: Row) -> None:
        slab = row.result.slab
        self._journal.record([row])
        self._done[slab] = row
        if not self._plan.configuration.keep_work:
            for child in self._plan.children(slab):
                self._work.delete(quarter_key(child))
        self._release(slab)

    def _release(self, slab: SlabKey) -> None:
        """Note that a slab is done; its parent may be ready."""
        parent = self._plan.parent(slab)
        if parent in self._waiting:
            self._waiting[parent] -= 1
            if not self._waiting[parent]:
                del self._waiting[parent]
                self._push(parent)


def _message(error: Exception, engine: Engine) -> str:
    """Return why a slab has failed."""
    if isinstance(error, engine.lost):
        return "a worker process was killed"
    if isinstance(error, BuildError | OSError):
        return str(error)
    return f"{type(error).__name__}: {error}"
