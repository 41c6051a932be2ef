"""Tags of GeoTIFF files."""

from mastaba_render.encoding.geotiff import geo_keys
from mastaba_render.origin import UNKNOWN, Origin, Origins, SourcesIn, origin_fields

__all__ = ["UNKNOWN", "Origin", "Origins", "SourcesIn", "geo_keys", "origin_fields"]
