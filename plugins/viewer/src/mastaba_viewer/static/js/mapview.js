// A map in the grid of a tile matrix set.

/* global L */

import { byId, element, link } from "./dom.js";
import { zoomOf } from "./grid.js";
import { gridCrs } from "./gridtiles.js";

/** Number of zooms beyond the levels of the layer, where tiles are scaled. */
const COARSER = 2;
const FINER = 3;

/**
 * Open a map in the grid of a set, at a view {x, y, cellSize} or, if there is none, at a box.
 *
 * @param set tile matrix set
 * @param view initial view, or null
 * @param box initial box
 * @param zooms zooms of the coarsest and the finest level with data
 */
export function openMap(set, view, box, [top, bottom]) {
  const map = L.map("map", {
    crs: gridCrs(set),
    minZoom: top - COARSER,
    maxZoom: bottom + FINER,
    attributionControl: false,
    zoomControl: false,
  });
  L.control.zoom({ position: "topright" }).addTo(map);
  // Beyond the finest level, pixels are enlarged without smoothing.
  map.on("zoomend", () => {
    map.getContainer().classList.toggle("crisp", map.getZoom() > bottom);
  });
  if (view) {
    map.setView([view.y, view.x], Math.round(zoomOf(set, view.cellSize)));
  } else {
    const zoom = fittingZoom(set, box, map.getSize());
    map.setView(boundsOf(box).getCenter(), Math.min(bottom, Math.max(top, zoom)));
  }
  return map;
}

/** Draw the outline of a box. */
export function outline(map, box) {
  L.rectangle(boundsOf(box), {
    className: "extent",
    fill: false,
    weight: 1,
    dashArray: "4 4",
    interactive: false,
  }).addTo(map);
}

function boundsOf([west, south, east, north]) {
  return L.latLngBounds([south, west], [north, east]);
}

/** Return the finest zoom at which a box fits into the map. */
function fittingZoom(set, [west, south, east, north], size) {
  const cellSize = Math.max((east - west) / size.x, (north - south) / size.y) * 1.05;
  return Math.floor(zoomOf(set, cellSize) + 1e-6);
}

/** Show the attribution of the visible layers. */
export function showAttribution(layers) {
  const known = new Map();
  for (const { attribution } of layers) {
    if (attribution) known.set(`${attribution.title} ${attribution.url}`, attribution);
  }
  const parts = [...known.values()].map(({ title, url }) => element("span", {}, link(title, url)));
  byId("attribution").replaceChildren(...parts);
  byId("attribution").hidden = !parts.length;
}

/** Make the skip link move the focus without changing the URL fragment. */
export function bindSkipLink() {
  byId("skip").addEventListener("click", (event) => {
    event.preventDefault();
    byId("map").focus();
  });
}
