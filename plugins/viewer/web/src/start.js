// The view in which pages open, if the operator has configured one.

import { containsCoordinate } from "ol/extent.js";
import { getPointResolution, transform } from "ol/proj.js";

/**
 * Return the configured view in a CRS: {x, y, cellSize}; null if there is none or the layer has
 * nothing there.
 *
 * @param start longitude and latitude, degrees, and metres_per_pixel on the ground
 */
export function openingView({ geographicBbox }, start, crs) {
  const degrees = start && [start.longitude, start.latitude];
  if (!start || !containsCoordinate(geographicBbox, degrees)) return null;
  const [x, y] = transform(degrees, "CRS:84", crs);
  return { x, y, cellSize: start.metres_per_pixel / getPointResolution(crs, 1, [x, y], "m") };
}
