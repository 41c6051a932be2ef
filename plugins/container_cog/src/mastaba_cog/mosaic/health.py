"""Tables that cannot be used are a flaw of the server, which its health reports."""

from __future__ import annotations

from collections.abc import Sequence

from mastaba_cog.mosaic.live import Mosaic
from mastaba_server.processes.scoreboard import Obstacle, Scoreboard


def report_faults(scoreboard: Scoreboard, mosaics: Sequence[Mosaic]) -> None:
    """Report from now on whether one of the mosaics of a configuration has a fault."""

    def report() -> None:
        scoreboard.report(Obstacle.TABLES, any(mosaic.fault for mosaic in mosaics))

    for mosaic in mosaics:
        mosaic.report = report
    report()
