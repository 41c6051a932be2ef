"""Reads the images of a GeoTIFF from the tags of its directories, and refuses what is invalid."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from mastaba_cog.directories import LARGEST_FILE, Directory, Entry, Fetch, Tiff, read_tiff
from mastaba_cog.errors import CONVERT, CogError, damaged
from mastaba_cog.images import (
    BLACK_IS_ZERO,
    COMPRESSIONS,
    FLOAT,
    INT,
    JPEG,
    LERC,
    MASK,
    NONE,
    PALETTE,
    RGB,
    UINT,
    WEBP,
    WHITE_IS_ZERO,
    YCBCR,
    Found,
    GeoTiff,
    Image,
    Places,
    Position,
    TileArray,
)

_OTHERS: Final = {
    2: "CCITT",
    3: "CCITT",
    4: "CCITT",
    6: "old JPEG",
    33003: "JPEG 2000",
    33004: "JPEG 2000",
    33005: "JPEG 2000",
    34712: "JPEG 2000",
    50002: "JPEG XL",
    52546: "JPEG XL",
}
_SIDES: Final = range(16, 4097)
_MOST_SAMPLES: Final = 16 * 1024 * 1024
_LARGEST_IMAGE: Final = 2**31
_MOST_BANDS: Final = 64
_LONGEST_VALUE: Final = 512 * 1024
_WANTED: Final = frozenset(
    {
        *(254, 256, 257, 258, 259, 262, 266, 277, 284, 317, 320, 322, 323, 338, 339, 347, 530),
        *(50674, 33550, 33922, 34264, 34735, 34736, 34737, 42112, 42113, 270, 305, 33432),
    }
)
_BITS: Final = {
    UINT: (1, 2, 4, 8, 16, 32, 64),
    INT: (8, 16, 32, 64),
    FLOAT: (16, 32, 64),
}


def read_geotiff(head: bytes, fetch: Fetch) -> tuple[GeoTiff, Found]:
    """Return the images of a file, from its first bytes.

    Raises:
        CogError: it is not a TIFF in tiles, or breaks the rules.
    """
    tiff = read_tiff(head, fetch, _WANTED, _LONGEST_VALUE)
    images: list[tuple[Image, Places]] = []
    masks: dict[tuple[int, int], tuple[Image, Places]] = {}
    for number, directory in enumerate(tiff.directories):
        role = int(_number(tiff, directory, 254, 0))
        if number and not role & 5:
            # Another page.
            continue
        found = _image(tiff, directory)
        if role & 4:
            masks.setdefault((found[0].width, found[0].height), found)
        else:
            images.append(found)
    if not images:
        raise damaged("it has no image")
    full = images[0]
    overviews = sorted(images[1:], key=lambda one: -one[0].width)
    ordered = [full, *(one for one in overviews if one[0].width < full[0].width)]
    paired = [masks.get((one.width, one.height)) for one, _ in ordered]
    first = tiff.directories[0]
    structure = tiff.structure
    has_leaders = (
        structure.get("BLOCK_LEADER") == "SIZE_AS_UINT4"
        and structure.get("BLOCK_TRAILER") == "LAST_4_BYTES_REPEATED"
        and structure.get("KNOWN_INCOMPATIBLE_EDITION") == "NO"
    )
    geotiff = GeoTiff(
        tiff.order,
        tuple(image for image, _ in ordered),
        tuple(None if one is None else one[0] for one in paired),
        _position(tiff, first),
        _text(tiff, first, 42113).strip(),
        _text(tiff, first, 42112),
        _text(tiff, first, 270),
        _text(tiff, first, 33432),
        structure.get("MASK_INTERLEAVED_WITH_IMAGERY") == "YES" and has_leaders,
    )
    return geotiff, Found(
        tuple(places for _, places in ordered),
        tuple(None if one is None else one[1] for one in paired),
        has_leaders,
        tiff,
    )


def _image(tiff: Tiff, directory: Directory) -> tuple[Image, Places]:
    def one(tag: int, default: int | None = None) -> int:
        return int(_number(tiff, directory, tag, default))

    width, height = one(256), one(257)
    if not (0 < width <= _LARGEST_IMAGE and 0 < height <= _LARGEST_IMAGE):
        raise damaged(f"an image has {width} × {height} pixels")
    if 322 not in directory or 324 not in directory:
        raise CogError("it is stored in strips, not in tiles", CONVERT)
    tile_width, tile_height, bands = one(322), one(323), one(277, 1)
    if tile_width not in _SIDES or tile_height not in _SIDES:
        raise CogError(f"its tiles have {tile_width} × {tile_height} pixels", CONVERT)
    if not 0 < bands <= _MOST_BANDS:
        raise CogError(f"it has {bands} bands", "keep those that are shown")
    if tile_width * tile_height * bands > _MOST_SAMPLES:
        raise CogError(f"its tiles have {tile_width} × {tile_height} × {bands} samples", CONVERT)
    image = Image(
        width,
        height,
        tile_width,
        tile_height,
        bands,
        _same(tiff, directory, 258, 1, bands),
        _same(tiff, directory, 339, UINT, bands),
        one(259, NONE),
        one(262, BLACK_IS_ZERO),
        one(284, 1) == 2 and bands > 1,
        one(317, 1),
        _several(tiff, directory, 338),
        _several(tiff, directory, 50674),
        _several(tiff, directory, 320),
    )
    # Undefined samples are unsigned.
    if image.kind == 4:
        image = replace(image, kind=UINT)
    _check(image, one(266, 1))
    if image.photometric == YCBCR and image.compression != JPEG:
        raise CogError("it has YCbCr colours that are not in a JPEG", CONVERT)
    places = Places(
        _array(directory, 324, image),
        _array(directory, 325, image),
        tiff.raw(directory[347]) if image.compression == JPEG and 347 in directory else b"",
    )
    return image, places


def _check(image: Image, fill_order: int) -> None:
    if image.compression not in COMPRESSIONS:
        name = _OTHERS.get(image.compression, str(image.compression))
        raise CogError(f"its compression {name} is not supported", CONVERT)
    if image.bits not in _BITS.get(image.kind, ()):
        kind = {UINT: "unsigned", INT: "signed", FLOAT: "float"}.get(image.kind, "complex")
        raise CogError(f"it has {kind} samples of {image.bits} bits", "convert it to another type")
    if image.compression in (JPEG, WEBP) and (image.kind, image.bits) != (UINT, 8):
        name = COMPRESSIONS[image.compression]
        raise CogError(f"it has {name} tiles of {image.bits} bits", "convert it to 8 bits")
    if image.compression in (JPEG, WEBP) and image.bands > 4 and not image.is_planar:
        name = COMPRESSIONS[image.compression]
        raise CogError(f"it has {name} tiles of {image.bands} bands", CONVERT)
    if image.bits < 8 and fill_order != 1:
        raise CogError("its bits are in the reverse order (FillOrder 2)", CONVERT)
    if image.bits < 8 and image.bands > 1:
        raise CogError(f"it has {image.bands} bands of {image.bits} bits", CONVERT)
    if image.predictor not in (1, 2, 3) or (image.predictor == 3) > (image.kind == FLOAT):
        raise damaged(f"the predictor {image.predictor} does not fit its samples")
    if image.predictor == 2 and image.bits < 8:
        raise damaged(f"the predictor 2 does not fit samples of {image.bits} bits")
    if image.photometric == PALETTE:
        if image.bits > 8 or image.kind != UINT or image.colours != 1:
            raise CogError("it has a palette of more than 256 colours", CONVERT)
        if len(image.palette) != 3 << image.bits:
            raise damaged(f"its palette has {len(image.palette)} values")
    elif image.photometric not in (WHITE_IS_ZERO, BLACK_IS_ZERO, RGB, MASK, YCBCR):
        reason = f"its colours (photometric interpretation {image.photometric}) are not supported"
        raise CogError(reason, CONVERT)
    if image.colours < 1:
        raise damaged(f"it has {image.bands} bands, and {len(image.extra)} extra ones")
    if image.is_planar and image.compression in (JPEG, WEBP, LERC) and image.bands > 4:
        name = COMPRESSIONS[image.compression]
        raise CogError(f"it is planar, with {image.bands} bands in {name}", CONVERT)


def _array(directory: Directory, tag: int, image: Image) -> TileArray:
    entry = directory.get(tag)
    expected = image.tile_count * image.planes
    if entry is None or entry.kind not in (3, 4, 13, 16, 18) or entry.count < expected:
        raise damaged(f"the places of its {expected} tiles are missing")
    if entry.offset + entry.length > LARGEST_FILE:
        raise damaged(f"the places of its tiles are at {entry.offset}")
    return TileArray(entry.offset, expected, entry.size)


def _number(tiff: Tiff, directory: Directory, tag: int, default: float | None) -> float:
    entry = directory.get(tag)
    if entry is None:
        if default is None:
            raise damaged(f"the tag {tag} is missing")
        return default
    if entry.count < 1 or entry.length > _LONGEST_VALUE:
        raise damaged(f"the tag {tag} has {entry.count} values")
    return _finite(tiff.numbers(entry)[:1], tag)[0]


def _several(tiff: Tiff, directory: Directory, tag: int) -> tuple[int, ...]:
    return tuple(map(int, _finite(_numbers(tiff, directory.get(tag)), tag)))


def _finite(values: tuple[float, ...], tag: int) -> tuple[float, ...]:
    if not all(map(math.isfinite, values)):
        raise damaged(f"the tag {tag} has a value that is not a number")
    return values


def _numbers(tiff: Tiff, entry: Entry | None) -> tuple[float, ...]:
    if entry is None or not entry.count or entry.length > _LONGEST_VALUE:
        return ()
    return tiff.numbers(entry)


def _same(tiff: Tiff, directory: Directory, tag: int, default: int, bands: int) -> int:
    """Return the value that all bands have."""
    values = _several(tiff, directory, tag) or (default,)
    if len(values) < bands and len(values) != 1:
        raise damaged(f"the tag {tag} has {len(values)} values for {bands} bands")
    if len(set(values[:bands])) != 1:
        raise CogError("its bands have different types", "convert them to the same type")
    return values[0]


def _text(tiff: Tiff, directory: Directory, tag: int) -> str:
    entry = directory.get(tag)
    if entry is None or entry.kind not in (2, 7) or entry.length > _LONGEST_VALUE:
        return ""
    return tiff.raw(entry).split(b"\0")[0].decode("utf-8", "replace")


def _position(tiff: Tiff, directory: Directory) -> Position:
    keys: dict[int, float | str] = {}
    table = _several(tiff, directory, 34735)
    numbers = _numbers(tiff, directory.get(34736))
    texts = _text(tiff, directory, 34737)
    for start in range(4, min(len(table), 4 + 4 * (table[3] if len(table) > 3 else 0)) - 3, 4):
        key, where, count, value = table[start : start + 4]
        if where == 0:
            keys[key] = value
        elif where == 34736 and 0 <= value < len(numbers):
            keys[key] = numbers[value]
        elif where == 34737:
            keys[key] = texts[value : value + count].rstrip("|")
    return Position(
        _numbers(tiff, directory.get(33550)),
        _numbers(tiff, directory.get(33922)),
        _numbers(tiff, directory.get(34264)),
        keys,
    )
