"""Verification of a pyramid: what is stored against its build record."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from mastaba.api.catalogue import TILE_FORMATS
from mastaba.api.slabs import TileDecoder
from mastaba.errors import MastabaError
from mastaba_build.errors import VerificationError
from mastaba_build.storage import FileWriter
from mastaba_build.vector.payload import layers
from mastaba_build.vector.plan import FORMAT

Decode: TypeAlias = Callable[[bytes], object]
"""Decodes a tile; raises an error if it is damaged."""
_HEADER = 2048
_ALIGNMENT = 16
_MOST_REPORTED = 20


def verify(output: Path, name: str, *, full: bool = False) -> int:
    """Check a published pyramid and return the number of its slabs.

    Compares sizes and MD5 sums with the build record, the list with the objects, and checks the
    index of every slab.

    Args:
        full: also decode every tile.

    Raises:
        VerificationError: something differs; the message names the slabs.
    """
    record, descriptor = (_document(output / f"{name}{end}.json") for end in (".build", ""))
    storage = FileWriter(output / name)
    slab_size = {
        level["id"]: level["tiles_per_width"] * level["tiles_per_height"]
        for level in descriptor["levels"]
    }
    decode = _decode(descriptor, record["tile_size"]) if full else None
    problems: list[str] = []
    for key, (size, md5) in record["slabs"].items():
        try:
            data = storage.read(key)
        except OSError as error:
            problems.append(f"{key}: {error.strerror}")
            continue
        if len(data) != size or hashlib.md5(data, usedforsecurity=False).hexdigest() != md5:
            problems.append(f"{key}: differs from the build record")
            continue
        problem = slab_problem(data, slab_size[key.split("/")[1]], decode)
        if problem:
            problems.append(f"{key}: {problem}")
    stored = {key for key in storage.list("") if not key.startswith("MASK/")}
    problems += [
        f"{key}: is not in the build record" for key in sorted(stored - set(record["slabs"]))
    ]
    lines = (output / f"{name}.list").read_text("utf-8").splitlines()
    listed = {line.removeprefix("0/") for line in lines if line.startswith("0/DATA/")}
    problems += [
        f"{key}: is missing from the list" for key in sorted(set(record["slabs"]) - listed)
    ]
    if problems:
        more = len(problems) - _MOST_REPORTED
        shown = problems[:_MOST_REPORTED] + ([f"and {more} more"] if more > 0 else [])
        raise VerificationError("\n".join(shown))
    return len(record["slabs"])


def slab_problem(data: bytes, tiles: int, decode: Decode | None) -> str | None:
    """Return what is wrong with the bytes of a slab of some tiles, or None."""
    if data[:4] != b"II*\0" or len(data) < _HEADER + 8 * tiles:
        return "its header is damaged"
    index = struct.unpack_from(f"<{2 * tiles}I", data, _HEADER)
    end = _HEADER + 8 * tiles
    for number, (offset, size) in enumerate(zip(index[:tiles], index[tiles:], strict=True)):
        if not size:
            continue  # an absent vector tile
        if offset < end or offset + size > len(data) or (number and offset % _ALIGNMENT):
            return f"the position of tile {number} is wrong"
        end = offset + size
        if decode is not None:
            try:
                decode(data[offset:end])
            except (MastabaError, ValueError) as error:
                return f"tile {number} cannot be decoded: {error}"
    return None if end == len(data) else "it has bytes after its last tile"


def _decode(descriptor: dict[str, Any], tile_size: tuple[int, int]) -> Decode:
    if descriptor["format"] == FORMAT:
        return lambda tile: list(layers(tile))
    channels = descriptor["raster_specifications"]["channels"]
    return TileDecoder(TILE_FORMATS[descriptor["format"]], channels, *tile_size).decode


def _document(path: Path) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise VerificationError(f"{path} cannot be read: {error}") from None
    return document
