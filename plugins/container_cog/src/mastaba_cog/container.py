"""GeoTIFFs as pyramids."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from math import isclose
from types import MappingProxyType
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from mastaba.api.catalogue import BoundingBox
from mastaba.api.containers import (
    JPEG_GRAY,
    TILE_FORMATS,
    WEBP,
    Codec,
    Container,
    ContainerFormatError,
    Context,
    Level,
    MakeReader,
    OpenedContainer,
    Pyramid,
    RasterSpecification,
    Source,
    TileFormat,
    TileMatrix,
    TileMatrixSet,
    digest_of,
)
from mastaba.api.storages import ObjectRead
from mastaba_cog import images
from mastaba_cog.conversion import Publication, TileConverter, framed
from mastaba_cog.cuts import Cut, CutDecoder, CutReader, cut_of
from mastaba_cog.errors import CONVERT, CogError, NotTiffError
from mastaba_cog.georeference import Ground, ground_of
from mastaba_cog.images import Found, GeoTiff, Image, comparable, scales_and_offsets
from mastaba_cog.index import CogIndex, covers
from mastaba_cog.reader import (
    CogReader,
    CogTile,
    File,
    ScatteredReader,
    ScatteredTile,
    numbered,
    read_head,
)
from mastaba_cog.samples import SampleDecoder
from mastaba_cog.splices import tiff_header
from mastaba_containers.heads import check_signature, require_complete
from mastaba_containers.metadata import plain_text
from mastaba_containers.sets import Match, free_identifier, match, published

_NODATA: Final = -99999.0
"""Of floats whose file has a mask, and no value for pixels without data."""
_EXACT: Final = frozenset({"uint8", "int8", "uint16", "int16", "float16", "float32"})
"""Types of which all values are float32 too."""
_TIFF_FLOAT32: Final = TileFormat(
    "TIFF_SPLICED_FLOAT32", Codec.RAW, "float32", "image/tiff", "tif", ("tiff",), None, (1,)
)
_COARSE: Final = 4096
"""Pixels of an image that no map shows at once without overviews."""
STORED, _SPLICED, _DECODED = "as stored", "spliced", "decoded"


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
    name = source.key.rpartition("/")[2]
    stem = name.rpartition(".")[0] or name
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
    if cuts and way == _SPLICED:
        raise CogError("tiles that are cut cannot be sent as TIFF", 'remove the option "format"')
    digest = digest_of([dict(options), repr(publication), tile_format.name])
    file = File(source.key, geotiff, digest, ignores_masks)
    for number, image in enumerate(geotiff.images):
        place = matching.places.get(str(len(geotiff.images) - 1 - number))
        cut = cuts.get(number)
        if place is not None:
            matrix, limits = place.matrix, place.limits(own[number].all_tiles)
            right, down = place.columns * image.tile_width, place.rows * image.tile_height
            grid = numbered(geotiff, number, place.rows, place.columns, is_framed=way == _DECODED)
            make, channels = _maker(geotiff, number, publication, tile_format, way, digest)
        elif cut is not None:
            matrix, limits = cut.matrix, cut.limits(image)
            right, down = cut.right, cut.down
            grid = numbered(geotiff, number, 0, 0, is_framed=True)
            make = _cut_maker(geotiff, number, publication, tile_format, cut, channels, digest)
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


def publication_of(
    geotiff: GeoTiff, options: Mapping[str, Any]
) -> tuple[Publication, list[tuple[str, str]]]:
    """Return how samples become pixels, and warnings: reason and remedy."""
    image = geotiff.images[0]
    warnings: list[tuple[str, str]] = []
    alpha = next(
        (
            image.colours + number
            for number, kind in enumerate(image.extra)
            if kind in (images.ASSOCIATED, images.UNASSOCIATED)
        ),
        None,
    )
    rescale = tuple((float(low), float(high)) for low, high in options.get("rescale", ()))
    if any(low >= high for low, high in rescale):
        raise CogError("the option rescale has a low that is not below its high", "correct it")
    bands = _bands(image, options, alpha, rescale)
    if rescale and len(rescale) == 1:
        rescale *= len(bands)
    if rescale and len(rescale) != len(bands):
        raise CogError(f"{len(rescale)} ranges in rescale, for {len(bands)} bands", "correct it")
    is_float = not rescale and not (image.kind == images.UINT and image.bits <= 8)
    if len(bands) not in (1, 3) or (is_float and len(bands) != 1):
        if is_float and len(bands) == 3:
            remedy = f'give the option "rescale"{_proposal(geotiff, bands)}, or one of "bands"'
            raise CogError(f"it has {image.bands} bands of {image.sample}", remedy)
        raise CogError(f"{len(bands)} bands cannot be shown", 'name 1 or 3 in the option "bands"')
    if len(bands) == 3 < image.bands and "bands" not in options and alpha != 3:
        warnings.append(("only its first three bands are shown", 'name others in "bands"'))
    if is_float and image.sample not in _EXACT:
        warnings.append((f"its {image.sample} become float32", "values beyond 2^24 are rounded"))
    has_mask = geotiff.masks[0] is not None and options.get("mask") != "ignore"
    raw = options.get("nodata", _number(geotiff.nodata))
    if options.get("mask") == "ignore" and not is_float:
        raw, alpha = None, None
    if has_mask:
        alpha = None
    knows = has_mask or alpha is not None or raw is not None
    nodata = _NODATA if is_float else 0.0
    scale, offset = 1.0, 0.0
    if is_float:
        # A double may be beyond the largest float32.
        if raw is not None and abs(raw) <= np.finfo(np.float32).max:
            nodata = float(np.float32(raw))
        if options.get("apply_scale", True):
            known = scales_and_offsets(geotiff)
            scale = known.get("scale", {}).get(bands[0], 1.0)
            offset = known.get("offset", {}).get(bands[0], 0.0)
    elif raw is not None and raw in range(256):
        nodata = float(raw)
    is_associated = alpha is not None and image.extra[alpha - image.colours] == images.ASSOCIATED
    return (
        Publication(
            bands,
            alpha,
            is_associated,
            rescale,
            is_float,
            None if has_mask else raw,
            nodata,
            knows and not is_float,
            has_mask,
            scale,
            offset,
        ),
        warnings,
    )


def _bands(
    image: Image, options: Mapping[str, Any], alpha: int | None, rescale: tuple[Any, ...]
) -> tuple[int, ...]:
    wanted = options.get("bands")
    if wanted is not None:
        if max(wanted) > image.bands:
            raise CogError(f"the option bands names {max(wanted)} of {image.bands}", "correct it")
        return tuple(number - 1 for number in wanted)
    others = [number for number in range(image.bands) if number != alpha]
    if image.photometric in (images.RGB, images.YCBCR) and image.colours >= 3:
        return 0, 1, 2
    if len(others) in (1, 3):
        return tuple(others)
    remedy = 'name 1 or 3 of them in the option "bands"'
    raise CogError(f"it has {image.bands} bands without the meaning of colours", remedy)


def _proposal(geotiff: GeoTiff, bands: tuple[int, ...]) -> str:
    """Return ranges of the statistics of GDAL as text, or nothing."""
    known = scales_and_offsets(geotiff)
    lows, highs = known.get("statistics_minimum", {}), known.get("statistics_maximum", {})
    if not all(band in lows and band in highs for band in bands):
        return ""
    return f": {[[lows[band], highs[band]] for band in bands]} by its statistics"


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def format_of(
    geotiff: GeoTiff, how: Publication, options: Mapping[str, Any]
) -> tuple[TileFormat, str]:
    """Return the format of delivered tiles, and how they become so."""
    image, wanted = geotiff.images[0], options.get("format")
    plain = how.bands == tuple(range(len(how.bands))) and not how.rescale and not how.uses_mask
    if wanted == "tiff":
        if image.is_planar or how.uses_mask or how.rescale or len(how.bands) != image.bands:
            reason = "its tiles cannot be sent as TIFF: they are planar, masked or rescaled"
            raise CogError(reason, 'remove the option "format", or ignore the mask')
        return (_TIFF_FLOAT32 if how.is_float else TILE_FORMATS["TIFF_RAW_UINT8"]), _SPLICED
    if how.is_float:
        if wanted not in (None, "bil"):
            raise CogError(f"values of {image.sample} are not a picture", 'give "rescale"')
        return TILE_FORMATS["TIFF_RAW_FLOAT32"], _DECODED
    if wanted == "bil":
        raise CogError("bil is for values, not for pictures", 'remove the option "format"')
    same = all(other.compression == image.compression for other in geotiff.images)
    if plain and same and not image.is_planar and image.photometric != images.PALETTE:
        stored = wanted in (None, "webp")
        if image.compression == images.WEBP and stored and image.bands in (3, 4):
            return WEBP, STORED
        # Alpha or nodata of a JPEG needs decoding; nodata alone is published as it is.
        if image.compression == images.JPEG and wanted is None and how.alpha is None:
            if image.bands == 1 and image.photometric != images.WHITE_IS_ZERO:
                return JPEG_GRAY, STORED
            if image.bands == 3:
                return TILE_FORMATS["TIFF_JPG_UINT8"], STORED
    masked_jpeg = how.uses_mask and image.compression == images.JPEG and len(how.bands) == 3
    if wanted == "webp" or (wanted is None and masked_jpeg):
        if len(how.bands) != 3 and image.photometric != images.PALETTE:
            raise CogError("WebP is for three bands", 'remove the option "format"')
        return WEBP, _DECODED
    return TILE_FORMATS["TIFF_PNG_UINT8"], _DECODED


class StoredDecoder:
    """Decodes complete pictures and strips, for maps."""

    def __init__(self, image: Image, order: str, channels: int) -> None:
        self._samples = SampleDecoder(image, order)
        self.nbytes = image.tile_width * image.tile_height * channels

    def decode(self, payload: bytes) -> Any:
        found = self._samples.samples(payload)
        found = found if not found.flags.writeable else found.view()
        found.flags.writeable = False
        return found


class _SplicedDecoder:
    """Decodes payloads without a frame."""

    def __init__(self, image: Image, converter: TileConverter) -> None:
        self._size = image.tile_width, image.tile_height
        self._converter = converter
        self.nbytes = converter.nbytes

    def decode(self, payload: bytes) -> Any:
        return self._converter.decode(framed([payload], *self._size))


def _maker(
    geotiff: GeoTiff, number: int, how: Publication, tile_format: TileFormat, way: str, digest: str
) -> tuple[Callable[..., CogReader], int]:
    """Return what makes the reader of an image, and the channels of its pixels."""
    image, mask, order = geotiff.images[number], geotiff.masks[number], geotiff.order
    decoder: Any = None
    deliver: Callable[[bytes], bytes] | None = None
    suffix = ""
    if way == STORED:
        channels = image.bands
        if tile_format.name != "TIFF_JPG_UINT8":
            decoder = StoredDecoder(image, order, channels)
    else:
        converter = TileConverter(image, mask, order, how)
        channels = converter.channels
        if way == _SPLICED:
            decoder = _SplicedDecoder(image, converter)
            deliver = partial(_spliced, image, order)
            suffix = "-tiff"
        else:
            decoder = converter
            deliver = partial(_encoded, converter, tile_format)
            suffix = f"-{digest}"
    kind = ScatteredReader if _is_scattered(geotiff, number) else CogReader

    def make(level: Level, **arguments: Any) -> CogReader:
        reader = kind(level, **arguments)
        reader.deliver, reader.decoder, reader.etag_suffix = deliver, decoder, suffix
        return reader

    return make, channels


def _cut_maker(
    geotiff: GeoTiff,
    number: int,
    how: Publication,
    tile_format: TileFormat,
    cut: Cut,
    channels: int,
    digest: str,
) -> Callable[..., CutReader]:
    """Return what makes the reader of an overview whose tiles have other corners.

    Args:
        channels: of the full image.
    """
    image, mask, order = geotiff.images[number], geotiff.masks[number], geotiff.order
    converter = TileConverter(image, mask, order, how)
    if converter.channels != channels:
        # The tiles of the full image are sent as they are stored.
        plain = replace(how, alpha=None, raw_nodata=None, adds_alpha=False, uses_mask=False)
        converter = TileConverter(image, mask, order, plain)
    decoder = CutDecoder(image, cut, converter, 0.0 if how.adds_alpha else how.nodata)
    kind = ScatteredTile if _is_scattered(geotiff, number) else CogTile

    def make(level: Level, **arguments: Any) -> CutReader:
        reader = CutReader(level, cut=cut, part_class=kind, **arguments)
        reader.deliver, reader.decoder = partial(_encoded, decoder, tile_format), decoder
        reader.etag_suffix = f"-cut-{digest}"
        return reader

    return make


def _is_scattered(geotiff: GeoTiff, number: int) -> bool:
    has_mask = geotiff.masks[number] is not None and not geotiff.is_interleaved
    return geotiff.images[number].is_planar or has_mask


def _spliced(image: Image, order: str, payload: bytes) -> bytes:
    further: list[tuple[int, str, tuple[int, ...] | bytes]] = []
    if image.predictor != 1:
        further.append((317, "H", (image.predictor,)))
    if image.palette:
        further.append((320, "H", image.palette))
    if image.extra:
        further.append((338, "H", image.extra))
    if image.lerc:
        further.append((50674, "I", image.lerc))
    head = tiff_header(
        *(image.tile_width, image.tile_height, image.bands, image.bits, image.kind),
        *(image.compression, image.photometric, len(payload)),
        tuple(further),
        order,
    )
    return head + payload


def _encoded(
    converter: TileConverter | CutDecoder, tile_format: TileFormat, payload: bytes
) -> bytes:
    return encoded(converter.decode(payload), tile_format)


def encoded(pixels: npt.NDArray[Any], tile_format: TileFormat) -> bytes:
    """Return a tile in a format that is sent after decoding.

    Args:
        pixels: shape (rows, columns, channels), uint8 or float32.
    """
    if tile_format.sample == "float32":
        return pixels.astype("<f4", copy=False).tobytes()
    if tile_format is WEBP:
        import io

        from PIL import Image as Pictures

        stream = io.BytesIO()
        Pictures.fromarray(pixels).save(stream, "WEBP", quality=80, method=2)
        return stream.getvalue()
    from mastaba_render.encoding.tile_format import stored_payload

    payload: bytes = stored_payload(pixels, tile_format)
    return payload


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
    if options.get("overviews", "own") != "own":
        first = TileMatrixSet.of(identifier, ground.crs, own[:1])
        found = published(context, first, None, wanted)
        known = found.tile_matrix_set
        if known is not first:
            places, cuts = dict(found.places), {}
            for number, matrix in enumerate(own[1:], 1):
                place = match(TileMatrixSet.of(identifier, ground.crs, [matrix]), known)
                if place is not None:
                    places.update(place.places)
                elif options["overviews"] == "cut":
                    cut = cut_of(known.matrices.values(), matrix, geotiff.images[number])
                    if cut is not None:
                        cuts[number] = cut
            return Match(known, MappingProxyType(places)), own, cuts
    whole_set = TileMatrixSet.of(identifier, ground.crs, own, f"Grid of {stem}")
    return published(context, whole_set, None, wanted), own, {}
