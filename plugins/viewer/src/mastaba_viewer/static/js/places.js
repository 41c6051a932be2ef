// Position of a layer in a tile matrix set, even if the layer is not offered in that set.

import { levelsOf, zoomOf } from "./grid.js";

const EARTH_RADIUS = 6378137;

/** Return the box of a layer in the CRS of a set, or null if unknown. */
export function boxIn(layer, set) {
  if (set.bbox) return set.bbox;
  const own = layer.sets.find(({ crs }) => crs === set.crs);
  if (own) return own.bbox;
  if (set.crs === "EPSG:4326" || set.crs === "CRS:84") return layer.geographicBbox;
  return set.crs === "EPSG:3857" ? mercator(layer.geographicBbox) : null;
}

function mercator([west, south, east, north]) {
  const x = (longitude) => (EARTH_RADIUS * longitude * Math.PI) / 180;
  const y = (latitude) => EARTH_RADIUS * Math.asinh(Math.tan((latitude * Math.PI) / 180));
  // The poles are at infinity in this projection.
  const edge = Math.PI * EARTH_RADIUS;
  return [x(west), Math.max(-edge, y(south)), x(east), Math.min(edge, y(north))];
}

/** Return the zooms of the coarsest and the finest level of a layer in a set. */
export function zoomsIn(layer, set) {
  if (set.limits) {
    const zooms = levelsOf(set);
    return [zooms[0], zooms[zooms.length - 1]];
  }
  const [native] = layer.sets;
  return zoomsIn(layer, native).map((zoom) => {
    const metres = native.matrices[zoom].cellSize * native.metresPerUnit;
    return Math.ceil(zoomOf(set, metres / set.metresPerUnit));
  });
}
