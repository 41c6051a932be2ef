"""The tags of the images of a coverage (TIFF 6.0, GeoTIFF 1.1, and those of GDAL)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mastaba_render.api.geotiff import Field, nodata_field, origin_fields

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mastaba_coverage.codecs import TileCodec
    from mastaba_coverage.grid import Coverage
    from mastaba_coverage.shape import TileShape
    from mastaba_render.api.geotiff import Origin

_GREY, _RGB, _YCBCR = 1, 2, 6
_UNASSOCIATED_ALPHA: Final = 2
_OVERVIEW: Final = 1
_COLOURS: Final = ("red", "green", "blue")


def image_fields(
    coverage: Coverage,
    size: tuple[int, int],
    shape: TileShape,
    codec: TileCodec,
    fields: tuple[str, ...],
    *,
    is_overview: bool,
    has_nodata: bool = True,
) -> list[Field]:
    """Return the tags that describe the pixels of one image.

    Args:
        size: rows and columns.
        shape: of its tiles.
        codec: of its tiles.
        fields: names of its channels.
        has_nodata: whether cells with the value of nodata have no data.
    """
    is_float, count = coverage.dtype.kind == "f", len(fields)
    is_colour = fields[:3] == _COLOURS
    photometric = _RGB if is_colour else _GREY
    is_ycbcr = codec.name == "jpeg" and count == 3
    found = [
        Field.of(254, "I", _OVERVIEW if is_overview else 0),
        Field.of(256, "I", size[1]),
        Field.of(257, "I", size[0]),
        Field.of(258, "H", *(32 if is_float else 8,) * count),
        Field.of(259, "H", codec.compression),
        Field.of(262, "H", _YCBCR if is_ycbcr else photometric),
        Field.of(277, "H", count),
        Field.of(284, "H", 1),
        Field.of(339, "H", *(3 if is_float else 1,) * count),
        *codec.fields,
    ]
    if shape.is_tiled:
        found += [Field.of(322, "I", shape.width), Field.of(323, "I", shape.height)]
    else:
        found.append(Field.of(278, "I", shape.height))
    extra = fields[3 if is_colour or is_ycbcr else 1 :]
    if extra:
        kinds = (_UNASSOCIATED_ALPHA if name == "alpha" else 0 for name in extra)
        found.append(Field.of(338, "H", *kinds))
    if is_ycbcr:
        found.append(Field.of(530, "H", 2, 2))
    nodata = {coverage.nodata[coverage.fields.index(name)] for name in fields}
    if has_nodata and "alpha" not in fields and len(nodata) == 1:
        found.append(nodata_field(nodata.pop()))
    return found


def metadata_fields(
    coverage: Coverage, origin: Origin, tiling: Mapping[str, str] | None = None
) -> list[Field]:
    """Return the metadata that GDAL shows: title, attribution, sources, generation of the pyramid.

    The date of the sources has a tag of its own.

    Args:
        tiling: items of the domain TILING_SCHEME.
    """
    layer = coverage.layer
    items = {"TITLE": layer.title, "GENERATION": layer.pyramid.generation}
    if layer.attribution:
        items["ATTRIBUTION"] = layer.attribution.title
    return origin_fields(origin, items, tiling or {})
