// The visible part of a layer, and the size of a map request for it.

import { intersection } from "./addresses.js";
import { cellSizeAt, levelsOf } from "./grid.js";

/**
 * Return {box, width, height} of a map request for the visible part of a layer, or for the whole
 * layer if none of it is visible. The request stays within the limits of the service.
 */
export function visibleExtent(map, { set, source }) {
  const view = map.getBounds();
  const seen = [view.getWest(), view.getSouth(), view.getEast(), view.getNorth()];
  const whole = set.bbox;
  const [west, south, east, north] = intersection(seen, whole) ?? whole;
  const { limits } = source;
  let cell = cellSizeAt(set, map.getZoom());
  cell = Math.max(cell, (east - west) / Math.min(limits.width, 2048), (north - south) / Math.min(limits.height, 2048));
  const zooms = levelsOf(set);
  const coarsest = set.matrices[zooms[0]];
  // If even the coarsest level is finer than the map, the map needs many of its tiles.
  const finest = Math.min(coarsest.cellSize, cell);
  const across = Math.min(east - west, Math.max(1, limits.tilesX - 2) * coarsest.tileWidth * finest);
  const down = Math.min(north - south, Math.max(1, limits.tilesY - 2) * coarsest.tileHeight * finest);
  const x = (west + east) / 2;
  const y = (south + north) / 2;
  return {
    box: [x - across / 2, y - down / 2, x + across / 2, y + down / 2],
    width: Math.max(1, Math.round(across / cell)),
    height: Math.max(1, Math.round(down / cell)),
  };
}

/** Return {matrix, row, col} of the tile of the layer nearest to the centre of the view. */
export function middleTile(map, set) {
  const zooms = levelsOf(set);
  const zoom = Math.min(zooms[zooms.length - 1], Math.max(zooms[0], Math.round(map.getZoom())));
  const near = zooms.reduce((one, other) => (Math.abs(other - zoom) < Math.abs(one - zoom) ? other : one));
  const matrix = set.matrices[near];
  const [minRow, maxRow, minCol, maxCol] = set.limits[matrix.id];
  const { lat: y, lng: x } = map.getCenter();
  const row = Math.floor((matrix.originY - y) / (matrix.cellSize * matrix.tileHeight));
  const col = Math.floor((x - matrix.originX) / (matrix.cellSize * matrix.tileWidth));
  return {
    matrix,
    row: Math.min(maxRow, Math.max(minRow, row)),
    col: Math.min(maxCol, Math.max(minCol, col)),
  };
}
