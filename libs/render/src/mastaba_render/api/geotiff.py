"""Tags of GeoTIFF files."""

from mastaba.slab.tiff import Field, image_directory
from mastaba_render.encoding.geotiff import nodata_field, place_fields
from mastaba_render.origin import UNKNOWN, Origin, Origins, SourcesIn, origin_fields

__all__ = [
    "UNKNOWN",
    "Field",
    "Origin",
    "Origins",
    "SourcesIn",
    "image_directory",
    "nodata_field",
    "origin_fields",
    "place_fields",
]
