"""What an export does: its levels, tiles and order of work. Everything is checked here."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from mastaba.api.catalogue import MASK_FORMAT
from mastaba.api.tiles import Tiles
from mastaba.errors import InvalidParameterError, MastabaError, RequestError
from mastaba_coverage import (
    CompressedFile,
    Coverage,
    CoverageLimits,
    CoveragePlan,
    NotCopyableError,
    TiffOptions,
    extract,
    mask_pyramid,
    masked,
    offered_compressions,
    with_origin,
)
from mastaba_export.area import area_of
from mastaba_export.clipping import NO_DATA, WITH_ALPHA, CellClip
from mastaba_export.container_tiles import ContainerTiles
from mastaba_export.errors import ExportTooLargeError, InvalidRequestError
from mastaba_export.formats import EXTENSIONS, MEDIA_TYPES, TileKind, kind_of, zooms_of
from mastaba_export.hilbert import order_of, positions
from mastaba_export.levels import ExportLevel
from mastaba_export.request import COVERAGES
from mastaba_export.selection import Selection, around, selected
from mastaba_export.sizes import Estimate, of_file, of_tiles, sampled_variance
from mastaba_export.sources import DRAWN_BLOCK, ClippedMasks, DrawnTiles, StoredTiles
from mastaba_ows.offers import sources_in
from mastaba_render.api.geotiff import Origins
from mastaba_writer.tile_encoder import encode_tile

if TYPE_CHECKING:
    from mastaba.api.catalogue import Catalogue, Layer, TileLimits, TileMatrix, TileMatrixSet
    from mastaba.api.services import Site
    from mastaba_coverage import Answer
    from mastaba_export.request import ExportRequest
    from mastaba_export.selection import Area

MOST_BLOCKS: Final = 4_194_304
"""Slabs of an export, without those of masks."""
_SAMPLED: Final = 64
"""Tiles of a level that are compressed for an estimate."""
_CLIPPED: Final = 16
"""The same if they are clipped to polygons, which takes longer."""
_COVERAGE_LIMITS: Final = CoverageLimits(stream_bytes=1 << 50, tiles=1 << 26, indices=MOST_BLOCKS)


class Unit(NamedTuple):
    """A slab, or a block of tiles that is drawn at a time.

    Attributes:
        level: position of its level in the plan.
        row, column: of the slab in its level.
    """

    level: int
    row: int
    column: int


@dataclass(frozen=True, eq=False)
class ExportPlan:
    """An export of a layer that can be run.

    Attributes:
        request: with its format.
        layer: the layer.
        tile_matrix_set: of the tiles.
        kind: what the tiles are; None for tif and cog.
        levels: coarse to fine; then the masks of a smaller pyramid. Empty for tif and cog.
        coverage: the raster of tif and cog; None for other formats.
        area: in the CRS of the set; None for the whole layer.
        site: has the services that know the sources of the layer; None names no sources.
    """

    request: ExportRequest
    layer: Layer
    tile_matrix_set: TileMatrixSet
    kind: TileKind | None
    levels: tuple[ExportLevel, ...]
    coverage: CoveragePlan | None = None
    area: Area | None = None
    site: Site | None = None

    @property
    def format(self) -> str:
        """The format."""
        assert self.request.format is not None
        return self.request.format

    @property
    def extension(self) -> str:
        """End of the name of a file of this format; empty for a directory."""
        return EXTENSIONS[self.format]

    @property
    def is_directory(self) -> bool:
        """Whether the output is a directory."""
        return self.format == "dir"

    @property
    def tiles(self) -> int:
        """Number of selected tiles, stored or not."""
        if self.coverage is not None:
            return sum(self.raster_tiles.values())
        return sum(level.selection.count for level in self.levels if not level.is_mask)

    @property
    def raster_tiles(self) -> dict[str, int]:
        """Numbers of tiles of a tif or cog, by the level from which they are made."""
        assert self.coverage is not None
        return _tiles_by_level(self.coverage)

    @cached_property
    def digest(self) -> str:
        """Hexadecimal digits that change with everything that determines what is written."""
        pyramid = self.layer.pyramid
        levels = [
            (level.matrix.id, level.zoom, level.selection.limits, level.selection.count)
            for level in self.levels
        ]
        inputs = json.dumps(self.request.to_inputs(), sort_keys=True)
        raster = pyramid.raster
        images = () if self.coverage is None else self.coverage.images
        cells = [
            (image.grid.matrix.id, image.cells, image.is_copied, image.sampling) for image in images
        ]
        named = self.site is not None
        made = (inputs, pyramid.format.name, raster, self.tile_matrix_set, levels, cells, named)
        # Stored tiles are compared when they are read, and drawn ones cannot be.
        layer = self.layer
        drawn = (pyramid.generation, layer.resampling, layer.styles)
        known = repr((*made, *drawn) if self.request.is_drawn else made)
        return hashlib.blake2b(known.encode(), digest_size=16).hexdigest()

    @property
    def count(self) -> int:
        """Number of units of work."""
        return self._ends[-1] if self._ends else 0

    def unit(self, number: int) -> Unit:
        """Return a unit of work by its number."""
        level = int(np.searchsorted(self._ends, number, side="right"))
        place = number - (self._ends[level - 1] if level else 0)
        found = self.levels[level]
        return Unit(level, int(found.rows[place]), int(found.columns[place]))

    def units(self, first: int = 0) -> Iterator[Unit]:
        """Yield the units of work from a number on."""
        return map(self.unit, range(first, self.count))

    def file(self) -> Answer | CompressedFile:
        """Return the file of a tif or cog. The indices of its slabs, and its sources, are read.

        Raises:
            ExportTooLargeError: it has too many tiles.
            SlabFormatError, StorageError: an index cannot be read.
            MastabaError: the sources cannot be read.
        """
        assert self.coverage is not None
        found = self.coverage
        if self.site is not None:
            found = with_origin(found, Origins(partial(sources_in, self.site)))
        if self.area is not None and self.area.polygons:
            coverage = found.coverage
            has_alpha = len(coverage.fields) in WITH_ALPHA
            clip = CellClip(self.area, coverage.nodata, has_alpha=has_alpha)
            clip_mask = CellClip(self.area, NO_DATA, has_alpha=False)
            return CompressedFile(found, _COVERAGE_LIMITS, clip, clip_mask)
        if found.is_addressable:
            try:
                return extract(found, _COVERAGE_LIMITS)
            except NotCopyableError:
                found = found.without_copies()
        return CompressedFile(found, _COVERAGE_LIMITS)

    def estimate(self, threads: int = 16) -> Estimate:
        """Return what the export will contain and cost.

        Slab indices are read, all of them or a sample; see `mastaba_export.sizes`.

        Raises:
            ExportTooLargeError: as `file`.
            SlabFormatError, StorageError: an index cannot be read.
        """
        if self.coverage is None:
            assert self.kind is not None
            return of_tiles(self.format, self.levels, threads, self.kind, self.tile_matrix_set)
        file = self.file()
        tiles = _tiles_by_level(file.plan)
        if isinstance(file, CompressedFile):
            is_clipped = self.request.area is not None
            total, samples = file.estimate(_CLIPPED if is_clipped else _SAMPLED)
            variance = sum(sampled_variance(sizes, count) for sizes, count in samples)
            return of_file(total, tiles, variance)
        return of_file(file.size, tiles)

    @cached_property
    def _ends(self) -> list[int]:
        return list(accumulate(len(level.rows) for level in self.levels))


def plan(request: ExportRequest, site: Site, *, names_sources: bool = True) -> ExportPlan:
    """Return the plan of an export; nothing but the catalogue is read.

    Args:
        request: with its format.
        names_sources: whether the result names the sources of its area.

    Raises:
        InvalidRequestError: an input is unknown or does not fit the layer.
        ExportTooLargeError: the area has too many tiles.
    """
    catalogue = site.catalogue
    layer = named_layer(request.layer, catalogue)
    if request.format is None:
        raise InvalidRequestError("the format is missing", "format")
    if request.format in COVERAGES:
        made = _coverage_plan(request, layer, site)
        return made if names_sources else replace(made, site=None)
    kind = kind_of(request, layer)
    if request.clip and (layer.is_vector or request.is_drawn):
        raise InvalidRequestError("clip is for stored pixels: remove it", "clip")
    if request.clip:
        kind = replace(kind, is_copied=False)
    if not all(reader.has_slabs for reader in catalogue.readers_of(layer).values()):
        # What is stored may be delivered in another encoding, whose size is not known before.
        kind = replace(kind, is_copied=False)
    if request.is_drawn:
        tile_matrix_set, limits = _drawn_set(request, layer, site)
    else:
        tile_matrix_set = layer.pyramid.tile_matrix_set
        limits = {name: level.limits for name, level in layer.pyramid.levels.items()}
    matrices = {name: tile_matrix_set.matrices[name] for name in limits}
    wanted = _wanted(request, tile_matrix_set, matrices)
    zooms = zooms_of(request.format, tile_matrix_set, {name: matrices[name] for name in wanted})
    area = area_of(request, tile_matrix_set.crs, catalogue.settings.equivalences)
    levels = []
    for name in wanted:
        found = selected(area, matrices[name], limits[name])
        if found is not None:
            one = _level(request, layer, site, matrices[name], zooms[name], found, kind)
            if request.clip and area is not None and isinstance(one.source, StoredTiles):
                one = replace(one, source=one.source.clipped(area, layer.pyramid))
            levels.append(one)
    if not levels:
        raise InvalidRequestError("the layer has no tiles in the area", "bbox")
    count = sum(len(level.rows) for level in levels)
    if count > MOST_BLOCKS:
        raise _too_many(count)
    if request.format == "pyramid":
        levels += [mask for one in levels for mask in _masks_of(one, area, layer)]
    named = site if names_sources else None
    return ExportPlan(request, layer, tile_matrix_set, kind, tuple(levels), area=area, site=named)


def named_layer(name: str, catalogue: Catalogue) -> Layer:
    """Return a layer, or one of its values or versions, with a title that says which.

    Args:
        name: identifier, or qualified name, such as ``ORTHO;time=1950`` or ``ORTHO~4f0c1d2e3a4b``.

    Raises:
        InvalidRequestError: there is none, or it is not kept.
        OverloadedError: it cannot be opened at the moment.
    """
    layer = catalogue.layers.get(name)
    if layer is not None:
        return layer
    try:
        layer = catalogue.resolve(name).layer
    except RequestError as error:
        raise InvalidRequestError(str(error), "layer") from None
    # A value may have a title of its own, which says it already.
    shown = [text for text in layer.at.values() if text not in layer.title]
    shown += [layer.key.partition("~")[2]] if "~" in layer.key else []
    return replace(layer, title=f"{layer.title} ({', '.join(shown)})") if shown else layer


def _wanted(
    request: ExportRequest, tile_matrix_set: TileMatrixSet, matrices: Mapping[str, TileMatrix]
) -> list[str]:
    """Return the identifiers of the wanted levels, coarse to fine."""
    unknown = [name for name in request.levels if name not in matrices]
    if unknown:
        raise InvalidRequestError(
            f"there is no level {unknown[0]!r}; levels are {', '.join(matrices)}", "levels"
        )
    if request.levels:
        return [name for name in matrices if name in request.levels]
    if request.zoom is None:
        return list(matrices)
    zooms = zooms_of("", tile_matrix_set, matrices)
    first, last = request.zoom
    found = [name for name, zoom in zooms.items() if first <= zoom <= last]
    if not found:
        least, most = min(zooms.values()), max(zooms.values())
        raise InvalidRequestError(
            f"the layer has no zoom from {first} to {last}; it has {least} to {most}", "zoom"
        )
    return found


def _drawn_set(
    request: ExportRequest, layer: Layer, site: Site
) -> tuple[TileMatrixSet, Mapping[str, TileLimits]]:
    try:
        link = Tiles(site, [layer]).layer(layer.key).link(request.tms)
    except MastabaError as error:
        raise InvalidRequestError(f"tms: {error}", "tms") from None
    return link.tile_matrix_set, link.limits


def _level(
    request: ExportRequest,
    layer: Layer,
    site: Site,
    matrix: TileMatrix,
    zoom: int,
    selection: Selection,
    kind: TileKind,
) -> ExportLevel:
    order = order_of(matrix.matrix_width, matrix.matrix_height)
    source: StoredTiles | DrawnTiles
    if request.is_drawn:
        media_type = MEDIA_TYPES[kind.extension]
        if media_type not in site.encoders:
            raise InvalidRequestError(
                f"no encoder of {media_type} is installed; use png or jpg", "tile_format"
            )
        tiles = Tiles(site, [layer]).layer(layer.key).matrix(request.tms, matrix.id)
        try:
            publisher: Any = tiles.picture(request.style or "", media_type)
        except MastabaError as error:
            raise InvalidRequestError(f"style: {error}", "style") from None
        source = DrawnTiles(publisher, selection, order)
        height = width = DRAWN_BLOCK
    else:
        reader = site.catalogue.readers_of(layer)[matrix.id]
        convert = None if kind.convert is None else kind.convert(reader.level)
        if reader.has_slabs:
            source = StoredTiles(reader, selection, order, convert)
        else:
            source = ContainerTiles.of(request, layer.pyramid, reader, selection, order, convert)
        height, width = source.height, source.width
    blocks = _blocks_around(selection.limits, height, width)
    if blocks > MOST_BLOCKS:
        raise _too_many(blocks)
    rows, columns = selection.blocks(height, width)
    if height == width and height & (height - 1) == 0:
        # The curve through blocks is the same as that through tiles only if the orders fit.
        size = max(order - int(math.log2(height)), 0)
    else:
        size = order_of(-(-matrix.matrix_width // width), -(-matrix.matrix_height // height))
    along = np.argsort(positions(columns, rows, size), kind="stable")
    return ExportLevel(matrix, zoom, selection, source, rows[along], columns[along])


def _masks_of(level: ExportLevel, area: Area | None, layer: Layer) -> list[ExportLevel]:
    """Return the masks of a level, if it has any."""
    source = level.source
    if not isinstance(source, StoredTiles) or (masks := source.reader.masks) is None:
        return []
    image = replace(source, clip=None)
    found = replace(image, reader=masks)
    if source.clip is not None and area is not None:
        size = level.matrix.tile_height, level.matrix.tile_width
        full = encode_tile(MASK_FORMAT, np.full((*size, 1), 255, np.uint8))
        whole = ClippedMasks(masks, source.selection, source.order, image=image, full=full)
        found = whole.clipped(area, mask_pyramid(layer.pyramid))
    return [replace(level, source=found, is_mask=True)]


def _blocks_around(limits: TileLimits, height: int, width: int) -> int:
    down = limits.max_row // height - limits.min_row // height + 1
    return down * (limits.max_col // width - limits.min_col // width + 1)


def _too_many(count: int) -> ExportTooLargeError:
    return ExportTooLargeError(
        f"the export has {count:,} slabs; take a smaller area or fewer levels "
        f"(limit: {MOST_BLOCKS:,})",
        count,
        MOST_BLOCKS,
    )


def _count(limits: TileLimits) -> int:
    return (limits.max_row - limits.min_row + 1) * (limits.max_col - limits.min_col + 1)


def _tiles_by_level(coverage: CoveragePlan) -> dict[str, int]:
    """Return the numbers of tiles of a raster by the level from which they are made."""
    found: dict[str, int] = {}
    for image in coverage.images:
        name, count = image.grid.matrix.id, _count(image.tiles)
        if image.sampling is not None:
            shape = coverage.shape
            count = shape.across(image.columns) * shape.down(image.rows)
        found[name] = found.get(name, 0) + count
    return found


def _coverage_plan(request: ExportRequest, layer: Layer, site: Site) -> ExportPlan:
    """Return the plan of one raster."""
    if layer.is_vector:
        raise InvalidRequestError(
            f"{request.format} contains pixels; use pmtiles, mbtiles, dir or pyramid for the "
            "vector tiles of the layer",
            "format",
        )
    if request.zoom is not None or len(request.levels) > 1:
        raise InvalidRequestError(f"{request.format} has one level: choose one", "zoom")
    if request.compression not in ("stored", *offered_compressions()):
        raise InvalidRequestError(
            f"{request.compression} needs imagecodecs: install mastaba-export[codecs]",
            "compression",
        )
    if request.clip:
        text = "tif and cog contain whole boxes, and what is outside of polygons gets no data"
        raise InvalidRequestError(f"{text}: remove clip", "clip")
    try:
        coverage = Coverage.of(layer, site.catalogue.readers_of(layer))
    except ValueError as error:
        raise InvalidRequestError(str(error), "layer") from None
    grid = coverage.finest
    if request.levels:
        if request.levels[0] not in coverage.grids:
            raise InvalidRequestError(
                f"there is no level {request.levels[0]!r}; levels are {', '.join(coverage.grids)}",
                "levels",
            )
        grid = coverage.grids[request.levels[0]]
    tile_matrix_set = layer.pyramid.tile_matrix_set
    area = area_of(request, tile_matrix_set.crs, site.catalogue.settings.equivalences)
    cells = grid.window
    if area is not None:
        parameter = "bbox" if request.area is None else "area"
        box = area.boxes[0] if len(area.boxes) == 1 else around(area.polygons)
        if box is None:
            raise InvalidRequestError(
                f"{parameter}: the area is across the antimeridian, or outside; a raster has one "
                "part",
                parameter,
            )
        found = grid.cells(box)
        if found is None:
            raise InvalidRequestError(
                f"{parameter}: no cell of the layer is in the area", parameter
            )
        cells = found
    is_exact = request.fit == "exact"
    compression = request.compression
    if request.area is not None and compression == "stored":
        # Tiles at the border of polygons cannot be copied.
        compression = "deflate"
    tiff = TiffOptions(compression, request.predictor, is_exact=is_exact)
    try:
        if request.format == "cog" and grid is coverage.finest:
            made = CoveragePlan.cog(coverage, cells, coverage.fields, tiff)
        else:
            made = CoveragePlan.exact(coverage, grid, cells, coverage.fields, tiff)
        if request.mask:
            made = masked(made)
    except InvalidParameterError as error:
        raise InvalidRequestError(str(error), error.parameter) from None
    return ExportPlan(request, layer, tile_matrix_set, None, (), made, area, site)
