"""``mastaba slab FILE``: show what is inside a slab."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from mastaba.api.commands import USAGE, failed
from mastaba.api.storages import ByteRange, Environment, ResourcePath, Storage, StoragePool
from mastaba.api.tiles import can_draw
from mastaba.errors import MastabaError, ObjectNotFoundError, RendererMissingError, SlabFormatError
from mastaba.tooling.documents import started_at
from mastaba_doctor.header import COMPRESSIONS, PHOTOMETRICS, SlabHeader
from mastaba_doctor.slab_report import SlabReport, TileEntry, inspect_slab

if TYPE_CHECKING:
    from mastaba.api.tools import Plugins
    from mastaba_render.api.decoding import Pixels

_SAMPLES: Final = {1: "unsigned", 3: "floating point"}
_SHOWN: Final = 20
_SUFFIXES: Final = (".tif", ".tiff")
"""Suffixes of slabs; the report says whether such a file is another TIFF."""


def run(arguments: argparse.Namespace) -> int:
    """Describe a slab; return 0 if it has no problems, 1 if it has, 2 for wrong usage."""
    if arguments.out is not None and arguments.tile is None:
        return failed("--out needs --tile", status=USAGE)
    pool = StoragePool(arguments.plugins.storages, Environment())
    try:
        path = ResourcePath.parse(arguments.slab)
        storage = pool.open(path.storage, path.container)
        report = inspect_slab(storage, path.key)
        archive = _container_of(arguments.plugins, path.key)
        if archive is not None and report.problems and not report.entries:
            return failed(
                f"{report.name} is not a slab, but an archive ({archive}): write its path into a "
                "layer descriptor; mastaba tile then finds its tiles"
            )
        if arguments.tile is not None:
            return _show_tile(report, arguments.tile, arguments.out, storage, path.key)
    except ObjectNotFoundError:
        is_other = path.storage == "file" and os.path.exists(path.key)
        reason = (
            "it is not a regular file"
            if is_other
            else f"the slab does not exist{started_at(arguments.slab)}"
        )
        return failed(f"{arguments.slab}: {reason}")
    except (MastabaError, ValueError) as error:
        return failed(error)
    finally:
        pool.close()
    _print_report(report, path)
    if arguments.list:
        _print_entries(report)
    return 1 if report.problems else 0


def _container_of(plugins: Plugins, key: str) -> str | None:
    """Return the container that the suffix of a file shows; None for a suffix of slabs."""
    if key.lower().endswith(_SUFFIXES):
        return None
    for name, suffixes in plugins.containers.declared("suffixes").items():
        if key.lower().endswith(suffixes or ()):
            return name
    return None


def _print_report(report: SlabReport, path: ResourcePath) -> None:
    _line("slab", report.name)
    _line("size", f"{report.size} bytes")
    if report.link is not None:
        _line("link", f"a link to {report.link}")
        if path.storage == "file":
            print("In file storages, such objects are not followed: use symbolic links.")
        else:
            print(f"Its target: mastaba slab {path.storage}://{report.link}")
    if report.header is not None:
        _print_header(report.header)
        names = " or ".join(tile_format.name for tile_format in report.formats)
        _line("format", names or "unknown")
    if report.entries:
        _print_index(report)
    for problem in report.problems[:_SHOWN]:
        _line("PROBLEM", problem)
    if len(report.problems) > _SHOWN:
        _line("PROBLEM", f"and {len(report.problems) - _SHOWN} more")
    if not report.problems:
        print("No problem found.")


def _print_header(header: SlabHeader) -> None:
    if header.is_vector:
        _line("header", f"vector tiles, {header.tile_count} in the index")
        return
    _line(
        "header",
        f"{header.width} × {header.height} pixels, {header.tile_count} tiles of "
        f"{header.tile_width} × {header.tile_height}",
    )
    compression, photometric = header.compression, header.photometric
    _line(
        "pixels",
        f"channels: {header.channels}, {header.bits} bits "
        f"({_SAMPLES.get(header.sample_format or 0, 'of an unknown kind')}), "
        f"{PHOTOMETRICS.get(photometric or 0, f'photometric {photometric}')}, "
        f"compression: {COMPRESSIONS.get(compression or 0, str(compression))}",
    )


def _print_index(report: SlabReport) -> None:
    stored = report.stored
    _line(
        "index",
        f"{len(report.entries)} entries: {len(stored)} stored, "
        f"{len(report.entries) - len(stored)} absent",
    )
    if stored:
        sizes = [entry.size for entry in stored]
        _line(
            "sizes",
            f"{min(sizes)} to {max(sizes)} bytes, {sum(sizes) // len(sizes)} on average, "
            f"{sum(sizes)} in total",
        )
        _line(
            "contents",
            ", ".join(f"{count} {content}" for content, count in report.contents.most_common()),
        )
    unused = sum(length for _, length in report.gaps)
    _line(
        "layout",
        f"{report.padding} bytes of padding, {len(report.gaps)} gaps ({unused} bytes), "
        f"{report.trailing} bytes after the last tile, {report.shared} tiles share their bytes",
    )


def _print_entries(report: SlabReport) -> None:
    if not report.entries:
        return
    width = report.header.tiles_per_width if report.header is not None else None
    print(f"{'TILE':>6} {'COLUMN':>6} {'ROW':>6} {'OFFSET':>10} {'SIZE':>9}  CONTENT")
    for entry in report.entries:
        row, col = divmod(entry.number, width) if width else ("", "")
        content = entry.content or ("absent" if not entry.size else "outside the slab")
        print(f"{entry.number:>6} {col:>6} {row:>6} {entry.offset:>10} {entry.size:>9}  {content}")


def _show_tile(report: SlabReport, number: int, out: str | None, storage: Storage, key: str) -> int:
    """Describe one tile, and write it if ``out`` is given."""
    if report.link is not None:
        return failed(f"{report.name} is a symbolic object, a link to {report.link}")
    if not report.entries:
        return failed(f"{report.name}: {'; '.join(report.problems)}")
    if not 0 <= number < len(report.entries):
        return failed(f"the slab has the tiles 0 to {len(report.entries) - 1}")
    entry = report.entries[number]
    if not entry.content:
        return failed(f"tile {number} {'is outside the slab' if entry.size else 'is absent'}")
    payload = storage.read(key, ByteRange(entry.offset, entry.size)).data
    _line("tile", f"{number}: {entry.size} bytes at {entry.offset}, {entry.content}")
    pixels = None
    try:
        pixels = _decoded(report, payload)
    except (SlabFormatError, RendererMissingError) as error:
        _line("PROBLEM", str(error))
    if pixels is not None:
        height, width, channels = pixels.shape
        _line("pixels", f"{width} × {height}, channels: {channels}")
        for channel in range(channels):
            values = pixels[:, :, channel]
            _line(
                f"channel {channel}",
                f"from {np.min(values):g} to {np.max(values):g}, {np.mean(values):g} on average",
            )
    if out is None:
        is_broken = pixels is None and not (report.header and report.header.is_vector)
        return 1 if is_broken else 0
    return _write(Path(out), entry, payload, pixels)


def _decoded(report: SlabReport, payload: bytes) -> Pixels | None:
    """Return the pixels of a tile; None for a vector tile.

    Raises:
        SlabFormatError: the tile is damaged, or the header does not say how to decode it.
    """
    header = report.header
    if header is None or header.is_vector:
        return None
    sides = header.channels, header.tile_width, header.tile_height
    if not report.formats or not all(sides):
        raise SlabFormatError("the header does not say how tiles are decoded")
    channels, width, height = (int(side or 0) for side in sides)
    tile_format = report.formats[0]
    if channels not in tile_format.channels:
        raise SlabFormatError(f"{tile_format.name} cannot have {channels} channels")
    if not can_draw():
        raise RendererMissingError
    from mastaba_render.api.decoding import TileDecoder

    return TileDecoder(tile_format, channels, width, height).decode(payload)


def _write(out: Path, entry: TileEntry, payload: bytes, pixels: Pixels | None) -> int:
    """Write an image if the suffix is that of an image, else the bytes as stored."""
    from mastaba_doctor.tile_picture import SUFFIXES, picture

    suffix, data, said = out.suffix.lower(), payload, "as it is stored"
    if suffix in SUFFIXES and SUFFIXES[suffix].lower() != entry.content:
        if pixels is None:
            return failed(
                "the tile cannot be written as an image; its bytes can be written to "
                f"{out.with_suffix('.bin')}"
            )
        data, said = picture(pixels, suffix)
    try:
        out.write_bytes(data)
    except OSError as error:
        return failed(f"cannot write {out}: {error.strerror}")
    _line("written", f"{out}, {len(data)} bytes" + (f", {said}" if said else ""))
    return 0


def _line(label: str, text: str) -> None:
    print(f"{label:<10} {text}")
