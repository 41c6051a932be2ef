// Coordinate reference systems: definitions come with the descriptions of layers. Coordinates are
// x before y everywhere.

import { get, transform, transformExtent } from "ol/proj.js";
import { register } from "ol/proj/proj4.js";
import proj4 from "proj4";
import { fixed } from "./texts.js";

// Only CRSs that both libraries know are transformed to those that are learnt.
proj4.defs("CRS:84", proj4.defs("EPSG:4326"));

/** Make the CRSs of a description known to the map library. */
export function learn({ projections }) {
  const unknown = Object.entries(projections).filter(([code]) => !get(code));
  if (!unknown.length) return;
  proj4.defs(unknown.map(([code, { definition }]) => [code, definition]));
  register(proj4);
  for (const [code, { extent, area }] of unknown) {
    get(code).setExtent(extent);
    get(code).setWorldExtent(area);
  }
}

/** Return the box around a box in another CRS: west, south, east, north. */
export const boxIn = (box, from, to) => (from === to ? box : transformExtent(box, from, to, 16));

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
