"""Public names of mastaba-render, by subject.

==============  ==============================================================
``maps``        what to draw, the prepared map, and its encoded response
``resampling``  resampling of arrays with the kernels of maps
``decoding``    pixels of stored tiles
``crs``         CRSs in which maps are offered
``geotiff``     tags of GeoTIFF files
==============  ==============================================================

docs/api.md says what may change in which release.
"""
