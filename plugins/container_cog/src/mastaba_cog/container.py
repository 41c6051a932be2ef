"""GeoTIFFs as pyramids."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import isclose
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
    TileMatrix,
    TileMatrixSet,
    digest_of,
)
from mastaba.api.storages import ObjectRead
from mastaba_cog import images
from mastaba_cog.cuts import Cut, cut_of
from mastaba_cog.errors import CONVERT, CogError, NotTiffError
from mastaba_cog.georeference import Ground, ground_of
from mastaba_cog.image_readers import cut_reader_maker, reader_maker
from mastaba_cog.images import Found, GeoTiff, Image, comparable
from mastaba_cog.index import CogIndex, covers
from mastaba_cog.publication import DECODED, SPLICED, STORED, format_of, publication_of
from mastaba_cog.reader import File, numbered, read_head
from mastaba_containers.heads import check_signature, require_complete
from mastaba_containers.metadata import plain_text
from mastaba_containers.sets import Match, free_identifier, match, published, stem_of

_COARSE: Final = 4096
"""Pixels of an image that no map shows at once without overviews."""


class CogContainer(Container):
    """Tiled GeoTIFFs, best of all Cloud-Optimized ones."""

    name: ClassVar[str] = "cog"
    suffixes: ClassVar[tuple[str, ...]] = (".tif", ".tiff", ".gtiff")
    signatures: ClassVar[tuple[bytes, ...]] = (b"II*\0", b"II+\0", b"MM\0*", b"MM\0+")
    options_schema: ClassVar[Mapping[str, Any]] = {
        "crs": {"type": "string"},
        "tile_matrix_set": {"type": "string", "minLength": 1},
        "tile_matrix_set_id": {"type": "string", "pattern": "^[A-Za-z0-9_.-]{1,64}$"},
        "bands": {
            "type": "array",
            "items": {"type": "integer", "minimum": 1},
            "minItems": 1,
            "maxItems": 4,
        },
        "rescale": {
            "type": "array",
            "items": {
                "type": "array",
                "items": {"type": "number"},
                "minItems": 2,
                "maxItems": 2,
            },
            "minItems": 1,
            "maxItems": 4,
        },
        "nodata": {"type": "number"},
        "format": {"enum": ["png", "webp", "bil", "tiff"]},
        "mask": {"enum": ["apply", "ignore"]},
        "overviews": {"enum": ["own", "cut", "skip"]},
        "apply_scale": {"type": "boolean"},
    }
    cannot: ClassVar[frozenset[str]] = frozenset({"batch", "symbolic", "history", "vector"})

    @classmethod
    def open(cls, source: Source, options: Mapping[str, Any], context: Context) -> OpenedContainer:
        try:
            return _opened(source, options, context)
        except CogError as error:
            raise ContainerFormatError(f"{source}: {error.reason}", error.remedy) from error


def _opened(source: Source, options: Mapping[str, Any], context: Context) -> OpenedContainer:
    geotiff, found, read = _first_read(source)
    ground = ground_of(geotiff, options.get("crs"))
    generation = digest_of([CogContainer.name, dict(options), read.version or read.data.hex()])
    publication, warnings = publication_of(geotiff, options)
    full = geotiff.images[0]
    tile_format, way = format_of(geotiff, publication, options)
    for reason, remedy in warnings:
        context.warning(reason, remedy)
    if way == STORED and full.compression == images.JPEG and geotiff.nodata:
        context.warning(
            "it is a JPEG with a nodata value, whose edges are ragged", "write it with a mask"
        )
    stem = stem_of(source)
    title, attribution = plain_text(geotiff.title) or stem, plain_text(geotiff.attribution)
    ignores_masks = options.get("mask") == "ignore"
    geotiff = comparable(geotiff, ignores_masks=ignores_masks)
    for number, image in enumerate(geotiff.images):
        check_same(full, image)
        if not covers(image, geotiff.masks[number]):
            raise CogError("its mask has tiles of another size", CONVERT)
    _require_tiles(source, geotiff, found, read)
    channels = 1
    levels: dict[str, Level] = {}
    readers: dict[str, MakeReader] = {}
    matching, own, cuts = _sets(geotiff, ground, stem, options, context)
    if cuts and way == SPLICED:
        raise CogError("tiles that are cut cannot be sent as TIFF", 'remove the option "format"')
    digest = digest_of([dict(options), repr(publication), tile_format.name])
    file = File(source.key, geotiff, digest, ignores_masks)
    for number, image in enumerate(geotiff.images):
        place = matching.places.get(str(len(geotiff.images) - 1 - number))
        cut = cuts.get(number)
        if place is not None:
            matrix, limits = place.matrix, place.limits(own[number].all_tiles)
            right, down = place.columns * image.tile_width, place.rows * image.tile_height
            grid = numbered(geotiff, number, place.rows, place.columns, is_framed=way == DECODED)
            make, channels = reader_maker(geotiff, number, publication, tile_format, way, digest)
        elif cut is not None:
            matrix, limits = cut.matrix, cut.limits(image)
            right, down = cut.right, cut.down
            grid = numbered(geotiff, number, 0, 0, is_framed=True)
            make = cut_reader_maker(
                geotiff, number, publication, tile_format, cut, channels, digest
            )
        else:
            continue
        levels[matrix.id] = Level(
            matrix=matrix,
            # A file is replaced as a whole: all of its tiles are one block.
            tiles_per_width=matrix.matrix_width,
            tiles_per_height=matrix.matrix_height,
            limits=limits,
            limits_from=str(source),
            window=(right + image.width, down + image.height),
        )
        readers[matrix.id] = partial(
            make, storage=source.storage, indices=context.indices, file=file, grid=grid
        )
    ordered = sorted(levels.values(), key=lambda level: -level.matrix.cell_size)
    photometric = "rgb" if channels > 2 else "gray"
    # With alpha, pixels without data are transparent.
    nodata = 0.0 if publication.adds_alpha and way != STORED else publication.nodata
    # Overviews are means, which belong to areas.
    is_post = ground.is_post and isclose(
        ordered[-1].matrix.cell_size, ground.cell_size, rel_tol=1e-6
    )
    registration = "post" if is_post else "area"
    pyramid = Pyramid(
        stem,
        matching.tile_matrix_set,
        tile_format,
        RasterSpecification(channels, (nodata,) * channels, photometric, registration),
        MappingProxyType({level.matrix.id: level for level in ordered}),
        generation,
        bbox=_box(ground, full),
    )
    report: tuple[str, ...] = (
        f"{full.width} × {full.height} pixels, {full.bands} bands of {full.sample}, "
        f"{images.COMPRESSIONS[full.compression]}, {len(geotiff.images) - 1} overviews, "
        f"{ground.crs.code}",
        f"levels {', '.join(pyramid.levels)}: {way}, {tile_format.media_type}",
    )
    if len(geotiff.images) == 1 and max(full.width, full.height) > _COARSE:
        # The message of such a map is for clients, who cannot help it.
        report += ("no overviews: coarse maps are refused; add overviews, or slabs above",)
    if cuts:
        names = ", ".join(cut.matrix.id for cut in cuts.values())
        report += (f"levels {names}: cut from overviews with other corners, and encoded",)
    return OpenedContainer(pyramid, readers, title=title, attribution=attribution, report=report)


def _box(ground: Ground, full: Image) -> BoundingBox:
    right, down = full.width * ground.cell_size, full.height * ground.cell_size
    return BoundingBox(ground.x, ground.y - down, ground.x + right, ground.y)


def _first_read(source: Source) -> tuple[GeoTiff, Found, ObjectRead]:
    """Return what `read_head` does; the message names other kinds of files."""
    try:
        return read_head(source.storage, source.key)
    except NotTiffError as error:
        check_signature(source, error.head, CogContainer.signatures)
        raise


def _require_tiles(source: Source, geotiff: GeoTiff, found: Found, read: ObjectRead) -> None:
    """Refuse a file that ends before the last tile of the full image begins."""
    if source.local_path is None:
        return
    index = CogIndex(
        geotiff, found, source.storage, source.key, read.version, read.modified, options=""
    )
    last = index.tile(geotiff.images[0].tile_count - 1)
    if last is not None:
        require_complete(source, last[0] + 1)


def check_same(full: Image, image: Image) -> None:
    facts = ("bands", "bits", "kind", "extra")
    if any(getattr(full, fact) != getattr(image, fact) for fact in facts):
        raise CogError("an overview has other bands than the full image", CONVERT)


def factor_of(full: Image, image: Image) -> float:
    """Return how many pixels of the full image a pixel of an overview spans, in x and y."""
    factor = full.width / image.width
    whole = round(factor)
    # Writers round the size of an overview up or down.
    return whole if whole and abs(full.width / whole - image.width) <= 1 else factor


def _sets(
    geotiff: GeoTiff,
    ground: Ground,
    stem: str,
    options: Mapping[str, Any],
    context: Context,
) -> tuple[Match, list[TileMatrix], dict[int, Cut]]:
    """Return the set of the levels, the own matrix of each image, and the images to cut."""
    full = geotiff.images[0]
    own: list[TileMatrix] = []
    count = len(geotiff.images)
    for number, image in enumerate(geotiff.images):
        cell_size = ground.cell_size * factor_of(full, image)
        own.append(
            TileMatrix(
                str(count - 1 - number),
                *(cell_size, ground.x, ground.y),
                *(image.tile_width, image.tile_height, image.across, image.down),
            )
        )
    identifier = options.get("tile_matrix_set_id") or free_identifier(context, ground.crs, stem)
    wanted = options.get("tile_matrix_set")
    overviews = options.get("overviews", "skip" if context.is_hybrid else "own")
    if overviews != "own":
        first = TileMatrixSet.of(identifier, ground.crs, own[:1])
        found = published(context, first, None, wanted)
        known = found.tile_matrix_set
        if known is not first:
            places, cuts = dict(found.places), {}
            for number, matrix in enumerate(own[1:], 1):
                place = match(TileMatrixSet.of(identifier, ground.crs, [matrix]), known)
                if place is not None:
                    places.update(place.places)
                elif overviews == "cut":
                    cut = cut_of(known.matrices.values(), matrix, geotiff.images[number])
                    if cut is not None:
                        cuts[number] = cut
            return Match(known, MappingProxyType(places)), own, cuts
    whole_set = TileMatrixSet.of(identifier, ground.crs, own, f"Grid of {stem}")
    return published(context, whole_set, None, wanted), own, {}
