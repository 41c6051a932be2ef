"""What the command reports: lines for people, or JSON events."""

from __future__ import annotations

import json
import time
from pathlib import Path
from shlex import quote
from typing import Any, TextIO

from mastaba_build.pixels.task import SlabResult
from mastaba_build.plan.plan import Plan
from mastaba_build.work.coordinator import Outcome
from mastaba_build.work.estimate import Estimate
from mastaba_writer.progress import ProgressBar

_MOST_FAILURES = 10


class Reports:
    """Reports to standard output and standard error.

    Args:
        as_json: every event is a line of JSON on ``out``, with the key ``event``.
        command: start of the lines on ``err``.
    """

    def __init__(
        self, out: TextIO, err: TextIO, *, as_json: bool = False, command: str = "mastaba build"
    ) -> None:
        self._out = out
        self._err = err
        self._json = as_json
        self._command = command
        self._bar = ProgressBar("Building", err)
        self._started = time.monotonic()
        self._tiles = 0
        self._bytes = 0

    def planned(self, plan: Plan) -> None:
        """Show the levels, the slabs and the tiles of a plan."""
        rows: list[dict[str, Any]] = []
        terms = plan.terms
        for number, level in enumerate(plan.levels):
            limits = level.limits
            tiles = (limits.max_row - limits.min_row + 1) * (limits.max_col - limits.min_col + 1)
            slabs = sum(1 for _ in plan.slabs(number))
            row = {"level": level.matrix.id, "slabs": slabs, "tiles": tiles}
            rows.append(row if terms is None else {**row, "requests": plan.requests(number)})
        if self._json:
            self._event(
                "plan",
                plan=plan.identity,
                format=plan.pixel_type.format,
                levels=rows,
                notes=plan.notes,
                **({} if terms is None else terms._asdict()),
            )
            return
        configuration = plan.configuration
        count, type_ = len(plan.sources), plan.pixel_type
        channels = "" if plan.is_vector else f" with {type_.channels} channels"
        self._line(
            f"{configuration.name}: {count} source{'s' * (count > 1)}, {type_.format}"
            f"{channels} in {configuration.tile_matrix_set}"
        )
        for row in rows:
            requests = "" if terms is None else f"  {row['requests']:>10} requests"
            self._line(
                f"  level {row['level']:>3}  {row['slabs']:>8} slabs  {row['tiles']:>10} tiles"
                f"{requests}"
            )
        total = sum(row["slabs"] for row in rows)
        for note in plan.notes:
            self._line(f"  note: {note}")
        requests = "" if terms is None else f"  {terms.requests:>10} requests"
        tiles = sum(row["tiles"] for row in rows)
        self._line(f"  total      {total:>8} slabs  {tiles:>10} tiles{requests}")
        if terms is not None:
            self._line(
                f"  {terms.concurrency} requests at a time (--concurrency), with pauses of "
                f"{terms.pause:g} s after each (--pause): the pauses alone take "
                f"{terms.seconds:.0f} s"
            )

    def estimated(self, found: Estimate) -> None:
        """Show an estimate."""
        if self._json:
            self._event(
                "estimate",
                sampled=found.sampled,
                bytes=found.bytes,
                cpu_seconds=round(found.cpu_seconds, 3),
                seconds=round(found.seconds, 3),
            )
        else:
            self._line(
                f"Estimate from {found.sampled} slabs: {_size(found.bytes)}, "
                f"{found.cpu_seconds:.0f} s of processor time, "
                f"{found.seconds:.0f} s on this machine"
            )

    def slab(self, plan: Plan, result: SlabResult, done: int, total: int) -> None:
        """Show that a slab is done."""
        self._tiles += result.tiles
        self._bytes += result.size
        if self._json:
            level, column, row = result.slab
            self._event(
                "slab",
                level=plan.levels[level].matrix.id,
                column=column,
                row=row,
                bytes=result.size,
                done=done,
                total=total,
            )
        else:
            self._bar(done, total)

    def built(self, plan: Plan, outcome: Outcome) -> None:
        """Show the totals of a run, and its failures."""
        seconds = time.monotonic() - self._started
        if self._json:
            self._event(
                "built",
                built=outcome.built,
                kept=outcome.kept,
                unchanged=outcome.unchanged,
                inexact=outcome.inexact,
                failed=len(outcome.failures),
                tiles=self._tiles,
                bytes=self._bytes,
                seconds=round(seconds, 3),
            )
        else:
            kept = f", {outcome.kept} from the run before" if outcome.kept else ""
            kept += f", {outcome.unchanged} unchanged" if outcome.unchanged else ""
            self._line(
                f"{outcome.built} slabs{kept}: {self._tiles} tiles, {_size(self._bytes)} in "
                f"{seconds:.1f} s ({self._tiles / max(seconds, 1e-9):.0f} tiles/s)"
            )
        if outcome.inexact:
            self.warned(
                f"{outcome.inexact} unchanged slabs were decoded to compute the levels above, and "
                "their pixels are not exactly those of a full build; --keep-work avoids that"
            )
        for text in outcome.losses[:_MOST_FAILURES]:
            self.warned(text)
        for slab, error in list(outcome.failures.items())[:_MOST_FAILURES]:
            level = plan.levels[slab.level].matrix.id
            self.failed(f"slab {slab.column}, {slab.row} of level {level}: {error}")
        if outcome.failures:
            self.failed(
                f"{len(outcome.failures)} slabs failed; nothing is published. Correct the cause "
                "and run the same command"
            )

    def complete(self, name: str) -> None:
        """Show that there is nothing to do."""
        if self._json:
            self._event("complete", name=name)
        else:
            self._line(f"{name} is complete: its sources and options have not changed")

    def verified(self, name: str, slabs: int) -> None:
        """Show that a pyramid is correct."""
        if self._json:
            self._event("verified", name=name, slabs=slabs)
        else:
            self._line(f"{name}: {slabs} slabs are correct")

    def done(self, plan: Plan, server_json: Path | None = None, address: str = "") -> None:
        """Say what is published and, if there is an installation, how the layer is served.

        Args:
            address: in the URLs of the installation.
        """
        path = plan.configuration.output.path(f"{plan.configuration.name}.json")
        server = {} if server_json is None else {"server": str(server_json)}
        if self._json:
            self._event("done", descriptor=path, **server)
            return
        self._line(f"Published {path}")
        if server:
            self._line(f"Serve it:  mastaba -f {quote(str(server_json))} --http {address}")

    def serving(self, address: str) -> None:
        """Say where the layer is served."""
        if self._json:
            self._event("serving", address=address)
        else:
            self._line(f"Open http://{address}/viewer in a browser. Press Ctrl+C to stop.")

    def warned(self, message: str) -> None:
        """Report something that does not prevent the build."""
        if self._json:
            self._event("warning", message=message)
        self._err.write(f"{self._command}: {message}\n")

    def failed(self, message: str) -> None:
        """Report an error."""
        if self._json:
            self._event("error", message=message)
        for line in message.splitlines():
            self._err.write(f"{self._command}: {line}\n")

    def _event(self, event: str, **values: Any) -> None:
        self._line(json.dumps({"event": event, **values}))

    def _line(self, text: str) -> None:
        self._out.write(f"{text}\n")
        self._out.flush()


def _size(count: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
