// The level that answers a question about heights: that of the tiles which the map shows.

import { boundingExtent, containsExtent, getCenter } from "ol/extent.js";
import GeoJSON from "ol/format/GeoJSON.js";
import { getPointResolution } from "ol/proj.js";
import { extentOf } from "./grid.js";
import { levelsOf } from "./plans.js";
import { boxIn } from "./projections.js";

/** Return the finest level of a set that has tiles everywhere in a box, or else the coarsest one. */
export function answeringLevel(set, box) {
  const levels = levelsOf(set);
  return levels.findLast((level) => containsExtent(extentOf([level], set.limits), box)) ?? levels[0];
}

/**
 * Return the resolution in which heights along or inside a geometry are asked for, metres on the
 * ground. It is null if the finest level covers the geometry: the service then knows what it can
 * afford.
 *
 * @param geometry GeoJSON in degrees
 */
export function resolutionFor(set, geometry) {
  const box = boxIn(new GeoJSON().readGeometry(geometry).getExtent(), "CRS:84", set.crs);
  const level = box && answeringLevel(set, box);
  if (!level || level === levelsOf(set).at(-1)) return null;
  return level.cellSize * getPointResolution(set.crs, 1, getCenter(box), "m");
}

/** Return the cell size in which the tiles at a place of a set are neither enlarged nor reduced. */
export function cellAt(set, place) {
  return answeringLevel(set, boundingExtent([place])).cellSize;
}
