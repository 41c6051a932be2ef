"""Sources that are services: maps of a WMS, or tiles of a WMTS, are harvested into a pyramid.

`client` sends requests, `wms` and `wmts` read capabilities, `grids` says which pictures a
slab needs, `pictures` decodes and checks them, `plan` and `drawing` are the build.
"""
