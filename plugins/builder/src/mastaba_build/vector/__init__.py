"""Vector pyramids: tiles of an archive, stored in slabs. Tiles are imported, not cut.

`formats` opens MBTiles (`mbtiles`), PMTiles (`pmtiles`) and directories (`directory`). `plan`
makes a plan of one, `task` builds its slabs, `tables` describes what the tiles contain. `features`
lets tippecanoe cut tiles from features first.
"""
