"""The coordinator: gives ready slabs to workers, and records what they return."""

from __future__ import annotations

import errno
import heapq
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from dataclasses import dataclass, field

from mastaba_build.engine import Engine
from mastaba_build.errors import BuildError
from mastaba_build.journal import Journal
from mastaba_build.plan import Plan, SlabKey, morton
from mastaba_build.quarters import quarter_key
from mastaba_build.storage import WritableStorage
from mastaba_build.task import SlabResult, slab_key
from mastaba_build.worker import Job, run

_ATTEMPTS = 3
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS})

Observer = Callable[[SlabResult, int, int], None]
"""Called after each slab with its result, the number of finished slabs, and the total."""


@dataclass
class Outcome:
    """Totals of a run.

    Attributes:
        built: slabs computed in this run.
        kept: slabs of an earlier run that were complete.
        failures: messages by slab.
    """

    built: int = 0
    kept: int = 0
    failures: dict[SlabKey, str] = field(default_factory=dict)


class Coordinator:
    """Builds all slabs of a plan that are not done yet."""

    def __init__(
        self, plan: Plan, journal: Journal, target: WritableStorage, work: WritableStorage
    ) -> None:
        self._plan = plan
        self._journal = journal
        self._target = target
        self._work = work
        self._has_data: dict[SlabKey, bool] = {}
        self._waiting: dict[SlabKey, int] = {}
        self._ready: list[tuple[int, bytes, SlabKey]] = []

    def run(
        self,
        observer: Observer,
        engine: Engine,
        job: Job,
        order: Callable[[SlabKey], bytes] | None = None,
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
        key_of = order or (lambda slab: morton(slab.column, slab.row))
        slabs = [list(self._plan.slabs(level)) for level in range(len(self._plan.levels))]
        total = sum(map(len, slabs))
        missing = self._missing(slabs)
        outcome = Outcome(kept=total - len(missing))
        wanted = frozenset(missing)
        for slab in missing:
            pending = sum(child in wanted for child in self._plan.children(slab))
            if pending:
                self._waiting[slab] = pending
            else:
                self._push(slab, key_of)
        attempts: dict[SlabKey, int] = {}
        running: dict[Future[SlabResult], SlabKey] = {}
        while self._ready or running:
            while self._ready and len(running) < engine.slots:
                slab = heapq.heappop(self._ready)[2]
                children = [c for c in self._plan.children(slab) if self._has_data.get(c)]
                running[engine.submit(run, job, slab, children)] = slab
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                slab = running.pop(future)
                try:
                    result = future.result()
                except CancelledError:
                    raise BuildError(
                        "the engine has lost the tasks; the same command resumes the build"
                    ) from None
                except Exception as error:  # noqa: BLE001 - one slab does not stop the others
                    message = _message(error, engine)
                    self._again(slab, attempts, outcome, message, key_of)
                else:
                    self._finish(result, wanted, key_of)
                    outcome.built += 1
                    observer(result, outcome.kept + outcome.built, total)
        return outcome

    def _missing(self, slabs: Iterable[list[SlabKey]]) -> list[SlabKey]:
        """Return the slabs that are not done, or whose quarter image is needed and lost."""
        done = {
            result.slab: result
            for result in self._journal.results()
            if result.size == 0
            or self._target.size(slab_key(self._plan, result.slab)) == result.size
        }
        missing: set[SlabKey] = set()
        result: list[SlabKey] = []
        for level in reversed(list(slabs)):
            for slab in level:
                known = done.get(slab)
                # A parent that is still missing needs the quarter image.
                has_lost_quarter = (
                    known is not None
                    and known.tiles > 0
                    and self._plan.parent(slab) in missing
                    and self._work.size(quarter_key(slab)) is None
                )
                if known is None or has_lost_quarter:
                    missing.add(slab)
                    result.append(slab)
                else:
                    self._has_data[slab] = known.tiles > 0
        return result

    def _push(self, slab: SlabKey, key_of: Callable[[SlabKey], bytes]) -> None:
        # Parents first: then few quarter images wait at a time.
        heapq.heappush(self._ready, (-slab.level, key_of(slab), slab))

    def _again(
        self,
        slab: SlabKey,
        attempts: dict[SlabKey, int],
        outcome: Outcome,
        error: str,
        key_of: Callable[[SlabKey], bytes],
    ) -> None:
        attempts[slab] = attempts.get(slab, 0) + 1
        if attempts[slab] < _ATTEMPTS:
            self._push(slab, key_of)
        else:
            outcome.failures[slab] = error
            self._journal.record_failure(slab, error)

    def _finish(
        self, result: SlabResult, wanted: frozenset[SlabKey], key_of: Callable[[SlabKey], bytes]
    ) -> None:
        self._journal.record(result)
        self._has_data[result.slab] = result.tiles > 0
        for child in self._plan.children(result.slab):
            self._work.delete(quarter_key(child))
        parent = self._plan.parent(result.slab)
        if parent in self._waiting and parent in wanted:
            self._waiting[parent] -= 1
            if not self._waiting[parent]:
                del self._waiting[parent]
                self._push(parent, key_of)


def _message(error: Exception, engine: Engine) -> str:
    """Return why a slab has failed.

    Raises:
        BuildError: all others will fail, too.
    """
    if isinstance(error, engine.lost):
        return "a worker process was killed"
    if isinstance(error, OSError) and error.errno in _FULL:
        raise BuildError(f"cannot write: {error.strerror}") from None
    if isinstance(error, BuildError | OSError):
        return str(error)
    return f"{type(error).__name__}: {error}"
