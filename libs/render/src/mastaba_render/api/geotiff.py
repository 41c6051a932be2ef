"""Tags of GeoTIFF files."""

from mastaba_render.encoding.geotiff import geo_keys

__all__ = ["geo_keys"]
