"""Areas: the part of a layer that a view shows.

Readers of an area (`masked_readers`) find and read only what is inside, so everything that reads
tiles through them is limited too: tiles, maps, values, heights, downloads.

```text
parsing     GeoJSON and WKT to rings
area        an area, and intersections of areas
projected   the edges of an area in the CRS of a tile matrix set
level       the tiles of a level that are inside or cut, and the pixels of those that are cut
reader      a reader of a level that shows an area
views       the readers and the extents of a layer for an area
```
"""
