// Readout at the pointer, or at the centre of the map: coordinates, level and elevation.

import { cellSizeAt } from "./grid.js";
import { number } from "./numbers.js";

const EARTH_RADIUS = 6378137;
/** Milliseconds for which the pointer must rest before a request is sent. */
const REST = 150;

/**
 * Show in an element what is at the pointer, and update it.
 *
 * @param elevationAt returns the elevation at a position: a number, null, or a function that takes
 *   an AbortSignal and requests it
 */
export function showReadout(map, set, output, elevationAt) {
  let latlng = null;
  let timer = 0;
  let question = new AbortController();

  const update = () => {
    clearTimeout(timer);
    question.abort();
    const place = latlng ?? map.getCenter();
    const elevation = elevationAt(place);
    const isKnown = typeof elevation !== "function";
    output.replaceChildren(...describe(map, set, place, isKnown ? elevation : null, !latlng));
    if (isKnown) return;
    timer = setTimeout(async () => {
      question = new AbortController();
      const { signal } = question;
      const value = await elevation(signal).catch(() => null);
      if (!signal.aborted) output.replaceChildren(...describe(map, set, place, value, !latlng));
    }, REST);
  };
  const move = (event) => {
    latlng = event.latlng;
    update();
  };
  const leave = () => {
    latlng = null;
    update();
  };
  map.on("mousemove", move).on("mouseout", leave).on("moveend", update);
  map.on("unload", () => {
    clearTimeout(timer);
    question.abort();
  });
  update();
  return update;
}

function describe(map, set, latlng, elevation, isMiddle) {
  const parts = [];
  if (isMiddle) parts.push(piece("span", "centre"));
  if (elevation !== null) parts.push(piece("b", `${elevation.toFixed(2)} m`));
  parts.push(piece("i", place(set, latlng)));
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
  if (Math.abs(longitude) > 180) return `${x.toFixed(0)}  ${y.toFixed(0)}`;
  const latitude = Math.atan(Math.sinh(y / EARTH_RADIUS)) * (180 / Math.PI);
  return `${latitude.toFixed(5)}, ${longitude.toFixed(5)}`;
}

function piece(tag, text) {
  const element = document.createElement(tag);
  element.textContent = text;
  return element;
}
