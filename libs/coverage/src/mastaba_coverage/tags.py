"""The tags of the images of a coverage (TIFF 6.0, GeoTIFF 1.1, and those of GDAL)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from mastaba.api.catalogue import Codec
from mastaba.api.web import escaped
from mastaba_coverage.layout import Field
from mastaba_render.api.geotiff import geo_keys

if TYPE_CHECKING:
    from mastaba_coverage.cells import Cells
    from mastaba_coverage.grid import Coverage, CoverageGrid

COMPRESSIONS: Final = {
    Codec.RAW: 1,
    Codec.LZW: 5,
    Codec.JPEG: 7,
    Codec.ZIP: 8,
    Codec.PACKBITS: 32773,
}
"""Value of the tag Compression by the codecs whose stored tiles are tiles of TIFF too."""

_JPEG: Final = 7
_GREY, _RGB, _YCBCR = 1, 2, 6
_UNASSOCIATED_ALPHA: Final = 2
_OVERVIEW: Final = 1
_COLOURS: Final = ("red", "green", "blue")


def image_fields(
    coverage: Coverage,
    grid: CoverageGrid,
    cells: Cells,
    compression: int,
    fields: tuple[str, ...],
    *,
    is_overview: bool,
) -> list[Field]:
    """Return the tags that describe the pixels of one image.

    Args:
        grid: the level whose tiles it has.
        compression: value of the tag.
        fields: names of its channels.
    """
    is_float, count = coverage.dtype.kind == "f", len(fields)
    is_colour = fields[:3] == _COLOURS
    photometric = _RGB if is_colour else _GREY
    found = [
        Field.of(254, "I", _OVERVIEW if is_overview else 0),
        Field.of(256, "I", cells.columns),
        Field.of(257, "I", cells.rows),
        Field.of(258, "H", *(32 if is_float else 8,) * count),
        Field.of(259, "H", compression),
        Field.of(262, "H", _YCBCR if compression == _JPEG else photometric),
        Field.of(277, "H", count),
        Field.of(284, "H", 1),
        Field.of(322, "I", grid.matrix.tile_width),
        Field.of(323, "I", grid.matrix.tile_height),
        Field.of(339, "H", *(3 if is_float else 1,) * count),
    ]
    extra = fields[3 if is_colour else 1 :]
    if extra:
        kinds = (_UNASSOCIATED_ALPHA if name == "alpha" else 0 for name in extra)
        found.append(Field.of(338, "H", *kinds))
    if compression == _JPEG:
        found.append(Field.of(530, "H", 2, 2))
    nodata = {coverage.nodata[coverage.fields.index(name)] for name in fields}
    if "alpha" not in fields and len(nodata) == 1:
        found.append(Field.text(42113, _shortest(nodata.pop(), is_float=is_float)))
    return found


def place_fields(coverage: Coverage, grid: CoverageGrid, cells: Cells) -> list[Field]:
    """Return the tags that say where the first image is on the ground."""
    size, box = grid.matrix.cell_size, grid.edges(cells)
    # The position of a post is that of the middle of its cell.
    half = size / 2 if grid.is_post else 0.0
    keys = geo_keys(coverage.layer.pyramid.tile_matrix_set.crs, is_post=grid.is_post)
    return [
        Field.of(33550, "d", size, size, 0.0),
        Field.of(33922, "d", 0.0, 0.0, 0.0, box.xmin + half, box.ymax - half, 0.0),
        *(Field(key.tag, key.kind, key.packed) for key in keys),
    ]


def metadata_field(coverage: Coverage) -> Field:
    """Return the metadata that GDAL shows: title, attribution and generation of the pyramid."""
    layer = coverage.layer
    items = {"TITLE": layer.title, "GENERATION": layer.pyramid.generation}
    if layer.attribution:
        items["ATTRIBUTION"] = layer.attribution.title
    # GDAL reads text that is escaped twice, as it writes it.
    texts = (
        f'<Item name="{name}">{escaped(escaped(text))}</Item>'
        for name, text in items.items()
        if text
    )
    return Field.text(42112, f"<GDALMetadata>{''.join(texts)}</GDALMetadata>".replace("\0", ""))


def _shortest(value: float, *, is_float: bool) -> str:
    """Return the shortest text that is read as the same float32."""
    if not is_float:
        return str(int(value))
    return np.format_float_positional(np.float32(value), unique=True, trim="-")
