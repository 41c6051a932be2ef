"""One configuration, as seen by the processes that serve it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from mastaba_server.errors import ChangeRefusedError
from mastaba_server.processes.control import Change, WorkerLink


class Epoch(ABC):
    """What the worker processes serve, and how it is changed.

    Attributes:
        drain: seconds for which requests are answered after a stop signal, while not ready.
        follows: whether `await_change` causes reloads.
    """

    drain = 0.0
    follows = False

    @abstractmethod
    def serve(self, link: WorkerLink | None) -> None:
        """Serve requests until SIGTERM or SIGUSR1 arrives, finish those running, and return.

        Called in each worker process. SIGUSR1 means that other workers continue to serve, so
        keep-alive connections may be given to them; ``link.left`` must then be called as soon as
        no more requests are begun. Must call ``link.ready`` when requests can be accepted, and
        accept them once ``link.gate`` is open.

        Args:
            link: link to the supervisor; None in a process without one.
        """

    def carry_out(self, change: Change) -> None:
        """Make a change in the supervisor, before the workers make it.

        Raises:
            ChangeRefusedError: the change is refused.
        """
        raise ChangeRefusedError("unavailable", "changes are not possible")

    def follow(self, change: Change) -> None:  # noqa: B027 - without changes, nothing to do
        """Make a change that another epoch has made while both are served."""

    def refuse(self) -> None:  # noqa: B027 - connections may also wait for the next process
        """Let no new connection begin: all processes will stop, and answer those that wait."""

    def announcement(self) -> Callable[[], None] | None:
        """Return what reports the changes since the last call, or None. It may take long."""
        return None

    def companions(self) -> Sequence[Callable[[], None]]:
        """Return what runs beside the workers, each in a process of its own until SIGTERM arrives.

        Called often. If the result no longer equals the previous one, it is started again.
        """
        return ()

    def await_change(self) -> None:
        """Return when the source of the configuration differs from what the last load has read.

        Called in a process of its own if `follows`, so it may wait for storages.
        """
        raise NotImplementedError
