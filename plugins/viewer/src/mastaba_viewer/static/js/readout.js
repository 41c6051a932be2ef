// What is under the pointer: coordinates, level and elevation.

import { cellSizeAt } from "./grid.js";

const EARTH_RADIUS = 6378137;

/** Show the place under the pointer in an element; returns a function that stops it. */
export function showReadout(map, set, element, elevationAt) {
  let latlng = null;
  const update = () => {
    element.replaceChildren(...describe(map, set, latlng, elevationAt));
  };
  const move = (event) => {
    latlng = event.latlng;
    update();
  };
  const leave = () => {
    latlng = null;
    update();
  };
  map.on("mousemove", move).on("mouseout", leave).on("zoomend", update);
  update();
  return update;
}

function describe(map, set, latlng, elevationAt) {
  const parts = [];
  if (latlng) {
    const elevation = elevationAt(latlng);
    if (elevation !== null) parts.push(piece("b", `${elevation.toFixed(2)} m`));
    parts.push(piece("", place(set, latlng)));
  }
  const zoom = map.getZoom();
  const matrix = set.matrices[Math.min(set.matrices.length - 1, Math.max(0, Math.round(zoom)))];
  parts.push(piece("span", `level ${matrix.id}`));
  parts.push(piece("span", `${number(cellSizeAt(set, zoom))} ${set.geographic ? "°" : "m"}/px`));
  parts.push(piece("span", set.crs));
  return parts;
}

function place(set, { lng: x, lat: y }) {
  if (set.geographic) return `${y.toFixed(5)}, ${x.toFixed(5)}`;
  if (set.crs !== "EPSG:3857") return `${x.toFixed(1)}  ${y.toFixed(1)}`;
  const longitude = (x / EARTH_RADIUS) * (180 / Math.PI);
  const latitude = Math.atan(Math.sinh(y / EARTH_RADIUS)) * (180 / Math.PI);
  return `${latitude.toFixed(5)}, ${longitude.toFixed(5)}`;
}

function piece(tag, text) {
  if (!tag) return document.createTextNode(text);
  const element = document.createElement(tag);
  element.textContent = text;
  return element;
}

/** Write a number with three significant digits, without exponent. */
export function number(value) {
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value) || 1)));
  return value.toFixed(Math.min(12, digits));
}
