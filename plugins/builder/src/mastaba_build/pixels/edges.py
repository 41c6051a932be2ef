"""No-data regions that touch the border of a source (``touching_edges``).

Runs of such pixels in a row are joined with those of the row above that they overlap, so a source
of any size is read once, row by row, and only the runs are kept. They are stored in the work
directory, where all workers find them.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mastaba_build.output.storage import OutputStore
from mastaba_build.samples import Mask
from mastaba_build.sources.source import Source

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Outside:
    """Runs of pixels outside the image proper.

    Attributes:
        rows: shape (rows + 1,), number of the first run of each row.
        starts, ends: shape (runs,), first column of a run and the one after its last.
    """

    rows: Integers
    starts: Integers
    ends: Integers

    def mask(self, top: int, bottom: int, left: int, right: int) -> Mask:
        """Return which pixels of a rectangle are outside, shape (rows, columns)."""
        first, last = self.rows[top], self.rows[bottom]
        starts = np.clip(self.starts[first:last], left, right) - left
        ends = np.clip(self.ends[first:last], left, right) - left
        line = np.repeat(np.arange(bottom - top), np.diff(self.rows[top : bottom + 1]))
        steps = np.zeros((bottom - top, right - left + 1), np.int8)
        np.add.at(steps, (line, starts), 1)
        np.add.at(steps, (line, ends), -1)
        inside: Mask = np.cumsum(steps[:, :-1], axis=1, dtype=np.int8) > 0
        return inside


def has_outside(work: OutputStore, source: Source) -> bool:
    """Return whether the regions of a source are stored. Raises OutputError."""
    return work.stat(_key(source)) is not None


def write_outside(work: OutputStore, source: Source, found: Outside) -> None:
    """Store the regions of a source. Raises OutputError."""
    stream = io.BytesIO()
    np.savez(stream, rows=found.rows, starts=found.starts, ends=found.ends)
    work.write_temporary(_key(source), stream.getvalue())


def read_outside(work: OutputStore, source: Source) -> Outside | None:
    """Return the stored regions of a source; None if they are missing or damaged.

    Raises:
        OutputError: they cannot be read.
    """
    data = work.read_if_exists(_key(source))
    if data is None:
        return None
    try:
        with np.load(io.BytesIO(data)) as arrays:
            return Outside(arrays["rows"], arrays["starts"], arrays["ends"])
    except (ValueError, KeyError, OSError, zipfile.BadZipFile):
        return None


def _key(source: Source) -> str:
    """Return the name in the work directory, which depends on everything that regions depend on."""
    parts = source.path, source.identity, source.overview, source.bands, source.nodata
    text = repr((*parts, source.nodata_ranges, source.tolerance))
    return f"edges/{hashlib.sha256(text.encode()).hexdigest()}.npz"


def outside(strips: Iterator[Mask]) -> Outside:
    """Return the regions that touch the border; pixels touch each other at their sides.

    Args:
        strips: which pixels may have no data, in strips of whole rows from the top.
    """
    counts: list[int] = []
    starts: list[Integers] = []
    ends: list[Integers] = []
    parents: list[int] = []
    at_border: list[bool] = []
    above: list[tuple[int, int, int]] = []
    width = 0

    def root(label: int) -> int:
        while parents[label] != label:
            parents[label] = parents[parents[label]]
            label = parents[label]
        return label

    for strip in strips:
        width = strip.shape[1]
        padded = np.zeros((len(strip), width + 2), np.int8)
        padded[:, 1:-1] = strip
        steps = np.diff(padded, axis=1)
        lines, begin = np.nonzero(steps == 1)
        end = np.nonzero(steps == -1)[1]
        borders = np.searchsorted(lines, np.arange(len(strip) + 1))
        starts.append(begin)
        ends.append(end)
        for number in range(len(strip)):
            row: list[tuple[int, int, int]] = []
            position = 0
            part = slice(borders[number], borders[number + 1])
            for low, high in zip(begin[part].tolist(), end[part].tolist(), strict=True):
                label = len(parents)
                parents.append(label)
                at_border.append(low == 0 or high == width or not counts)
                while position < len(above) and above[position][1] <= low:
                    position += 1
                following = position
                while following < len(above) and above[following][0] < high:
                    other, own = root(above[following][2]), root(label)
                    parents[own] = other
                    at_border[other] |= at_border[own]
                    following += 1
                row.append((low, high, label))
            counts.append(len(row))
            above = row
    for _, _, label in above:
        at_border[root(label)] = True
    kept = np.array([at_border[root(label)] for label in range(len(parents))], bool)
    every = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    rows = np.concatenate([[0], np.cumsum(kept)]).astype(np.int64)[every]
    return Outside(rows, _joined(starts)[kept], _joined(ends)[kept])


def _joined(parts: list[Integers]) -> Integers:
    return np.concatenate(parts).astype(np.int64) if parts else np.zeros(0, np.int64)
