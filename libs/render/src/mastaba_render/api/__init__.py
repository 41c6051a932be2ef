"""Public names of mastaba-render, by subject.

==============  ==============================================================
``maps``        what to draw, the prepared map, and its encoded response
``areas``       layers of which only a part of the ground is shown
``resampling``  resampling of arrays with the kernels of maps
``decoding``    many stored tiles, and their pixels
``crs``         CRSs in which maps are offered
``encoders``    base classes of image formats, and the rasters that they encode
``geotiff``     tags of GeoTIFF files
==============  ==============================================================

docs/api.md says what may change in which release.
"""
