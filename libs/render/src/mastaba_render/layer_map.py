"""Maps before they are encoded: a `LayerMap` for each layer, and all of them as a `PreparedMap`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Final, NamedTuple

import numpy as np

from mastaba.errors import InvalidParameterError
from mastaba.model.pyramid import Level, Pyramid
from mastaba.model.settings import MapSettings
from mastaba.model.tile_matrix_set import COARSEST, TileMatrix
from mastaba_render.compose import joined, merge, merge_memory
from mastaba_render.extent import cell_of, part_of, part_with_data, turn_of
from mastaba_render.map_request import MapImage, MapLayer, MapRequest, Mask, Pixels
from mastaba_render.mosaic import DecodedTiles, LevelPixels, StoredTiles, area_met, holds
from mastaba_render.native import Window
from mastaba_render.overview import OverviewPixels
from mastaba_render.positions import other_crs_positions
from mastaba_render.sampling import Needs, Positions, drawn, same_crs_positions
from mastaba_render.styles import relief_name, styled, styling_memory
from mastaba_server import trace

_STRIP_PIXELS: Final = 512 * 1024
"""Pixels of a map drawn at a time."""
_STRIP_SOURCE: Final = 8 * 1024**2
"""Bytes of source pixels read at a time, unless a single row needs more."""
_CELL: Final = 16
"""Rows in a cell of the position grid: no more rows are looked at for strips of whole cells."""

_SMALL_THINGS: Final = 1024**2
"""Bytes of positions, weights and tile descriptions."""

_PRODUCTS: Final = 1 << 31
"""Products of a source pixel and a weight; more need a second or two."""
_PRODUCTS_PER_PIXEL: Final = 128
"""For each pixel of the map and of its source. The largest kernel, 8 by 8, usually needs 64."""

_OVERVIEW_LOSS: Final = 8
"""Factor by which an overview may be coarser than the longer side of its pixels."""


@dataclass(frozen=True, slots=True)
class DrawingMemory:
    """Upper estimates of the bytes needed to draw a layer in strips.

    Attributes:
        source: source pixels of a strip.
        kept: held from one strip to the next.
        drawing: held while a strip is drawn.
        drawn: size of a drawn strip.
    """

    source: int
    kept: int
    drawing: int
    drawn: int


class Sources(NamedTuple):
    """The state of the stored tiles that a map is drawn from.

    Attributes:
        version: text that changes with these tiles; None if a storage cannot distinguish
            generations of a slab.
        modified: when the slabs were last modified, Unix seconds; 0 if nothing is stored, None if
            a storage does not report it.
    """

    version: str | None
    modified: float | None

    @classmethod
    def of(cls, stored: StoredTiles) -> Sources:
        """Return the state of some tiles of one level."""
        slabs = {tile.index for tile in stored.values() if tile is not None}
        return cls(version_of(stored), _latest(index.modified for index in slabs))

    @classmethod
    def joined(cls, parts: Sequence[Sources], separator: str) -> Sources:
        """Return the state of all parts; an attribute is None if it is None in one part."""
        versions = [part.version for part in parts if part.version is not None]
        version = separator.join(versions) if len(versions) == len(parts) else None
        return cls(version, _latest(part.modified for part in parts))


def _latest(times: Iterable[float | None]) -> float | None:
    last = 0.0
    for time in times:
        if time is None:
            return None
        last = max(last, time)
    return last


class LayerMap:
    """One layer in one extent and style. How to draw it is decided at once; it is drawn later.

    Hillshade, slope and aspect are computed from an unstyled map that is one pixel larger on each
    side, so adjacent maps fit together. "Rows" below are those of the unstyled map.

    Args:
        entry: a raster layer and its style.
        levels: the levels of the layer by tile matrix identifier.
        request: the map; its layers are ignored.
        same_crs: whether the CRS of the map is equal or equivalent to that of the layer.

    Attributes:
        is_empty: whether all pixels are nodata because none has a position in the CRS of the layer.
    """

    def __init__(
        self,
        entry: MapLayer,
        levels: Mapping[str, LevelPixels],
        request: MapRequest,
        *,
        same_crs: bool,
    ) -> None:
        layer, style = entry.layer, entry.style
        self._layer = layer
        self._ranges = entry.ranges
        self._style = style if style is not None and (style.palette or style.processing) else None
        self._margin = 0
        if self._style is not None:
            self._cell, self._is_geographic = cell_of(request), request.crs.is_geographic
            if relief_name(style) is not None:
                self._margin = 1
                request = part_of(request, Window(-1, request.height + 1, -1, request.width + 1))
        self._height, self._width = request.height, request.width
        self._kernel = layer.resampling
        # Levels go from coarse to fine.
        self._coarsest = next(iter(levels.values()))
        self._level: LevelPixels | OverviewPixels = self._coarsest
        self._nodata, self._dtype = self._coarsest.nodata, self._coarsest.dtype
        self._positions: Positions | None = None
        self.is_empty = True
        self._resolution = math.inf
        # The pixels that may have a position, and those of them that may hold data.
        self._placed = self._part = Window(0, request.height, 0, request.width)
        # All rows of this part.
        self._all = slice(0, request.height)
        self._needed: dict[tuple[int, int], Needs | None] = {}
        self._stored: StoredTiles | None = None
        self._around, self._turn = 0, math.inf
        self._place: Callable[[TileMatrix, int], Positions | None]
        bbox, width, height = request.bbox, request.width, request.height
        if same_crs:
            place = partial(same_crs_positions, bbox, width, height)
            self._place = lambda matrix, _around: place(matrix)
        else:
            *_, finest = levels.values()
            source = layer.pyramid.tile_matrix_set.crs
            self._turn = turn_of(source)
            found = part_with_data(request, source, finest.level.matrix, self._turn)
            if found is None:
                return
            self._placed, part, bbox = found
            width, height = part.width, part.height
            self._place = partial(other_crs_positions, part, source, self._turn)
        self._resolution = math.sqrt(
            (bbox.xmax - bbox.xmin) / width * (bbox.ymax - bbox.ymin) / height
        )
        level = choose_level(layer.pyramid, self._resolution * request.resolution_factor)
        if not same_crs:
            self._around = level.matrix.tiles_around(self._turn)
        self._use(levels[level.matrix.id], self._around)

    def _use(self, level: LevelPixels | OverviewPixels, around: int) -> None:
        """Draw from a level whose columns of tiles repeat after some; never, if these are 0."""
        self._level, self._part = level, self._placed
        self._all = slice(0, self._part.bottom - self._part.top)
        positions = self._place(level.level.matrix, around)
        self.is_empty = positions is None
        needs = None if positions is None else positions.needs(self._kernel, self._all)
        if positions is not None and needs is not None:
            area = area_met(level.area, needs.window, self._around * level.tile_width)
            if area is None:
                positions = needs = None
            elif not holds(area, needs.window):
                positions = self._within(positions, area)
                needs = None if positions is None else positions.needs(self._kernel, self._all)
        self._positions = positions
        self._needed = {(0, self._all.stop): needs}
        if needs is not None:
            self._count = level.count(needs.window, self._around)
            self._tile_memory = level.tile_memory(needs.window, self._around)

    def _within(self, positions: Positions, area: Window) -> Positions | None:
        """Reduce the map to the pixels that may show an area; None if there are none."""
        found = positions.within(self._kernel, area)
        if found is None:
            return None
        top, bottom, left, right = found[1]
        first, _, start, _ = self._placed
        self._part = Window(first + top, first + bottom, start + left, start + right)
        self._all = slice(0, bottom - top)
        return found[0]

    @property
    def registration(self) -> str:
        """``post`` if the map shows values of posts without a style, near their resolution."""
        if self._layer.registration != "post" or self._style is not None:
            return "area"
        finest = self._layer.pyramid.finest.matrix
        is_finest = self._level.level.matrix is finest
        near = self._resolution <= finest.cell_size / COARSEST
        return "post" if is_finest and near else "area"

    @property
    def strip_height(self) -> int:
        """Number of rows that can be drawn at a time in bounded memory."""
        height = _STRIP_PIXELS // self._width
        needs = self._needs(self._all)
        if needs is not None:
            height = min(height, self._all.stop * _STRIP_SOURCE // self._bytes_of(needs.window))
        if height >= self._height:
            return self._height
        return height - height % _CELL if height > _CELL else max(1, height)

    def check(self, settings: MapSettings) -> None:
        """Refuse a map that needs too many tiles, or too many of their pixels at a time.

        If no coarser level is stored and an overview suffices, the map is drawn from it.

        Raises:
            InvalidParameterError: naming BBOX.
        """
        if self._is_within(settings):
            return
        for overview in self._overviews() if settings.overviews else ():
            self._use(overview, overview.level.matrix.tiles_around(self._turn))
            if self._is_within(settings):
                return
        raise _too_big()

    def _is_within(self, settings: MapSettings) -> bool:
        needs = self._needs(self._all)
        if needs is None:
            return True
        top, bottom, left, right = needs.window
        pixels = self._height * self._width + (bottom - top) * (right - left)
        if needs.products > max(_PRODUCTS, _PRODUCTS_PER_PIXEL * pixels):
            return False
        rows, columns = self._count
        if columns > settings.max_tiles_x or rows > settings.max_tiles_y:
            return False
        if self._bytes_of(needs.window) <= settings.max_source_bytes:
            return True
        strips = self._needs_of(row_ranges(self._height, self.strip_height))
        return all(self._bytes_of(one.window) <= settings.max_source_bytes for one in strips)

    def _overviews(self) -> Iterator[OverviewPixels]:
        """Yield the overviews that may replace the coarsest level, the best one first."""
        if self._level is not self._coarsest or self._positions is None:
            return
        mean = self._resolution / self._coarsest.level.matrix.cell_size
        longer = max(self._positions.ratios)
        best, last = (math.floor(math.log2(ratio / COARSEST)) for ratio in (mean, longer))
        if last > 0:
            for power in range(max(best, 1), last + _OVERVIEW_LOSS.bit_length()):
                yield OverviewPixels(self._coarsest, 2**power)

    def memory(self, cuts: Sequence[slice]) -> DrawingMemory:
        """Return upper estimates of the bytes needed to draw ranges of rows of the styled map."""
        channels = len(self._nodata)
        styled_pixels = max(rows.stop - rows.start for rows in cuts) * self._width
        pixels = styled_pixels + 2 * self._margin * self._width
        plain = pixels * (channels * self._dtype.itemsize + 1)
        drawn = plain + styled_pixels * (self.blank.pixels.nbytes + 1)
        styling = plain
        if self._style is not None:
            styling += styled_pixels * styling_memory(self._style)
        if self._ranges:
            styling += drawn
        strips = self._needs_of(cuts)
        if not strips:
            return DrawingMemory(0, 0, max(plain, styling), drawn)
        largest = max((needs.window for needs in strips), key=self._bytes_of)
        source = self._bytes_of(largest)
        kept = self._tile_memory
        if len(cuts) > 1:
            kept = self._level.tile_memory(largest, self._around)
        # Decoded tiles, the mosaic, and the validity of each of its pixels; of floats, a copy
        # without nodata. Across CRSs, the validity of each pixel of the map.
        samples = source // self._dtype.itemsize
        copies = 2 if self._dtype == np.float32 else 1
        drawing = kept + copies * source + 6 * samples // channels + plain + 17 * pixels
        if self._dtype == np.float32:
            # Next to nodata, the source pixels of each pixel.
            drawing += 80 * pixels
        # The loops hold one row of the window as floats.
        drawing += 4 * channels * (largest.right - largest.left)
        drawing += max(needs.memory for needs in strips)
        return DrawingMemory(source, kept, max(drawing, styling), drawn)

    def _bytes_of(self, window: Window) -> int:
        top, bottom, left, right = window
        return (bottom - top) * (right - left) * len(self._nodata) * self._dtype.itemsize

    def narrow(self, row: int, column: int) -> None:
        """Reduce the map, which has no relief, to one of its pixels."""
        top, bottom, left, right = self._part
        inside = top <= row < bottom and left <= column < right
        if self._positions is not None:
            self._positions = self._positions.only(row - top, column - left) if inside else None
        self._height = self._width = 1
        self._part = Window(0, 1, 0, 1)
        self._all = slice(0, 1)
        self._needed.clear()

    def sources(self) -> Sources:
        """Return the state of the stored tiles."""
        version, modified = Sources.of(self._tiles())
        if version is not None:
            version = f"{self._level.level.matrix.id} {version}"
        return Sources(version, modified)

    def _tiles(self) -> StoredTiles:
        """Return the tiles of the map. After drawing, they are those that were drawn."""
        if self._stored is None:
            needs = self._needs(self._all)
            self._stored = {} if needs is None else self._level.stored(needs.window, self._around)
        return self._stored

    def strips(self, cuts: Sequence[slice]) -> Iterator[MapImage]:
        """Yield ranges of rows of the styled map.

        A row has the same pixels in every range that contains it.
        """
        # A single strip shares its tiles with no other.
        kept: DecodedTiles | None = {} if len(cuts) > 1 else None
        return map(partial(self._strip, kept=kept), self._with_margin(cuts))

    @cached_property
    def blank(self) -> MapImage:
        """A pixel without data."""
        if self._style is None:
            return self._coarsest.blank
        side = 1 + 2 * self._margin
        return self._styled(MapImage(*self._empty(side, side), self._nodata))

    def _styled(self, image: MapImage) -> MapImage:
        if self._style is None:
            return image
        return styled(self._style, image, *self._cell, is_geographic=self._is_geographic)

    def _with_margin(self, cuts: Sequence[slice]) -> Sequence[slice]:
        """Return the rows from which rows of the styled map are computed."""
        # Row 0 is one row above row 0 of the styled map, if there is a margin.
        return [slice(rows.start, rows.stop + 2 * self._margin) for rows in cuts]

    def _strip(self, rows: slice, kept: DecodedTiles | None) -> MapImage:
        """Return rows of the styled map, given those that they are computed from."""
        image = self._draw(rows, kept)
        shown = image if self._style is None else self._styled(image)
        return self._within_ranges(shown, image) if self._ranges else shown

    def _within_ranges(self, shown: MapImage, image: MapImage) -> MapImage:
        """Return rows of the styled map without the pixels whose values are not to be shown."""
        height, width, _ = shown.pixels.shape
        start = self._margin
        values = image.pixels[start : start + height, start : start + width, 0]
        valid = np.zeros(values.shape, np.bool_)
        for low, high in self._ranges:
            valid |= (values >= low) & (values <= high)
        if shown.valid is not None:
            valid &= shown.valid
        nodata = np.array(shown.nodata).astype(shown.pixels.dtype)
        pixels = np.where(valid[:, :, np.newaxis], shown.pixels, nodata)
        return replace(shown, pixels=pixels, valid=valid)

    def _draw(self, rows: slice, kept: DecodedTiles | None) -> MapImage:
        """Return rows without style."""
        height, width = rows.stop - rows.start, self._width
        inside = self._inside(rows)
        needs = self._needs(inside)
        if needs is None or self._positions is None:
            return MapImage(*self._empty(height, width), self._nodata)
        mosaic = self._level.read(needs.window, self._around, self._tiles(), kept)
        image = drawn(self._positions, self._kernel, inside, needs.window, mosaic, self._nodata)
        if image.pixels.shape[:2] == (height, width):
            return image
        pixels, valid = self._empty(height, width)
        top, _, left, right = self._part
        start = top + inside.start - rows.start
        part = np.s_[start : start + len(image.pixels), left:right]
        pixels[part] = image.pixels
        valid[part] = True if image.valid is None else image.valid
        return MapImage(pixels, valid, self._nodata)

    def _empty(self, height: int, width: int) -> tuple[Pixels, Mask]:
        """Return nodata pixels, and a mask without valid pixels."""
        pixels = np.full((height, width, len(self._nodata)), self._nodata, self._dtype)
        return pixels, np.zeros((height, width), np.bool_)

    def _inside(self, rows: slice) -> slice:
        """Return the rows that may hold data, perhaps none, counted from the first such row."""
        top, bottom, _, _ = self._part
        return slice(max(rows.start, top) - top, min(rows.stop, bottom) - top)

    def _needs_of(self, cuts: Sequence[slice]) -> list[Needs]:
        """Return what ranges of rows of the styled map need, without those that need nothing."""
        found = (self._needs(self._inside(rows)) for rows in self._with_margin(cuts))
        return [needs for needs in found if needs is not None]

    def _needs(self, rows: slice) -> Needs | None:
        """Return what rows that may hold data need; None if none has a position."""
        if self._positions is None or rows.start >= rows.stop:
            return None
        key = rows.start, rows.stop
        if key not in self._needed:
            self._needed[key] = self._positions.needs(self._kernel, rows)
        return self._needed[key]


class PreparedMap:
    """A map within the limits, ready to draw. No tile has been read yet.

    Attributes:
        width, height: pixels.
        strip_height: rows drawn at a time by default.
        blank: a pixel without data, with the channels, sample type and nodata value of the map.
        memory: upper estimate of the bytes held at once while drawing, without those of an encoder.
        registration: of the values, ``area`` or ``post``.
    """

    def __init__(
        self, layers: Sequence[LayerMap], width: int, height: int, limits: MapSettings
    ) -> None:
        self._layers = layers
        self.width = width
        self.height = height
        for layer in layers:
            layer.check(limits)
        # Only now each layer has chosen what it is drawn from.
        self.strip_height = min(layer.strip_height for layer in layers)
        self.blank = layers[0].blank
        self.registration = layers[0].registration if len(layers) == 1 else "area"
        merging = 0
        if len(layers) > 1:
            self.blank = merge([layer.blank for layer in layers])
            merging = merge_memory(self.blank) * self.strip_height * width
        cuts = row_ranges(height, self.strip_height)
        needed = [layer.memory(cuts) for layer in layers]
        if max(memory.source for memory in needed) > limits.max_source_bytes:
            raise _too_big()
        self.memory = (
            _SMALL_THINGS
            + sum(memory.kept + memory.drawn for memory in needed)
            + max(merging, *(memory.drawing for memory in needed))
        )

    @property
    def is_empty(self) -> bool:
        """Whether all pixels are nodata because none has a position in any layer."""
        return all(layer.is_empty for layer in self._layers)

    def sources(self) -> Sources:
        """Return the state of the stored tiles of the map. After drawing, of the tiles drawn.

        Reads only slab indices that are not yet known. The version does not cover the other inputs
        of the pixels (extent, CRS, kernel, style).

        Raises:
            SlabFormatError, StorageError: an index cannot be read.
        """
        parts = [layer.sources() for layer in self._layers]
        return parts[0] if len(parts) == 1 else Sources.joined(parts, ",")

    def strips(self, height: int | None = None) -> Iterator[MapImage]:
        """Yield the map in strips of rows, from the top.

        Args:
            height: rows of each strip except the last, instead of `strip_height`. The pixels do
                not depend on it.

        Raises:
            SlabFormatError, StorageError: the data cannot be read.
        """
        cuts = row_ranges(self.height, height or self.strip_height)
        first, *others = [layer.strips(cuts) for layer in self._layers]
        return map(merge, zip(first, *others, strict=True)) if others else first

    def draw(self) -> MapImage:
        """Return the whole map. Raises what `strips` raises."""
        strips, notes = self.strips(), trace.local.trace
        return joined([*(strips if notes is None else notes.measured("draw", strips))], axis=0)


class SideBySide:
    """Maps side by side, such as the two parts of one across the antimeridian.

    Args:
        parts: from west to east, of the same height and layers.

    Attributes:
        width, height: pixels of all parts together.
        strip_height, blank, memory, registration: as those of `PreparedMap`.
    """

    def __init__(self, parts: Sequence[PreparedMap]) -> None:
        self._parts = parts
        self.width = sum(part.width for part in parts)
        self.height = parts[0].height
        self.strip_height = min(part.strip_height for part in parts)
        self.blank = parts[0].blank
        self.memory = sum(part.memory for part in parts)
        self.registration = parts[0].registration

    def strips(self) -> Iterator[MapImage]:
        """Yield the maps in strips of `strip_height` rows, from the top.

        Raises:
            SlabFormatError, StorageError: the data cannot be read.
        """
        for images in zip(*(part.strips(self.strip_height) for part in self._parts), strict=True):
            yield joined(images, axis=1)


def version_of(stored: StoredTiles) -> str | None:
    """Return a text that changes with some stored tiles.

    Returns:
        None if the storage cannot distinguish generations of a slab.
    """
    parts = []
    for tile in stored.values():
        if tile is None:
            parts.append("-")
        elif tile.index.version is None:
            return None
        else:
            index = tile.index
            parts.append(f"{index.key}:{index.version}-{tile.offset:x}-{tile.length:x}")
    return " ".join(parts)


def row_ranges(height: int, step: int) -> Sequence[slice]:
    """Return the ranges of rows of strips of ``step`` rows, the last one perhaps lower."""
    return [slice(start, min(start + step, height)) for start in range(0, height, step)]


def _too_big() -> InvalidParameterError:
    """Return the error for an extent that needs too much source data."""
    return InvalidParameterError("BBOX is too big for the size of the map", "BBOX")


def choose_level(pyramid: Pyramid, resolution: float) -> Level:
    """Return the level to draw from: the coarsest that is at most 1.25 times too coarse.

    Args:
        resolution: wanted pixel size, CRS units of the pyramid.
    """
    for level in pyramid.levels.values():
        if level.matrix.suits(resolution):
            break
    return level
