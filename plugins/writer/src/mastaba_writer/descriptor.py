"""Pyramid descriptors and slab lists; equal pyramids have equal bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mastaba_writer.tile_encoder import tile_format

if TYPE_CHECKING:
    from mastaba_writer.documents import Document

__all__ = [
    "LevelPlan",
    "nodata_text",
    "nodata_values",
    "pyramid_descriptor",
    "slab_list",
]


@dataclass(frozen=True, slots=True)
class LevelPlan:
    """A level and its tile limits, as inclusive tile indices of its matrix.

    Attributes:
        id: identifier of its matrix.
        min_row: first tile row, counted from the top.
        max_row: last tile row.
        min_col: first tile column, counted from the left.
        max_col: last tile column.
    """

    id: str
    min_row: int
    max_row: int
    min_col: int
    max_col: int


def pyramid_descriptor(
    tile_matrix_set: str,
    format: str,
    levels: Sequence[LevelPlan],
    *,
    slab_size: tuple[int, int],
    storage: Callable[[str], Mapping[str, Any]],
    channels: int = 3,
    nodata: Sequence[float] | None = None,
    interpolation: str = "nn",
    mask_format: str | None = None,
    tables: Callable[[str], Iterable[Mapping[str, Any]]] | None = None,
) -> Document:
    """Return the descriptor of a pyramid.

    Args:
        tile_matrix_set: stem of the file of the set.
        format: pyramid format, for example ``TIFF_JPG_UINT8``.
        levels: levels in the order of the descriptor.
        slab_size: width and height of a slab in tiles.
        storage: returns the ``storage`` object of a level id.
        channels: samples per pixel; ignored for vector pyramids, like the next arguments.
        nodata: one value per channel; by default 255 for uint8 and -99999 for float32.
        interpolation: kernel of the bottom level.
        mask_format: format of the mask slabs, if there are any.
        tables: returns the tables of a level id, for vector pyramids.

    Raises:
        ValueError: unknown format, or another number of nodata values than channels.
    """
    document: Document = {"tile_matrix_set": tile_matrix_set, "format": format}
    is_vector = tile_format(format).is_vector
    if not is_vector:
        values = nodata_values(format, channels, nodata)
        document["raster_specifications"] = {
            "channels": channels,
            "nodata": nodata_text(values),
            "photometric": "gray" if channels <= 2 else "rgb",
            "interpolation": interpolation,
        }
        if mask_format:
            document["mask_format"] = mask_format
    document["levels"] = []
    for plan in levels:
        limits = asdict(plan)
        level: Document = {
            "id": limits.pop("id"),
            "tiles_per_width": slab_size[0],
            "tiles_per_height": slab_size[1],
            "tile_limits": limits,
        }
        if is_vector:
            level["tables"] = [dict(table) for table in tables(plan.id)] if tables else []
        level["storage"] = dict(storage(plan.id))
        document["levels"].append(level)
    return document


def nodata_values(
    format: str, channels: int, nodata: Sequence[float] | None = None
) -> Sequence[float]:
    """Return the given or the default nodata value of each channel.

    Raises:
        ValueError: unknown format, or another number of values than channels.
    """
    if nodata is None:
        is_float = tile_format(format).dtype == np.float32
        return [-99999 if is_float else 255] * channels
    if len(nodata) != channels:
        raise ValueError(f"{len(nodata)} nodata values for {channels} channels")
    return nodata


def nodata_text(values: Iterable[float]) -> str:
    """Return the text of nodata values in a descriptor: as many digits as float32 needs."""
    return ",".join(f"{value:.9g}" for value in values)


def slab_list(roots: Sequence[str], slabs: Iterable[tuple[int, str]]) -> str:
    """Return the text of the list of a pyramid.

    Args:
        roots: absolute directories of slabs, or ``<container>/<name>`` in an object store: that of
            the pyramid itself, then those of pyramids to whose slabs it has links.
        slabs: number of the root that contains the slab, and name below it, in the order of the
            list. A space and the MD5 sum of the slab may follow the name.

    Raises:
        ValueError: a root contains white space, which existing readers would remove.
    """
    for root in roots:
        if root.split() != [root]:
            raise ValueError(f"a slab list cannot name {root!r}: it contains white space")
    head = "".join(f"{number}={root}\n" for number, root in enumerate(roots))
    return f"{head}#\n" + "".join(f"{number}/{slab}\n" for number, slab in slabs)
