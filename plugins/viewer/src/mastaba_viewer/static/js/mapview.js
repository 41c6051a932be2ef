// A map in the grid of a tile matrix set.

/* global L */

import { byId, element, link } from "./dom.js";
import { levelsOf, zoomOf } from "./grid.js";
import { gridCrs } from "./gridtiles.js";

/** Zooms beyond the levels of the layer, in which tiles are stretched. */
const COARSER = 2;
const FINER = 3;

/** Open a map of a layer in one of its sets, at a view {x, y, cellSize} or at its extent. */
export function openMap(set, view) {
  const zooms = levelsOf(set);
  const [top, bottom] = [zooms[0], zooms[zooms.length - 1]];
  const map = L.map("map", {
    crs: gridCrs(set),
    minZoom: top - COARSER,
    maxZoom: bottom + FINER,
    attributionControl: false,
    zoomControl: false,
  });
  L.control.zoom({ position: "topright" }).addTo(map);
  const [west, south, east, north] = set.bbox;
  const bounds = L.latLngBounds([south, west], [north, east]);
  // Pixels of the finest level stay what they are when they are enlarged.
  map.on("zoomend", () => {
    map.getContainer().classList.toggle("crisp", map.getZoom() > bottom);
  });
  if (view) {
    map.setView([view.y, view.x], Math.round(zoomOf(set, view.cellSize)));
  } else {
    map.setView(bounds.getCenter(), startZoom(set, bounds, map.getSize(), top, bottom));
  }
  L.rectangle(bounds, {
    className: "extent",
    fill: false,
    weight: 1,
    dashArray: "4 4",
    interactive: false,
  }).addTo(map);
  return map;
}

/** Return the zoom at which a box fits into the room, among those that the layer has tiles for. */
function startZoom(set, bounds, room, top, bottom) {
  const width = bounds.getEast() - bounds.getWest();
  const height = bounds.getNorth() - bounds.getSouth();
  const fitting = zoomOf(set, Math.max(width / room.x, height / room.y) * 1.05);
  return Math.min(bottom, Math.max(top, Math.floor(fitting + 1e-6)));
}

/** Write who made the layers shown. */
export function showAttribution(layers) {
  const known = new Map();
  for (const { attribution } of layers) {
    if (attribution) known.set(`${attribution.title} ${attribution.url}`, attribution);
  }
  const parts = [...known.values()].map(({ title, url }) => element("span", {}, link(title, url)));
  byId("attribution").replaceChildren(...parts);
  byId("attribution").hidden = !parts.length;
}

/** The skip link moves the focus and leaves the fragment of the address alone. */
export function bindSkipLink() {
  byId("skip").addEventListener("click", (event) => {
    event.preventDefault();
    byId("map").focus();
  });
}
