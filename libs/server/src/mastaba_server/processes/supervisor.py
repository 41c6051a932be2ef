"""The parent process: forks workers, replaces, reloads and stops them gracefully."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mastaba_server.errors import ServerError
from mastaba_server.processes.companions import Companions
from mastaba_server.processes.control import Change, Coordinator, Worker, WorkerLink
from mastaba_server.processes.epoch import Epoch
from mastaba_server.processes.following import Follower
from mastaba_server.processes.forks import HANDLED, Forks
from mastaba_server.processes.handover import Gate
from mastaba_server.processes.notify import Notifier
from mastaba_server.processes.scoreboard import Obstacle, Scoreboard
from mastaba_server.processes.signals import STOP_SIGNALS, StopOrdered
from mastaba_server.processes.watching import WATCH_PERIOD, Watcher

logger = logging.getLogger(__name__)

# Seconds. A worker that lived this long was healthy: its successor starts at once.
_HEALTHY_AGE = 5.0
_FIRST_DELAY = 0.1
_LONGEST_DELAY = 10.0
# New workers that may exit before a reload fails: one crash does not prove a bad configuration.
_TOLERATED_EXITS = 2
# Seconds until a killed process must be gone. Not even SIGKILL ends one that closes a file on a
# file system that hangs.
_KILL_TIMEOUT = 5.0


@dataclass(slots=True)
class _Trial:
    """An epoch that has not yet proved that it can serve."""

    epoch: Epoch
    gate: Gate
    deadline: float
    exits: int = 0


class Supervisor:
    """Keeps a number of worker processes running.

    SIGQUIT, SIGTERM and SIGINT stop gracefully: workers get SIGTERM, may finish their requests,
    and are killed after ``stop_timeout`` seconds.

    SIGHUP calls ``reload`` with the present epoch, which returns the next one. If it raises,
    the error is logged.
    The workers of the next epoch start first, on the same listening socket, behind a gate.
    When all of them are ready, the present ones get SIGUSR1. When all of these begin no more
    requests, the gate opens. If the next workers exit or are not ready in time, or if ``reload``
    has failed, the present epoch stays. A SIGHUP during a reload causes one more
    reload after it. If an epoch `follows`, its changes cause reloads like SIGHUP, and the
    server is not ready from a failed reload until one succeeds.

    The `companions` of the epoch run in processes of their own once its workers are ready. They get
    SIGTERM when the epoch retires, and at a stop.

    With a ``drain`` of the epoch, a stop begins with as many seconds in which the server
    works as before, but is not ready.

    A worker that exits for any other reason is replaced, after growing delays if it exits soon
    after its start. SIGPIPE is ignored.

    Args:
        epoch: what the workers do. The index of a worker is the lowest that no live worker
            has, so it is below twice ``workers`` even during a reload. A worker exits with status
            0 when ``serve`` returns, and 1 when it raises. It ignores SIGINT, SIGQUIT, SIGHUP and
            SIGPIPE. When its parent exits, it gets SIGTERM, and is killed ``stop_timeout`` seconds
            later.
        workers: number of processes. 0 serves in the calling process, for front servers that
            manage the processes themselves (mod_fcgid); SIGHUP is then ignored.
        reload: see above.
        watch: signs of life from the workers. A worker without any for ``worker_timeout`` seconds
            is killed and replaced. A worker in which a request makes no progress for as long is
            replaced gracefully, and killed if it does not exit.
        stop_timeout: maximum duration of a graceful stop in seconds.
        start_timeout: seconds in which the workers of a next epoch must be ready.
        notifier: reports the state of the parent to the service manager.
        worker_timeout: see above.
        is_reload_due: whether a SIGHUP arrived before it could be handled.
    """

    def __init__(
        self,
        epoch: Epoch,
        *,
        workers: int,
        reload: Callable[[Epoch], Epoch],
        watch: Scoreboard,
        stop_timeout: float = 30.0,
        start_timeout: float = 60.0,
        notifier: Notifier | None = None,
        worker_timeout: float = 60.0,
        is_reload_due: Callable[[], bool] = bool,
    ) -> None:
        self._epoch = epoch
        self._gate = Gate()
        self._trial: _Trial | None = None
        self._workers = workers
        self._reload = reload
        self._stop_timeout = stop_timeout
        self._start_timeout = start_timeout
        self._notifier = notifier or Notifier({})
        self._children: dict[int, Worker] = {}
        self._announcers: set[int] = set()
        self._coordinator = Coordinator(self._children, self._carry_out, self._announce)
        self._watch = watch
        self._watcher = Watcher(watch, worker_timeout, start_timeout, stop_timeout)
        self._failures = 0
        self._not_before = 0.0
        self._is_reload_due = is_reload_due
        self._interruptible = False
        self._forks = Forks(stop_timeout)
        # A signal writes its number to this pipe, whichever thread receives it and whatever the
        # main thread is doing.
        self._wakeup = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._follower = Follower(self._child)
        self._companions = Companions(self._child)

    def run(self) -> None:
        """Run until a graceful stop.

        Must be called in the main thread.
        """
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        if self._workers == 0:
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            self._epoch.serve(None)
            return
        wakeup = signal.set_wakeup_fd(self._wakeup[1], warn_on_full_buffer=False)
        handlers = {number: signal.signal(number, self._handle) for number in HANDLED}
        self._coordinator.reload_wanted = self._is_reload_due()
        self._gate.open()
        try:
            with contextlib.suppress(StopOrdered):
                self._loop()
            self._follower.stop()
            self._drain()
            self._stop()
        finally:
            signal.set_wakeup_fd(wakeup)
            for number, handler in handlers.items():
                signal.signal(number, handler)
            self._forks.close()
            for descriptor in self._wakeup:
                os.close(descriptor)

    def _handle(self, number: int, _frame: object) -> None:
        # The pipe does the work. But reading a configuration must not delay a stop: the storage
        # may hang.
        if self._interruptible and number in STOP_SIGNALS:
            self._interruptible = False
            raise StopOrdered

    @contextlib.contextmanager
    def _interrupted_by_stop(self) -> Iterator[None]:
        self._interruptible = True
        try:
            with self._notifier.kept_alive():
                yield
        finally:
            self._interruptible = False

    def _loop(self) -> None:
        while True:
            numbers = self._wait(self._fill())
            if not numbers.isdisjoint(STOP_SIGNALS):
                return
            self._work()
            if self._is_settled and self._are_ready(self._epoch):
                self._notifier.ready()
                self._companions.keep(self._epoch.companions())
            self._coordinator.reload_wanted |= signal.SIGHUP in numbers
            self._follow()
            if self._coordinator.reload_wanted and self._is_settled:
                self._coordinator.reload_wanted = False
                self._renew()

    def _work(self) -> None:
        self._watcher.look_after(self._children.values())
        self._reap()
        self._settle_trial()
        self._switch()

    def _wait(self, timeout: float) -> set[int]:
        """Wait for signals and workers; return the set of signal numbers received."""
        poll = select.poll()
        poll.register(self._wakeup[0], select.POLLIN)
        channels = {child.fileno(): child for child in self._children.values() if not child.broken}
        for descriptor, child in channels.items():
            events = select.POLLIN | (select.POLLOUT if child.wants_to_send else 0)
            poll.register(descriptor, events)
        # Deadlines of many seconds are looked at once in each period.
        seconds = min(timeout, self._notifier.timeout, WATCH_PERIOD)
        for descriptor, _ in poll.poll(seconds * 1000):
            if descriptor in channels:
                self._coordinator.handle(channels[descriptor])
        self._coordinator.tick()
        self._notifier.tick()
        try:
            return set(os.read(self._wakeup[0], 4096))
        except BlockingIOError:
            return set()

    # Workers

    def _fill(self) -> float:
        """Start the missing workers; return the seconds until more can be started."""
        wanted = [(self._epoch, self._gate, self._not_before)]
        if self._trial is not None:
            # The number of starts during a reload is limited: no delay.
            wanted.insert(0, (self._trial.epoch, self._trial.gate, 0.0))
        for epoch, gate, not_before in wanted:
            for _ in range(self._workers - len(self._members(epoch))):
                if (delay := not_before - time.monotonic()) > 0:
                    return delay
                try:
                    self._fork(epoch, gate)
                except OSError as error:
                    logger.error("cannot start a worker: %s", error.strerror)
                    return self._postpone()
        return math.inf

    def _members(self, epoch: Epoch) -> list[Worker]:
        return [
            child
            for child in self._children.values()
            if child.epoch is epoch and not child.retired_at
        ]

    def _are_ready(self, epoch: Epoch) -> bool:
        members = self._members(epoch)
        return len(members) >= self._workers and all(child.ready for child in members)

    def _postpone(self) -> float:
        """Double the delay after each consecutive failure; return it in seconds."""
        delay: float = min(_FIRST_DELAY * 2**self._failures, _LONGEST_DELAY)
        self._failures += 1
        self._not_before = time.monotonic() + delay
        return delay

    def _fork(self, epoch: Epoch, gate: Gate) -> None:
        used = {child.index for child in self._children.values()}
        index = next(number for number in range(len(used) + 1) if number not in used)
        ours, theirs = socket.socketpair()

        def serve() -> None:
            ours.close()
            epoch.serve(WorkerLink(index, theirs, gate))

        try:
            pid = self._child(f"worker {index}", serve)
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        child = self._children[pid] = Worker(pid, index, ours, epoch)
        child.ticks = self._watch.ticks(index)
        logger.debug("worker %d started, process %d", index, pid)

    def _announce(self) -> None:
        """Report what has changed, in a process of its own: neither reloads nor changes wait."""
        run = self._epoch.announcement()
        if run is not None:
            try:
                self._announcers.add(self._child("the process that reports changes", run))
            except OSError as error:
                logger.error("changes cannot be reported: %s", error.strerror)

    def _child(self, name: str, run: Callable[[], None]) -> int:
        """Run a function in a child process; return its process id. Raises OSError."""

        def run_alone() -> None:
            for descriptor in self._wakeup:
                os.close(descriptor)
            for other in self._children.values():
                other.close()
            run()

        return self._forks.fork(name, run_alone)

    def _reap(self) -> None:
        self._announcers = {pid for pid in self._announcers if os.waitpid(pid, os.WNOHANG)[0] == 0}
        for pid in list(self._children):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if not ended:
                continue
            child = self._forget(pid)
            if child.retired_at:
                continue
            if self._trial is not None and child.epoch is self._trial.epoch:
                self._trial.exits += 1
            elif time.monotonic() - child.started >= _HEALTHY_AGE:
                self._failures = 0
            else:
                self._postpone()
            code = os.waitstatus_to_exitcode(status)
            reason = f"signal {-code}" if code < 0 else f"status {code}"
            logger.error("worker %d, process %d, exited with %s", child.index, pid, reason)

    def _forget(self, pid: int) -> Worker:
        child = self._children.pop(pid)
        child.close()
        self._coordinator.forget(pid)
        return child

    def _carry_out(self, change: Change) -> None:
        """Make a change in this process, in all epochs served."""
        # It then also watches what the change has read.
        self._follower.stop()
        with self._interrupted_by_stop():
            if self._trial is None:
                self._epoch.carry_out(change)
                return
            self._trial.epoch.carry_out(change)
            try:
                self._epoch.follow(change)
            except Exception:
                # This epoch is retiring, and its workers that also fail are replaced.
                logger.exception("a change cannot be made in the previous configuration")

    # Reload

    def _follow(self) -> None:
        """Watch the source of the configuration; note that a reload is due once it changed."""
        if self._follower.has_seen_change():
            self._coordinator.reload_wanted = True
        epoch, trial = self._epoch, self._trial
        if epoch.follows and trial is None and not self._coordinator.reload_wanted:
            self._follower.start(epoch.await_change)

    def _renew(self) -> None:
        """Reload, and start the trial of the next epoch if that succeeds."""
        self._notifier.reloading()
        self._follower.stop()
        try:
            with self._interrupted_by_stop():
                epoch = self._reload(self._epoch)
        except Exception as error:
            reason = str(error) if isinstance(error, ServerError) else repr(error)
            logger.error("reload failed, the present configuration stays in use: %s", reason)
            logger.debug("reload failed", exc_info=True)
            self._report_kept()
            self._notifier.ready()
            return
        self._trial = _Trial(epoch, Gate(), time.monotonic() + self._start_timeout)

    def _report_kept(self) -> None:
        """Report that the present configuration stays in use, because a reload has failed."""
        follows = self._epoch.follows
        self._watch.report(Obstacle.OUTDATED if follows else Obstacle.KEPT)

    @property
    def _is_settled(self) -> bool:
        """Whether no reload is in progress."""
        return self._trial is None and self._gate.is_open

    def _settle_trial(self) -> None:
        """Retire the present epoch once the next is ready, or discard that if it failed."""
        trial = self._trial
        if trial is None:
            return
        if self._are_ready(trial.epoch):
            previous, self._epoch, self._trial = self._epoch, trial.epoch, None
            self._failures, self._not_before = 0, 0.0
            self._gate.close()
            self._gate = trial.gate
            self._retire_all(previous)
        elif trial.exits > _TOLERATED_EXITS or time.monotonic() >= trial.deadline:
            self._trial = None
            trial.gate.close()
            self._retire_all(trial.epoch)
            self._report_kept()
            logger.error(
                "reload failed: the new workers %s; the present configuration stays in use",
                "exit" if trial.exits > _TOLERATED_EXITS else "are not ready in time",
            )
            self._notifier.ready()

    def _switch(self) -> None:
        """Let the new workers serve once the previous ones begin no more requests.

        Meanwhile, connections and requests wait in the kernel.
        """
        if self._gate.is_open or any(
            child.retired_at and not child.left for child in self._children.values()
        ):
            return
        self._gate.open()
        self._watch.report(Obstacle.OUTDATED, False)
        self._watch.report(Obstacle.KEPT, False)
        self._watch.report(Obstacle.UNREADABLE, False)
        logger.info("reload complete, the new configuration is in use")
        self._notifier.ready()
        self._announce()

    def _retire_all(self, epoch: Epoch) -> None:
        for child in self._members(epoch):
            child.retire()

    # Stop

    def _drain(self) -> None:
        """Let load balancers notice the stop while requests are still answered."""
        if self._epoch.drain <= 0:
            return
        self._watch.report(Obstacle.DRAINING)
        self._notifier.stopping()
        logger.info("draining: requests are answered for %g s", self._epoch.drain)
        deadline = time.monotonic() + self._epoch.drain
        while (rest := deadline - time.monotonic()) > 0:
            self._wait(min(rest, self._fill()))
            self._work()

    def _stop(self) -> None:
        logger.info("stopping: running requests are finished")
        self._notifier.stopping()
        self._trial = None
        self._coordinator.close()
        # Service managers may send SIGTERM right after the SIGQUIT of a graceful stop, so a second
        # signal changes nothing.
        deadline = time.monotonic() + self._stop_timeout
        self._epoch.refuse()
        for child in self._children.values():
            child.signal(signal.SIGTERM)
            child.retired_at = time.monotonic()
        self._companions.stop()
        while self._is_any_left() and (rest := deadline - time.monotonic()) > 0:
            self._wait(rest)
            self._reap()
        for pid, child in self._children.items():
            logger.warning("process %d is killed before its requests are finished", pid)
            child.signal(signal.SIGKILL)
        self._companions.stop(signal.SIGKILL)
        deadline = time.monotonic() + _KILL_TIMEOUT
        while self._is_any_left() and (rest := deadline - time.monotonic()) > 0:
            self._wait(rest)
            self._reap()
        for pid in self._children:
            logger.error("process %d does not exit: the system waits for a file or a device", pid)
        for pid in self._announcers:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    def _is_any_left(self) -> bool:
        """Return whether a worker or a companion still runs."""
        return bool(self._children) or self._companions.is_any_left()
