"""The engine that a configuration names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mastaba_build.errors import PlanError
from mastaba_build.plan.plan import Plan
from mastaba_build.work.engine import Engine
from mastaba_build.work.local_engine import LocalEngine, processes

_DASK = "dask:"


@contextmanager
def opened(engine: Engine | None, plan: Plan) -> Iterator[Engine]:
    """Yield a given engine, which stays open, or else that of the configuration of a plan.

    Raises:
        PlanError: as in `engine_of`.
    """
    if engine is not None:
        yield engine
        return
    engine = engine_of(plan)
    try:
        yield engine
    finally:
        engine.close()


def engine_of(plan: Plan) -> Engine:
    """Return the engine of the configuration of a plan.

    Raises:
        PlanError: its package is not installed, or its workers cannot be reached.
    """
    configuration = plan.configuration
    if not configuration.engine.startswith(_DASK):
        return LocalEngine(processes(configuration, plan))
    try:
        from mastaba_build.work.dask_engine import DaskEngine
    except ModuleNotFoundError as error:
        if error.name not in ("dask", "distributed"):
            raise
        raise PlanError(
            "the engine dask needs the package distributed; install mastaba-build[dask]"
        ) from None
    return DaskEngine(configuration.engine.removeprefix(_DASK))
