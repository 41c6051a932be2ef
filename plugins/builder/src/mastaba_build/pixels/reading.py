"""Reading of native source pixels; GDAL decodes them and does nothing else."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from itertools import product
from typing import Any, TypeAlias

import numpy as np
from rasterio.errors import RasterioError
from rasterio.windows import Window

from mastaba_build.config.access import Access
from mastaba_build.errors import SourceError
from mastaba_build.output.storage import OutputStore
from mastaba_build.pixels.conversion import converted, nodata_mask, palette_of
from mastaba_build.pixels.edges import Outside, has_outside, outside, read_outside, write_outside
from mastaba_build.pixels.owners import Owners
from mastaba_build.pixels.placement import Rectangle
from mastaba_build.samples import Mask, PixelType, Raster, fill, paste
from mastaba_build.sources.groups import Group, Member, overview_of
from mastaba_build.sources.inventory import identity_of, open_source
from mastaba_build.sources.source import Source
from mastaba_render.api.resampling import decimate

_OPEN_DATASETS = 32
_STRIP = 1 << 22
"""Source pixels that are averaged at a time; one cell at least."""

_Image: TypeAlias = tuple[str, int | None]
"""Path of a source, and number of the overview."""


class Reader:
    """Reads pixels of groups. Datasets stay open: at most 32, the least recently used is closed.

    Args:
        decimation: how several pixels become a cell, a method of `decimate`.
        access: what the sources may open.
        work: work directory, which may contain what was found out about sources.
    """

    def __init__(
        self,
        pixel_type: PixelType,
        decimation: str,
        access: Access,
        work: OutputStore | None = None,
    ) -> None:
        self._type = pixel_type
        self._has_alpha, self._dtype = pixel_type.has_alpha, pixel_type.dtype
        self._channels = pixel_type.channels
        self._access = access
        self._work = work
        self._decimation = decimation
        self._open: OrderedDict[_Image, Any] = OrderedDict()
        self._palettes: dict[str, np.ndarray[Any, Any]] = {}
        self._used: dict[str, Source] = {}
        self._outsides: OrderedDict[_Image, Outside] = OrderedDict()
        self._coarser: dict[tuple[Group, int], tuple[Group, int]] = {}
        self._extents: dict[Group, np.ndarray[Any, Any]] = {}
        self._turns: dict[Group, int] = {}

    def close(self) -> None:
        for dataset in self._open.values():
            dataset.close()
        self._open.clear()

    def read(
        self, group: Group, window: Rectangle, factor: int, owners: Owners | None = None
    ) -> Raster:
        """Return source cells of ``factor`` x ``factor`` pixels.

        Args:
            window: cells; those outside all members are not valid.
            owners: of the window, if `is_direct`; they are told which members its pixels with data
                come from.

        Raises:
            SourceError: a source cannot be read or has changed.
        """
        group, factor = self._overview(group, factor)
        if factor == 1:
            return self._read(group, window, owners)
        top, bottom, left, right = window
        result = self._type.blank(bottom - top, right - left)
        # Cells far outside the group would be read for nothing.
        first_row, last_row = max(top, 0), min(bottom, -(-group.height // factor))
        first, last = left, right
        if not self._turn(group):
            first, last = max(left, 0), min(right, -(-group.width // factor))
        if last_row <= first_row or last <= first:
            return result
        across = min(last - first, max(1, _STRIP // (factor * factor)))
        down = max(1, _STRIP // (factor * factor * across))
        for row, column in product(range(first_row, last_row, down), range(first, last, across)):
            cells = row, min(row + down, last_row), column, min(column + across, last)
            part = np.s_[cells[0] - top : cells[1] - top, cells[2] - left : cells[3] - left]
            decimate(
                *self._read(group, _scaled(cells, factor)),
                factor,
                self._decimation,
                has_alpha=self._has_alpha,
                alpha_of_all=False,
                enough=(factor * factor + 1) // 2,
                into=(result.samples[part], result.valid[part]),
            )
        return result

    def is_direct(self, group: Group, factor: int) -> bool:
        """Return whether cells are the pixels of the members of a group."""
        return factor == 1 and self._overview(group, factor)[0] is group

    def near(self, group: Group, window: Rectangle) -> Sequence[int]:
        """Return the positions of the members that meet a window, the lowest first."""
        turn = self._turn(group)
        if turn and not (window[2] >= 0 and window[3] <= group.width):
            return range(len(group.members))
        found: list[int] = self._near(group, window).tolist()
        return found

    def own(self, group: Group, window: Rectangle, owners: Owners) -> None:
        """Find the members that pixels come from, without overviews; as in `read`.

        Raises:
            SourceError: a source cannot be read or has changed.
        """
        self._read(group, window, owners)

    def _overview(self, group: Group, factor: int) -> tuple[Group, int]:
        """Return the coarsest overviews of a group from which cells can be made, and their factor.

        They are those of the whole group, so that cells do not depend on the window.
        """
        key = group, factor
        if key not in self._coarser:
            usable = set.intersection(*(_usable(one) for one in group.members))
            usable = {one for one in usable if self._turn(group) % one == 0}
            best = max((one for one in usable if factor % one == 0), default=1)
            self._coarser[key] = (overview_of(group, best) if best > 1 else group), factor // best
        return self._coarser[key]

    def _turn(self, group: Group) -> int:
        """Return `Group.closed_turn`."""
        if group not in self._turns:
            self._turns[group] = group.closed_turn
        return self._turns[group]

    def _read(self, group: Group, window: Rectangle, owners: Owners | None = None) -> Raster:
        """Return pixels of a group; the columns of one around the earth go on after its end."""
        top, bottom, left, right = window
        turn = self._turn(group)
        if not turn or (left >= 0 and right <= group.width):
            return self._composed(group, window, owners)
        canvas = self._type.blank(bottom - top, right - left)
        column = left
        while column < right:
            is_inside = 0 <= column < group.width
            first = column if is_inside else column % turn
            last = min(group.width if is_inside else turn, first + right - column)
            place = np.s_[:, column - left : column - left + last - first]
            part = self._composed(group, (top, bottom, first, last), owners, column - first)
            canvas.samples[place], canvas.valid[place] = part
            column += last - first
        return canvas

    def _composed(
        self, group: Group, window: Rectangle, owners: Owners | None = None, shift: int = 0
    ) -> Raster:
        """Return pixels of a group from its members; those outside it are not valid.

        Args:
            owners: as in `read`.
            shift: columns from the window to that of the owners.
        """
        top, bottom, left, right = window
        shape = bottom - top, right - left
        canvas = Raster(np.zeros((*shape, self._channels), self._dtype), np.zeros(shape, bool))
        near = self._near(group, window).tolist()
        for number in near if self._has_alpha else reversed(near):
            member = group.members[number]
            source = member.source
            rows = max(top, member.row), min(bottom, member.row + source.height)
            columns = max(left, member.column), min(right, member.column + source.width)
            part = np.s_[rows[0] - top : rows[1] - top, columns[0] - left : columns[1] - left]
            place = Raster(canvas.samples[part], canvas.valid[part])
            owned = *rows, columns[0] + shift, columns[1] + shift
            if not self._has_alpha and place.valid.all():
                continue
            area = Window(
                columns[0] - member.column,
                rows[0] - member.row,
                columns[1] - columns[0],
                rows[1] - rows[0],
            )
            if self._is_plain(source) and not place.valid.any():
                bands = [*source.bands, *([source.alpha] if source.alpha else [])]
                self._bands(source, bands, area, out=np.moveaxis(place.samples, -1, 0))
                place.valid[...] = True
                if owners is not None:
                    shown = self._is_visible(place) if self._has_alpha else None
                    owners.note(number + 1, owned, shown)
                continue
            raster = self._converted(source, area)
            if owners is not None:
                owners.note(number + 1, owned, self._is_visible(raster))
            if self._has_alpha:
                paste(place, raster, 0, 0, has_alpha=True)
            else:
                fill(place, raster, 0, 0)
        return canvas

    def _is_visible(self, raster: Raster) -> Mask:
        """Return which pixels have data that can be seen."""
        return raster.valid & (raster.samples[:, :, -1] > 0) if self._has_alpha else raster.valid

    def _near(self, group: Group, window: Rectangle) -> Any:
        """Return the positions of the members that meet a window, the lowest first."""
        if group not in self._extents:
            self._extents[group] = np.array(
                [
                    (
                        one.row,
                        one.row + one.source.height,
                        one.column,
                        one.column + one.source.width,
                    )
                    for one in group.members
                ]
            )
        extents = self._extents[group]
        top, bottom, left, right = window
        near = (extents[:, 0] < bottom) & (extents[:, 1] > top)
        near &= (extents[:, 2] < right) & (extents[:, 3] > left)
        return np.flatnonzero(near)

    def _is_plain(self, source: Source) -> bool:
        """Return whether the bands of a source are the channels, all valid and as they are."""
        return (
            source.dtype == self._dtype.name == "uint8"
            and len(source.bands) + (source.alpha is not None) == self._type.channels
            and (source.alpha is not None) == self._has_alpha
            and source.nodata is None
            and not source.nodata_ranges
            and source.scale is None
            and not source.palette
            and not source.has_mask
        )

    def _bands(
        self,
        source: Source,
        bands: Sequence[int],
        area: Window,
        *,
        masks: bool = False,
        out: Any | None = None,
    ) -> Any:
        """Return bands or their masks, shape (bands, rows, columns).

        Args:
            out: array of that shape to read into.
        """
        dataset = self._dataset(source)
        self._used[source.path] = source
        try:
            read = dataset.read_masks if masks else dataset.read
            return read(list(bands), window=area, out=out)
        except (RasterioError, OSError, MemoryError) as error:
            raise SourceError(
                f"{source.path}: cannot be read at row {area.row_off}, column {area.col_off}: "
                f"{error.__cause__ or error}"
            ) from None

    def _dataset(self, source: Source) -> Any:
        key = source.path, source.overview
        dataset = self._open.pop(key, None)
        if dataset is None:
            dataset = open_source(source, self._access)
            if len(self._open) >= _OPEN_DATASETS:
                self._open.popitem(last=False)[1].close()
        self._open[key] = dataset
        return dataset

    def start(self) -> None:
        """Forget which sources were read."""
        self._used.clear()

    def check_sources(self) -> None:
        """Check that the sources read since `start` are still those in the plan.

        Raises:
            SourceError: one has changed.
        """
        for source in self._used.values():
            try:
                identity = identity_of(source.path, self._dataset(source), source.remote)
            except OSError as error:
                raise SourceError(f"{source.path}: cannot be read: {error}") from None
            if identity != source.identity:
                raise SourceError(f"{source.path}: has changed since the start; build again")

    def is_valid(self, source: Source, top: int, bottom: int, left: int, right: int) -> bool:
        """Return whether all pixels of a window of a source have data.

        Raises:
            SourceError: it cannot be read.
        """
        area = Window(left, top, right - left, bottom - top)
        return bool(self._converted(source, area).valid.all())

    def _converted(self, source: Source, area: Window) -> Raster:
        """Return part of a source as samples of the pyramid."""
        bands = self._bands(source, source.bands, area)
        alpha = self._bands(source, [source.alpha], area)[0] if source.alpha else None
        mask = (
            self._bands(source, source.bands[:1], area, masks=True)[0] if source.has_mask else None
        )
        palette = self._palette(source) if source.palette else None
        missing = nodata_mask(source, bands)
        if missing is not None and source.touching_edges and missing.any():
            top, left = int(area.row_off), int(area.col_off)
            rectangle = top, top + int(area.height), left, left + int(area.width)
            missing = self._outside(source).mask(*rectangle)
        return converted(source, self._type, bands, alpha, mask, palette, missing)

    def find_outside(self, source: Source) -> None:
        """Store the regions without data that touch the border of a source, for all workers.

        Raises:
            SourceError: the source cannot be read or has changed.
            OutputError: they cannot be stored.
        """
        assert self._work is not None
        if not has_outside(self._work, source):
            self.start()
            found = self._computed_outside(source)
            self.check_sources()
            write_outside(self._work, source, found)

    def _outside(self, source: Source) -> Outside:
        """Return the pixels without data that touch the border of a source."""
        key = source.path, source.overview
        if key not in self._outsides:
            if len(self._outsides) >= _OPEN_DATASETS:
                self._outsides.popitem(last=False)
            stored = None if self._work is None else read_outside(self._work, source)
            self._outsides[key] = stored or self._computed_outside(source)
        return self._outsides[key]

    def _computed_outside(self, source: Source) -> Outside:
        rows = max(1, _STRIP // (source.width * len(source.bands)))
        areas = (
            Window(0, top, source.width, min(rows, source.height - top))
            for top in range(0, source.height, rows)
        )
        strips = (nodata_mask(source, self._bands(source, source.bands, one)) for one in areas)
        return outside(strip for strip in strips if strip is not None)

    def _palette(self, source: Source) -> Any:
        if source.path not in self._palettes:
            colours = self._dataset(source).colormap(source.bands[0])
            self._palettes[source.path] = palette_of(colours, source.dtype)
        return self._palettes[source.path]


def _scaled(cells: Rectangle, factor: int) -> Rectangle:
    """Return the pixels of cells."""
    top, bottom, left, right = cells
    return top * factor, bottom * factor, left * factor, right * factor


def _usable(member: Member) -> set[int]:
    """Return the overviews of a member whose pixels are cells of its group."""
    return {
        one
        for one in member.source.overviews
        if one > 1 and member.row % one == member.column % one == 0
    }
