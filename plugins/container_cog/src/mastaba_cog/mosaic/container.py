"""Tables of COGs as pyramids."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, Final

from mastaba.api.catalogue import BoundingBox
from mastaba.api.containers import (
    Container,
    ContainerFormatError,
    Context,
    Level,
    MakeReader,
    OpenedContainer,
    Pyramid,
    RasterSpecification,
    Source,
    TileLimits,
    TileMatrix,
    TileMatrixSet,
    digest_of,
)
from mastaba.api.storages import ResourcePath, Storage
from mastaba_cog.container import CogContainer
from mastaba_cog.errors import CogError
from mastaba_cog.image_readers import StoredDecoder
from mastaba_cog.mosaic.formats import SIGNATURES, rows_of
from mastaba_cog.mosaic.live import Mosaic, MosaicIndex, TableSource
from mastaba_cog.mosaic.members import Kind, Member, Members, colours_of, open_member
from mastaba_cog.mosaic.painting import MOST_IN_TILE
from mastaba_cog.mosaic.reader import BLOCK, LevelOptions, MosaicReader, inner_box
from mastaba_cog.mosaic.table import Table, Wanted, table_of
from mastaba_cog.publication import STORED, format_of
from mastaba_containers.sets import OWN, are_equal, free_identifier, match, stem_of
from mastaba_render.api.resampling import BASE_RADIUS

_REFRESH: Final = 60
_WHITE: Final = 255.0
_FINE_ENOUGH: Final = 0.8
"""Size of the pixels of files, in those of a level that shows all of their detail."""
_COARSEST: Final = 2.001
"""Size of the pixels of a level, in those of the coarsest overview."""
_SAMPLES: Final = 512
"""Tiles of a level that are examined."""
_LARGEST: Final = 2**31
"""Pixels of a side of a mosaic, as of a file."""
_OF_MEMBERS: Final = ("crs", "bands", "rescale", "nodata", "mask", "apply_scale")


class MosaicContainer(Container):
    """Many COGs, which a table lists, as one layer."""

    name: ClassVar[str] = "mosaic"
    suffixes: ClassVar[tuple[str, ...]] = ()
    signatures: ClassVar[tuple[bytes, ...]] = SIGNATURES
    options_schema: ClassVar[Mapping[str, Any]] = {
        **{name: CogContainer.options_schema[name] for name in _OF_MEMBERS},
        "tile_matrix_set": {"type": "string", "minLength": 1},
        "tile_matrix_set_id": CogContainer.options_schema["tile_matrix_set_id"],
        "levels": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 64},
        "extent": {"type": "array", "items": {"type": "number"}, "minItems": 4, "maxItems": 4},
        "refresh": {"type": "number", "minimum": 1},
        "allow": {"type": "array", "items": {"type": "string"}, "maxItems": 64},
        "missing": {"enum": ["error", "skip"]},
        "format": {"enum": ["png", "webp", "bil"]},
        "resampling": {"enum": sorted(BASE_RADIUS)},
        "sort_field": {"type": "string", "minLength": 1},
        "sort_ascending": {"type": "boolean"},
        "asset": {"type": "string", "minLength": 1},
        "layer": {"type": "string", "minLength": 1},
    }
    cannot: ClassVar[frozenset[str]] = frozenset({"batch", "symbolic", "history", "vector"})

    @classmethod
    def open(cls, source: Source, options: Mapping[str, Any], context: Context) -> OpenedContainer:
        try:
            return _opened(source, options, context)
        except CogError as error:
            raise ContainerFormatError(f"{source}: {error.reason}", error.remedy) from error


def _opened(source: Source, options: Mapping[str, Any], context: Context) -> OpenedContainer:
    ascending = options.get("sort_ascending")
    table_source = TableSource(
        source.path,
        Wanted(
            options.get("sort_field"),
            None if ascending is None else not ascending,
            options.get("asset"),
            options.get("layer"),
        ),
        options.get("allow", ()),
    )
    data, version, modified = table_source.read(source.storage)
    rows = rows_of(data, table_source.wanted)
    # The boxes are needed in the CRS of the set, which the first file may decide.
    unplaced = table_of(rows, source.path, table_source.allowed, None, version, modified)
    open_storage = _opener(source, context)
    first = _first_member(unplaced, options, open_storage)
    kind = _kind(first, options)
    refresh = float(options.get("refresh", _REFRESH))
    members = Members(kind, open_storage, refresh)
    table = table_of(
        rows, source.path, table_source.allowed, kind.crs, version, modified, members.locate
    )
    stem = stem_of(source)
    matrix_set, matrices = _matrices(first, table, stem, options, context)
    box = BoundingBox(*options.get("extent", table.extent))
    if not (box.xmin < box.xmax and box.ymin < box.ymax):
        raise CogError("the option extent is not xmin, ymin, xmax, ymax", "correct it")
    levels, sources = _levels(source, matrices, box, table, options, context)
    digest = digest_of([dict(options), repr(first.how), kind.tile_format.name])
    mosaic = Mosaic(
        table_source,
        source.storage,
        MosaicIndex(source.storage, source.key, table, digest),
        members,
        _around(levels.values()),
        refresh,
        skips=options.get("missing") == "skip",
    )
    image = first.geotiff.images[0]
    stored = None
    if kind.way == STORED:
        stored = StoredDecoder(image, first.geotiff.order, kind.channels)
    kernel = options.get("resampling", "bicubic")
    readers: dict[str, MakeReader] = {
        name: partial(
            MosaicReader,
            storage=source.storage,
            indices=context.indices,
            mosaic=mosaic,
            options=LevelOptions(kernel, stored, digest),
        )
        for name in levels
    }
    nodata = 0.0 if kind.has_alpha else kind.nodata
    photometric = "rgb" if kind.channels > 2 else "gray"
    pyramid = Pyramid(
        stem,
        matrix_set,
        kind.tile_format,
        RasterSpecification(kind.channels, (nodata,) * kind.channels, photometric),
        MappingProxyType(levels),
        digest_of([MosaicContainer.name, dict(options), version]),
    )
    way = "as stored where one file has the whole tile" if kind.way == STORED else kind.way
    report = (
        f"{len(table.paths)} files, {image.bands} bands of {image.sample}, "
        f"{first.ground.crs.code}, table looked at every {refresh:g} s",
        f"levels {', '.join(levels)}: {way}, {kind.tile_format.media_type}",
        *(f"level {name}: up to {number} files in a tile" for name, number in sources.items()),
    )
    return OpenedContainer(pyramid, readers, title=stem, report=report)


def _opener(source: Source, context: Context) -> Callable[[ResourcePath], Storage]:
    """Return what opens the storage of a file."""
    open_path = context.open_path

    def open_storage(path: ResourcePath) -> Storage:
        own = (path.storage, path.container) == (source.path.storage, source.path.container)
        if open_path is None or (own and source.storage.is_remote):
            return source.storage
        # Files may be on other mounts than the table.
        return open_path(path)

    return open_storage


def _first_member(
    table: Table, options: Mapping[str, Any], open_storage: Callable[[ResourcePath], Storage]
) -> Member:
    """Return the file that decides on the format: the first one by path."""
    row = min(range(len(table.paths)), key=table.paths.__getitem__)
    path = ResourcePath.parse(table.paths[row])
    own = {name: options[name] for name in (*_OF_MEMBERS, "format") if name in options}
    try:
        return open_member(open_storage(path), path.key, own, table.facts.get(row, {}))
    except CogError as error:
        raise CogError(f"its file {path}: {error.reason}", error.remedy) from error


def _kind(first: Member, options: Mapping[str, Any]) -> Kind:
    own = {name: options[name] for name in (*_OF_MEMBERS, "format") if name in options}
    tile_format, way = format_of(first.geotiff, first.how, own)
    colours, how = colours_of(first), first.how
    if way == STORED:
        has_alpha = first.geotiff.images[0].bands > colours
    else:
        # Who names a format of pictures gets transparent gaps.
        has_alpha = not how.is_float and (how.adds_alpha or "format" in options)
    nodata = how.nodata if how.is_float or how.raw_nodata is not None else _WHITE
    return Kind(first.ground.crs, colours, has_alpha, how.is_float, tile_format, way, nodata, own)


def _matrices(
    first: Member, table: Table, stem: str, options: Mapping[str, Any], context: Context
) -> tuple[TileMatrixSet, list[TileMatrix]]:
    """Return the set of the mosaic, and the matrices that its files have the resolution for.

    Raises:
        CogError: the files are in another CRS than the set.
    """
    identifier = options.get("tile_matrix_set_id") or free_identifier(
        context, first.ground.crs, stem
    )
    own = _own_set(first, table, identifier)
    wanted = options.get("tile_matrix_set")
    if wanted == OWN:
        return own, list(own.matrices.values())
    if wanted is None:
        grid = TileMatrixSet.of(identifier, own.crs, [_grid(first, 0)])
        known = next((one for one in context.known_sets() if match(grid, one) is not None), None)
        if known is None:
            return own, list(own.matrices.values())
    else:
        known = context.named_set(wanted)
        if not are_equal(first.ground.crs, known.crs):
            raise CogError(
                f"its files are in {first.ground.crs.code}, the tile matrix set {known.id} in "
                f"{known.crs.code}",
                f"warp them with gdalwarp -t_srs {known.crs.code}",
            )
    names = options.get("levels")
    if names is not None:
        unknown = [name for name in names if name not in known.matrices]
        if unknown:
            raise CogError(f"{known.id} has no level {unknown[0][:40]!r}", "correct the levels")
        return known, [known.matrices[name] for name in known.matrices if name in names]
    finest, coarsest = first.cells[0], first.cells[-1]
    ordered = sorted(known.matrices.values(), key=lambda one: -one.cell_size)
    fine = [one for one in ordered if one.cell_size * _FINE_ENOUGH <= finest]
    last = fine[0] if fine else ordered[-1]
    return known, [
        one
        for one in ordered
        if last.cell_size <= one.cell_size <= max(coarsest * _COARSEST, last.cell_size)
    ]


def _grid(member: Member, number: int) -> TileMatrix:
    """Return the grid of an image as a matrix."""
    image, ground = member.geotiff.images[number], member.ground
    return TileMatrix(
        str(number),
        *(member.cells[number], ground.x, ground.y),
        *(image.tile_width, image.tile_height, image.across, image.down),
    )


def _own_set(first: Member, table: Table, identifier: str) -> TileMatrixSet:
    """Return a set with a matrix for each image of the first file, around all files.

    Its tiles are those of the first file, continued in all directions.
    """
    xmin, ymin, xmax, ymax = table.extent
    count = len(first.geotiff.images)
    image, ground = first.geotiff.images[0], first.ground
    width, height = (
        first.cells[-1] * image.tile_width,
        first.cells[-1] * image.tile_height,
    )
    across, down = (xmax - xmin) / first.cells[0], (ymax - ymin) / first.cells[0]
    if max(across, down) > _LARGEST:
        reason = f"its footprints span {across:.3g} × {down:.3g} pixels"
        raise CogError(reason, "correct the footprints")
    # Rounding errors must not make another tile.
    x = ground.x - math.ceil((ground.x - xmin) / width - 1e-6) * width
    y = ground.y + math.ceil((ymax - ground.y) / height - 1e-6) * height
    matrices = [
        TileMatrix(
            str(count - 1 - number),
            *(cell, x, y, image.tile_width, image.tile_height),
            max(1, math.ceil((xmax - x) / (cell * image.tile_width) - 1e-6)),
            max(1, math.ceil((y - ymin) / (cell * image.tile_height) - 1e-6)),
        )
        for number, cell in enumerate(first.cells)
    ]
    return TileMatrixSet.of(identifier, ground.crs, matrices, f"Grid of {identifier}")


def _levels(
    source: Source,
    matrices: list[TileMatrix],
    box: BoundingBox,
    table: Table,
    options: Mapping[str, Any],
    context: Context,
) -> tuple[dict[str, Level], dict[str, int]]:
    """Return levels, coarse to fine, and the largest number of files in a tile of each.

    Levels whose tiles need too many files are left out if the options do not name levels.
    """
    levels: dict[str, Level] = {}
    sources: dict[str, int] = {}
    crowded = ""
    for matrix in sorted(matrices, key=lambda one: -one.cell_size):
        limits = matrix.limits_of(box)
        if limits is None:
            continue
        most = _most_files(table, matrix, limits)
        if most > MOST_IN_TILE:
            crowded = matrix.id
            if "levels" not in options:
                continue
        sources[matrix.id] = most
        levels[matrix.id] = Level(
            matrix=matrix,
            tiles_per_width=BLOCK,
            tiles_per_height=BLOCK,
            limits=limits,
            limits_from=str(source),
        )
    if not levels:
        reason = "no level has tiles of few enough files" if crowded else "no file is in its set"
        raise CogError(reason, "correct tile_matrix_set, levels or extent")
    if crowded:
        context.warning(
            f"tiles of the level {crowded} and of coarser ones need more than {MOST_IN_TILE} "
            "files: too many sources",
            "make slabs of the coarser levels with mastaba build --top-only",
        )
    return levels, sources


def _most_files(table: Table, matrix: TileMatrix, limits: TileLimits) -> int:
    """Return the largest number of files whose footprints meet a tile, of some tiles."""
    rows, columns = (
        range(limits.min_row, limits.max_row + 1),
        range(limits.min_col, limits.max_col + 1),
    )
    if len(rows) * len(columns) <= _SAMPLES:
        places = {(row, col) for row in rows for col in columns}
    else:
        step = max(1, len(table.boxes) // _SAMPLES)
        centres = (table.boxes[::step, :2] + table.boxes[::step, 2:]) / 2
        width, height = matrix.cell_size * matrix.tile_width, matrix.cell_size * matrix.tile_height
        places = {
            (math.floor((matrix.origin_y - y) / height), math.floor((x - matrix.origin_x) / width))
            for x, y in centres.tolist()
        }
    most = 0
    for row, col in places:
        most = max(most, len(table.index.meeting(*inner_box(matrix, row, col))))
    return most


def _around(levels: Iterable[Level]) -> BoundingBox:
    """Return the box of the limits of all levels: rows outside of it wait for a reload."""
    boxes = []
    for level in levels:
        box, edge = level.matrix.bbox_of(level.limits), level.matrix.cell_size / 2
        # Rounding errors are no files outside.
        boxes.append((box.xmin - edge, box.ymin - edge, box.xmax + edge, box.ymax + edge))
    xmins, ymins, xmaxs, ymaxs = zip(*boxes, strict=True)
    return BoundingBox(min(xmins), min(ymins), max(xmaxs), max(ymaxs))
