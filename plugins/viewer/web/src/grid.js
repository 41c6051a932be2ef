// Grids of tiles that cannot make the map library walk through millions of tiles.

import { buffer, getIntersection, isEmpty } from "ol/extent.js";
import TileGrid from "ol/tilegrid/TileGrid.js";
import TileRange from "ol/TileRange.js";

/** Tiles of a view, or of what is reprojected at once. More would block the page. */
const MOST = 1600;

const NONE = [0, -1, 0, -1];

/**
 * A grid whose ranges of tiles end at the edges of a layer.
 *
 * The library asks for the tiles of the view, and of the source of each reprojected tile. Near a
 * pole or far outside the area of a CRS, these extents are wide or infinite.
 */
export class LimitedGrid extends TileGrid {
  // The extent of the library would be reprojected with every tile.
  /** @param edges where the layer has tiles: west, south, east, north */
  constructor(options, edges) {
    super(options);
    this.edges = edges;
  }

  getTileRangeForExtentAndZ(extent, z, range = new TileRange(...NONE)) {
    const part = extent.every((edge) => !Number.isNaN(edge)) ? getIntersection(extent, this.edges) : null;
    const found = part && !isEmpty(part) ? super.getTileRangeForExtentAndZ(part, z, range) : null;
    if (found && found.getWidth() * found.getHeight() <= MOST) return found;
    [range.minX, range.maxX, range.minY, range.maxY] = NONE;
    return range;
  }
}

/**
 * Return the grid of some matrices, whose z is the place of a matrix in the list.
 *
 * @param extent where the layer has tiles
 */
export function gridOf(matrices, extent) {
  const options = {
    resolutions: matrices.map(({ cellSize }) => cellSize),
    origins: matrices.map(({ originX, originY }) => [originX, originY]),
    tileSizes: matrices.map(({ tileWidth, tileHeight }) => [tileWidth, tileHeight]),
  };
  return new LimitedGrid(options, extent);
}

/** Return the box around the tiles of some matrices in their limits {id: [rows, columns]}. */
export function extentOf(matrices, limits) {
  const boxes = matrices.map(({ id, cellSize, originX, originY, tileWidth, tileHeight }) => {
    const [minRow, maxRow, minCol, maxCol] = limits[id];
    const [width, height] = [tileWidth * cellSize, tileHeight * cellSize];
    return [originX + minCol * width, originY - (maxRow + 1) * height, originX + (maxCol + 1) * width, originY - minRow * height];
  });
  return boxes.reduce(([a, b, c, d], [w, s, e, n]) => [Math.min(a, w), Math.min(b, s), Math.max(c, e), Math.max(d, n)]);
}

/** Return the places [z, row, column] on the next coarser level that cover a tile. */
export function coarserPlaces(grid, [z, row, col]) {
  const places = [];
  // The edges of tiles are not exact.
  const box = buffer(grid.getTileCoordExtent([z, col, row]), -grid.getResolution(z) / 2);
  if (z > 0) grid.forEachTileCoord(box, z - 1, ([level, x, y]) => places.push([level, y, x]));
  return places;
}
