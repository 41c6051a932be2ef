"""Names of slabs below a directory or an object prefix."""

from __future__ import annotations

__all__ = [
    "MAX_PATH_DEPTH",
    "base36",
    "slab_object",
    "slab_path",
]

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
MAX_PATH_DEPTH = 8
"""Largest number of directories between the folder of a level and its slabs."""


def base36(number: int) -> str:
    """Return a non-negative integer in base 36, upper case, without padding."""
    text = _DIGITS[number % 36]
    while number := number // 36:
        text = _DIGITS[number % 36] + text
    return text


def slab_path(column: int, row: int, path_depth: int = 2) -> str:
    """Return the path of a slab below its image directory, with ``/`` and ``.tif``.

    Args:
        column: slab column (tile column divided by the tiles per width of a slab).
        row: slab row.
        path_depth: number of directories, 0 to 8.

    Raises:
        ValueError: a negative index, or a depth outside 0 to 8.
    """
    if column < 0 or row < 0:
        raise ValueError(f"negative slab index ({column}, {row})")
    if not 0 <= path_depth <= MAX_PATH_DEPTH:
        raise ValueError(f"path depth {path_depth} is not in 0..{MAX_PATH_DEPTH}")
    x, y = base36(column), base36(row)
    length = max(path_depth + 1, len(x), len(y))
    pairs = [a + b for a, b in zip(x.rjust(length, "0"), y.rjust(length, "0"), strict=True)]
    head = length - path_depth  # large indices lengthen the first directory, not the path
    if path_depth == 0:
        return "".join(pairs) + ".tif"
    return "/".join(["".join(pairs[:head]), *pairs[head:]]) + ".tif"


def slab_object(image_prefix: str, column: int, row: int) -> str:
    """Return the name of a slab in object storage: ``<prefix>_<column>_<row>`` in decimal."""
    return f"{image_prefix}_{column}_{row}"
