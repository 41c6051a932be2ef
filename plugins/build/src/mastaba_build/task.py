"""One slab, one task: its pixels, its bytes and its quarter image."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mastaba.api.catalogue import TileLimits
from mastaba_build.decimation import halved
from mastaba_build.groups import Group
from mastaba_build.pixels import Raster, paste
from mastaba_build.placement import Placement, Placer, Rectangle
from mastaba_build.plan import Plan, SlabKey, slab_directory
from mastaba_build.quarters import read_quarter, write_quarter
from mastaba_build.reading import Reader
from mastaba_build.resampling import resampled
from mastaba_build.storage import FileWriter, WritableStorage
from mastaba_writer.deflate import deflater
from mastaba_writer.slab_names import slab_path
from mastaba_writer.slab_writer import build_slab
from mastaba_writer.tile_encoder import encode_tile

MASK_FORMAT = "TIFF_ZIP_UINT8"
_STRIP = 1 << 22
"""Source cells that are read at once for a row of tiles."""


@dataclass(frozen=True, slots=True)
class SlabResult:
    """What the journal keeps of a slab.

    Attributes:
        size, md5: of the stored slab; 0 and empty if it has no data and is not stored.
        tiles: tiles with data.
        limits: tiles with data, in the matrix; None without any.
        seconds: time of the task.
    """

    slab: SlabKey
    size: int
    md5: str
    tiles: int
    limits: TileLimits | None
    seconds: float


def slab_key(plan: Plan, slab: SlabKey, kind: str = "DATA") -> str:
    """Return the name of a slab below the directory of the pyramid."""
    level = plan.levels[slab.level].matrix.id
    return f"{kind}/{level}/{slab_path(slab.column, slab.row, plan.configuration.path_depth)}"


class _Job(NamedTuple):
    """A tile and a group in it."""

    tile: int
    group: Group
    placement: Placement


class SlabBuilder:
    """Computes slabs of one plan, in one process.

    Args:
        plan: the build.
        target: where slabs are written; None to compute only.
        work: where quarter images are.
    """

    def __init__(
        self, plan: Plan, target: WritableStorage | None = None, work: WritableStorage | None = None
    ) -> None:
        self._plan = plan
        self._type = plan.pixel_type
        self._deflate = deflater(plan.encoder)
        self._reader = Reader(plan.pixel_type)
        self._target = target
        self._work = work
        self._placers: dict[tuple[int, int], Placer] = {}
        self._blank: dict[tuple[int, int], bytes] = {}

    @classmethod
    def for_files(cls, plan: Plan) -> SlabBuilder:
        """Return a builder that writes to the directories of the plan."""
        target = FileWriter(slab_directory(plan))
        return cls(plan, target, FileWriter(plan.configuration.work_directory))

    def build(self, slab: SlabKey, children: Sequence[SlabKey] = ()) -> SlabResult:
        """Compute a slab, write its quarter image, then the slab.

        Args:
            children: those of its children that contain data.

        Raises:
            BuildError: a source or an intermediate image cannot be used.
            OSError: something cannot be written.
        """
        started = time.monotonic()
        matrix = self._plan.levels[slab.level].matrix
        width, height = self._plan.configuration.slab
        payloads: list[bytes] = []
        masks: list[bytes] = []
        halves: list[Raster] = []
        found: list[tuple[int, int]] = []
        has_parent = self._plan.parent(slab) is not None and self._work is not None
        with_masks = self._plan.configuration.masks
        for strip, raster in enumerate(self._strips(slab, children)):
            tile_row = slab.row * height + strip
            for place in range(width):
                columns = slice(place * matrix.tile_width, (place + 1) * matrix.tile_width)
                tile = Raster(raster.samples[:, columns], raster.valid[:, columns])
                if tile.valid.any():
                    found.append((tile_row, slab.column * width + place))
                    pixels = self._type.stored(tile)
                    payloads.append(encode_tile(self._type.format, pixels, self._deflate))
                else:
                    payloads.append(self._nodata_tile(*tile.valid.shape))
                if with_masks:
                    mask = np.where(tile.valid, np.uint8(255), np.uint8(0))
                    masks.append(encode_tile(MASK_FORMAT, mask, self._deflate))
            if has_parent:
                halves.append(self._halved(raster))
        size, md5 = 0, ""
        if found:
            shape = matrix.tile_width, matrix.tile_height
            data = self._slab(payloads, self._type.format, self._type.channels, shape)
            size = len(data)
            if has_parent and self._work is not None:
                quarter = Raster(
                    np.concatenate([half.samples for half in halves]),
                    np.concatenate([half.valid for half in halves]),
                )
                write_quarter(self._work, slab, quarter)
            if self._target is not None:
                if with_masks:
                    mask_slab = self._slab(masks, MASK_FORMAT, 1, shape)
                    self._target.write(slab_key(self._plan, slab, "MASK"), mask_slab)
                md5 = self._target.write(slab_key(self._plan, slab), data)
        return SlabResult(slab, size, md5, len(found), _limits(found), time.monotonic() - started)

    def _halved(self, raster: Raster) -> Raster:
        """Return a strip of half the size; columns without data are not computed."""
        rows, columns = raster.valid.shape
        result = self._type.blank(rows // 2, columns // 2)
        found = np.flatnonzero(raster.valid.any(axis=0))
        if len(found):
            first, last = int(found[0]) // 2, int(found[-1]) // 2 + 1
            part = np.s_[:, 2 * first : 2 * last]
            half = halved(
                Raster(raster.samples[part], raster.valid[part]), has_alpha=self._type.has_alpha
            )
            result.samples[:, first:last], result.valid[:, first:last] = half
        return result

    def _slab(self, tiles: list[bytes], format: str, channels: int, tile: tuple[int, int]) -> bytes:
        width, height = self._plan.configuration.slab
        return build_slab(
            tiles,
            format=format,
            channels=channels,
            tile_width=tile[0],
            tile_height=tile[1],
            tiles_per_width=width,
            tiles_per_height=height,
        )

    def _nodata_tile(self, rows: int, columns: int) -> bytes:
        shape = rows, columns
        if shape not in self._blank:
            pixels = self._type.stored(self._type.blank(rows, columns))
            self._blank[shape] = encode_tile(self._type.format, pixels, self._deflate)
        return self._blank[shape]

    def _strips(self, slab: SlabKey, children: Sequence[SlabKey]) -> Iterator[Raster]:
        if self._plan.levels[slab.level].from_sources:
            return self._from_sources(slab)
        return self._from_quarters(slab, children)

    def _from_quarters(self, slab: SlabKey, children: Sequence[SlabKey]) -> Iterator[Raster]:
        """Yield the rows of tiles of a slab from the quarter images of its children."""
        assert self._work is not None
        matrix = self._plan.levels[slab.level].matrix
        width, height = self._plan.configuration.slab
        half_height, half_width = height * matrix.tile_height // 2, width * matrix.tile_width // 2
        quarters = [(child, read_quarter(self._work, child, self._type)) for child in children]
        for top in range(0, height * matrix.tile_height, matrix.tile_height):
            strip = self._type.blank(matrix.tile_height, width * matrix.tile_width)
            for child, quarter in quarters:
                # Rows of the quarter image that are in this row of tiles.
                shift = (child.row % 2) * half_height - top
                first, last = max(0, -shift), min(half_height, matrix.tile_height - shift)
                if first >= last:
                    continue
                part = Raster(quarter.samples[first:last], quarter.valid[first:last])
                if part.valid.any():
                    left = (child.column % 2) * half_width
                    paste(strip, part, first + shift, left, has_alpha=False)
            yield strip

    def _from_sources(self, slab: SlabKey) -> Iterator[Raster]:
        """Yield the rows of tiles of a slab from the sources."""
        level = self._plan.levels[slab.level]
        matrix, (width, height) = level.matrix, self._plan.configuration.slab
        self._reader.start()
        for tile_row in range(slab.row * height, (slab.row + 1) * height):
            strip = self._type.blank(matrix.tile_height, width * matrix.tile_width)
            jobs = self._jobs(slab, tile_row)
            for group in {id(job.group): job.group for job in jobs}.values():
                own = [job for job in jobs if job.group is group]
                self._draw(strip, own, matrix.tile_width)
            yield strip
        self._reader.check_sources()

    def _jobs(self, slab: SlabKey, tile_row: int) -> list[_Job]:
        """Return the work in a row of tiles, the lowest group first."""
        level = self._plan.levels[slab.level]
        matrix, width = level.matrix, self._plan.configuration.slab[0]
        first = slab.column * width
        jobs: list[_Job] = []
        if tile_row >= matrix.matrix_height:
            return jobs
        for index, (group, box) in enumerate(zip(self._plan.groups, self._plan.boxes, strict=True)):
            limits = matrix.limits_of(self._plan.widened(box, matrix))
            if limits is None or not limits.min_row <= tile_row <= limits.max_row:
                continue
            placer = self._placer(slab.level, index)
            for column in range(
                max(first, limits.min_col), min(first + width - 1, limits.max_col) + 1
            ):
                jobs += [_Job(column - first, group, one) for one in placer.place(tile_row, column)]
        return jobs

    def _placer(self, level: int, group: int) -> Placer:
        key = level, group
        if key not in self._placers:
            plan = self._plan
            self._placers[key] = Placer(
                plan.groups[group],
                plan.levels[level].matrix,
                plan.crs,
                plan.configuration.interpolation,
            )
        return self._placers[key]

    def _draw(self, strip: Raster, jobs: list[_Job], tile_width: int) -> None:
        """Draw one group over a row of tiles; its window is read at once if it is small."""
        kernel = self._plan.configuration.interpolation
        has_alpha = self._type.has_alpha
        whole = _union([job.placement.window for job in jobs])
        at_once = (
            len({job.placement.factor for job in jobs}) == 1
            and (whole[1] - whole[0]) * (whole[3] - whole[2]) <= _STRIP
        )
        group = jobs[0].group
        large = self._reader.read(group, whole, jobs[0].placement.factor) if at_once else None
        for job in jobs:
            top, bottom, left, right = job.placement.window
            if large is None:
                window = self._reader.read(group, job.placement.window, job.placement.factor)
            else:
                part = np.s_[top - whole[0] : bottom - whole[0], left - whole[2] : right - whole[2]]
                window = Raster(large.samples[part], large.valid[part])
            if not window.valid.any():
                continue
            drawn = resampled(window, job.placement, kernel, has_alpha=has_alpha)
            row, _, column, _ = job.placement.part
            paste(strip, drawn, row, job.tile * tile_width + column, has_alpha=has_alpha)


def _union(windows: list[Rectangle]) -> Rectangle:
    return (
        min(window[0] for window in windows),
        max(window[1] for window in windows),
        min(window[2] for window in windows),
        max(window[3] for window in windows),
    )


def _limits(tiles: list[tuple[int, int]]) -> TileLimits | None:
    if not tiles:
        return None
    rows, columns = zip(*tiles, strict=True)
    return TileLimits(min(rows), max(rows), min(columns), max(columns))
