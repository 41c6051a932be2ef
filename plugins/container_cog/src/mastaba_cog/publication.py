"""How the samples of a GeoTIFF become pixels: bands, ranges, nodata, and the format of tiles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from mastaba.api.containers import JPEG_GRAY, TILE_FORMATS, WEBP, Codec, TileFormat
from mastaba_cog import images
from mastaba_cog.conversion import Publication
from mastaba_cog.errors import CogError
from mastaba_cog.images import GeoTiff, Image, scales_and_offsets

_NODATA: Final = -99999.0
"""Of floats whose file has a mask, and no value for pixels without data."""
_EXACT: Final = frozenset({"uint8", "int8", "uint16", "int16", "float16", "float32"})
"""Types of which all values are float32 too."""
_TIFF_FLOAT32: Final = TileFormat(
    "TIFF_SPLICED_FLOAT32", Codec.RAW, "float32", "image/tiff", "tif", ("tiff",), None, (1,)
)
STORED, SPLICED, DECODED = "as stored", "spliced", "decoded"


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
    if isinstance(raw, int) and not -(2**63) <= raw < 2**64:
        raw = float(str(raw))
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
    """Return a number, whose digits a whole one keeps; None if the text is not one."""
    # More digits are beyond 64 bits.
    for kind in (int, float) if len(text) <= 20 else (float,):
        try:
            return kind(text)
        except ValueError:
            continue
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
        return (_TIFF_FLOAT32 if how.is_float else TILE_FORMATS["TIFF_RAW_UINT8"]), SPLICED
    if how.is_float:
        if wanted not in (None, "bil"):
            raise CogError(f"values of {image.sample} are not a picture", 'give "rescale"')
        return TILE_FORMATS["TIFF_RAW_FLOAT32"], DECODED
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
        return WEBP, DECODED
    return TILE_FORMATS["TIFF_PNG_UINT8"], DECODED
