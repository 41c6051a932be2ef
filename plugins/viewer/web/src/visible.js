// The visible part of a layer, and the size of a map request for it.

import { intersection } from "./addresses.js";
import { levelsOf } from "./levels.js";
import { boxIn, cellIn } from "./projections.js";

/**
 * Return {box, width, height} of a map request, in the CRS of its set, for the visible part of a
 * layer, or for the whole layer if none of it is visible. The request stays within the limits of
 * the service.
 */
export function visibleExtent(view, { set, source }) {
  const whole = set.bbox;
  const [west, south, east, north] = intersection(boxIn(view.box, view.crs, set.crs), whole) ?? whole;
  const { limits } = source;
  let cell = cellIn(view.cellSize, view.crs, set.crs);
  cell = Math.max(cell, (east - west) / Math.min(limits.width, 2048), (north - south) / Math.min(limits.height, 2048));
  const [coarsest] = levelsOf(set);
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
