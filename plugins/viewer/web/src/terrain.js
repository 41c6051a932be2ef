// The terrain in 3D, with what the map shows draped over it.

import * as maplibre from "maplibre-gl";
import { transform } from "ol/proj.js";
import { byId, say } from "./dom.js";
import { fetchJson, fetchTile } from "./fetching.js";
import { fill, isWithin, planOf } from "./plans.js";
import { stopsOf } from "./relief.js";
import { base, fetchLayer } from "./site.js";
import { t } from "./texts.js";

/** Metres per pixel of zoom 0 at the equator. */
const WIDEST = 78271.517;

/** Colours between the ground and the sky. */
const SKY = {
  "sky-color": "#7fb2dc",
  "horizon-color": "#e4eef4",
  "fog-color": "#dfe7ea",
  "sky-horizon-blend": 0.7,
  "horizon-fog-blend": 0.6,
  "fog-ground-blend": 0.75,
};
/** The property with the colours of elevations. */
const COLOUR = "color-relief-color";
const USUAL = { bearing: 0, pitch: 60, exaggeration: 1.3 };

/**
 * Show the terrain of a layer over the map, until it is closed.
 *
 * @param state bearing, pitch and exaggeration, with commas, as in `state` of the result
 * @param onClose called when it is closed
 * @returns {state, recolour, close}
 */
export async function openTerrain(page, { id, terrain }, state, onClose) {
  const { view } = page;
  const [heights, ground] = await Promise.all([fetchJson(`${terrain}/terrarium.json`), fetchLayer(id)]);
  maplibre.setWorkerUrl(new URL(`${base}/static/maplibre-worker.js`, location.href).href);
  byId("terrain").hidden = false;
  const { bearing, pitch, exaggeration } = read(state);
  const strength = byId("terrain-exaggeration");
  strength.value = exaggeration;
  const draped = drape(page);
  const dem = { type: "raster-dem", encoding: "terrarium", ...picked(heights, ground.sets[0]) };
  const sources = { heights: dem, ...(draped ? { draped } : { shaded: dem }) };
  const layers = [
    { id: "ground", type: "background", paint: { "background-color": "#dfe3dc" } },
    ...(draped
      ? [{ id: "draped", type: "raster", source: "draped" }]
      : [...tints(page), { id: "shaded", type: "hillshade", source: "shaded" }]),
  ];
  const map = new maplibre.Map({
    container: "terrain-map",
    style: { version: 8, sources, layers, sky: SKY, terrain: { source: "heights", exaggeration } },
    ...placeOf(view),
    bearing,
    pitch,
    maxPitch: 80,
    attributionControl: false,
    canvasContextAttributes: { preserveDrawingBuffer: true },
  });
  let isReady = false;
  const opened = {
    get state() {
      return [map.getBearing(), map.getPitch(), strength.valueAsNumber].map((value) => Number(value.toFixed(1))).join(",");
    },
    /** Take the colours of the map, which fit to the view. */
    recolour() {
      for (const layer of draped || !isReady ? [] : tints(page)) {
        if (map.getLayer(layer.id)) map.setPaintProperty(layer.id, COLOUR, layer.paint[COLOUR]);
        else map.addLayer(layer, "shaded");
      }
    },
    close() {
      window.removeEventListener("online", reload);
      map.remove();
      byId("terrain").hidden = true;
      onClose();
      page.write();
      byId("three").focus();
    },
  };
  const reload = () => Object.keys(sources).forEach((name) => map.refreshTiles(name));
  window.addEventListener("online", reload);
  map.once("style.load", () => {
    isReady = true;
    opened.recolour();
  });
  map.on("idle", () => byId("terrain-map").setAttribute("aria-busy", false));
  map.on("error", ({ error }) => say(t("terrain-failed", { message: error.message })));
  // The map below follows, so that the link and the map after closing show the same place.
  map.on("moveend", () => {
    const { lng, lat } = map.getCenter();
    const shown = view.map.getView();
    shown.setCenter(transform([lng, lat], "CRS:84", view.crs));
    shown.setResolution(WIDEST / 2 ** map.getZoom() / shown.getProjection().getMetersPerUnit());
    page.write();
  });
  strength.oninput = () => {
    map.setTerrain({ source: "heights", exaggeration: strength.valueAsNumber });
    page.write();
  };
  byId("close-terrain").onclick = () => opened.close();
  byId("close-terrain").focus();
  return opened;
}

function read(state) {
  const parts = typeof state === "string" ? state.split(",").map(Number) : [];
  const names = Object.keys(USUAL);
  return Object.fromEntries(names.map((name, at) => [name, Number.isFinite(parts[at]) ? parts[at] : USUAL[name]]));
}

/** Return the centre and the zoom of the map. */
function placeOf(view) {
  const metres = view.cellSize * view.map.getView().getProjection().getMetersPerUnit();
  return { center: transform([view.view.x, view.view.y], view.crs, "CRS:84"), zoom: Math.log2(WIDEST / metres) };
}

/** Return the parts of a TileJSON document that a source takes. */
function picked({ tiles: [template], minzoom, maxzoom, bounds, tileSize }, set) {
  // Levels that are not stored are made from others.
  const limits = set.crs === "EPSG:3857" && set.hasZooms ? set.limits : {};
  const exists = (z, y, x) => !limits[z] || isWithin(limits[z], y, x);
  return { tiles: [served("heights", exists, (z, y, x) => fill(template, { z, y, x }))], minzoom, maxzoom, bounds, tileSize };
}

/** Return the layer of the colours of the map, or none if it shows no elevations. */
function tints({ tiles }) {
  if (!tiles.range) return [];
  const stops = stopsOf({ ...tiles.look, range: tiles.range }).flat();
  const paint = { [COLOUR]: ["interpolate", ["linear"], ["elevation"], ...stops] };
  return [{ id: "tints", type: "color-relief", source: "shaded", paint }];
}

/** Return the source of what the map shows, or null if it is no image in Web Mercator. */
function drape({ layer, choice, options }) {
  const { source, set, look } = choice;
  if (look.draws !== "image" || source.type !== "tiles" || set.crs !== "EPSG:3857" || !set.hasZooms) return null;
  const plan = planOf(layer, choice, options);
  const first = Number(plan.matrices[0].id);
  return {
    type: "raster",
    tiles: [served("draped", (z, ...place) => plan.exists(z - first, ...place), (z, ...place) => plan.url(z - first, ...place))],
    tileSize: set.matrices[0].tileWidth,
    minzoom: first,
    maxzoom: first + plan.matrices.length - 1,
    bounds: layer.geographicBbox,
  };
}

/**
 * Return the template of tiles that are only requested if they exist.
 *
 * @param exists function of (level, row, column) that returns whether a tile exists, or a promise
 * @param url function of (level, row, column)
 */
function served(name, exists, url) {
  maplibre.addProtocol(name, async ({ url: address }, { signal }) => {
    const place = address.split("/").slice(2).map(Number);
    const data = (await exists(...place)) ? await fetchTile(url(...place), signal) : null;
    // With this status, the map shows a coarser tile instead.
    if (!data) throw Object.assign(new Error("the tile is not stored"), { status: 404 });
    return { data };
  });
  return `${name}://{z}/{y}/{x}`;
}
