// Coordinate reference systems: definitions come with the descriptions of layers. Coordinates are
// x before y everywhere.

import { getIntersection, isEmpty } from "ol/extent.js";
import { get, transform, transformExtent } from "ol/proj.js";
import { register } from "ol/proj/proj4.js";
import proj4 from "proj4";
import { fixed } from "./texts.js";

// Only CRSs that both libraries know are transformed to those that are learnt.
proj4.defs("CRS:84", proj4.defs("EPSG:4326"));

/** Make the CRSs of a description known to the map library. */
export function learn({ projections }) {
  // The library has UTM zones of its own, without their extents.
  const unknown = Object.entries(projections).filter(([code]) => !get(code)?.getExtent());
  if (!unknown.length) return;
  proj4.defs(unknown.map(([code, { definition }]) => [code, definition]));
  register(proj4);
  for (const [code, { extent, area }] of unknown) {
    get(code).setExtent(extent);
    get(code).setWorldExtent(area);
  }
}

/** Degrees around the area of use of a CRS in which it is still good enough for a map. */
const AROUND = 12;
/** Parallel beyond which cylinders and many cones go to infinity. */
const HIGHEST = 84;

/** Return the degrees in which a CRS can be shown: more than its area of use, less than the world. */
function areaOf(crs) {
  const [west, south, east, north] = get(crs).getWorldExtent() ?? [-180, -90, 180, 90];
  return [
    Math.max(-180, west - AROUND),
    Math.max(Math.min(south, -HIGHEST), south - AROUND),
    Math.min(180, east + AROUND),
    Math.min(Math.max(north, HIGHEST), north + AROUND),
  ];
}

/**
 * Return the box around a box in another CRS: west, south, east, north. Of a box that is larger than
 * the areas of the CRSs, only the part there; null if it has no place in the other CRS.
 */
export function boxIn(box, from, to) {
  if (from === to) return box;
  // Outside their areas, CRSs have infinite or meaningless coordinates.
  const area = getIntersection(areaOf(from), areaOf(to));
  if (isEmpty(area)) return null;
  const part = getIntersection(box, transformExtent(area, "CRS:84", from, 16));
  if (isEmpty(part)) return null;
  const found = transformExtent(part, from, to, 16);
  return found.every(Number.isFinite) ? found : null;
}

/** Return the size of a cell in another CRS. */
export function cellIn(cell, from, to) {
  return (cell * get(from).getMetersPerUnit()) / get(to).getMetersPerUnit();
}

/** Return a view {x, y, cellSize} in another CRS, or null if it is not in its area. */
export function viewIn({ x, y, cellSize }, from, to) {
  const place = transform([x, y], from, to);
  return place.every(Number.isFinite) ? { x: place[0], y: place[1], cellSize: cellIn(cellSize, from, to) } : null;
}

/** Format a position for reading: latitude and longitude of CRSs that the world uses, else x, y. */
export function placeText([x, y], crs) {
  const isWorldwide = crs === "EPSG:3857" || get(crs).getUnits() === "degrees";
  if (!isWorldwide) return `${fixed(x, 1)}  ${fixed(y, 1)}`;
  const [longitude, latitude] = transform([x, y], crs, "CRS:84");
  if (Math.abs(longitude) > 180) return `${fixed(x, 0)}  ${fixed(y, 0)}`;
  return `${fixed(latitude, 5)}, ${fixed(longitude, 5)}`;
}
