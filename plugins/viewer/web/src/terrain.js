// The terrain in 3D, with what the map shows draped over it.

import * as maplibre from "maplibre-gl";
import { byId, fetchJson, say } from "./dom.js";
import { hasZooms } from "./requests.js";
import { toDegrees } from "./projections.js";
import { t } from "./texts.js";

const { base } = document.body.dataset;

/** Show the terrain of a dataset over the map, until it is closed. */
export async function openTerrain({ layer, choice, view }, terrain) {
  const heights = await fetchJson(`${terrain}/terrarium.json`);
  maplibre.setWorkerUrl(new URL(`${base}/static/maplibre-worker.js`, location.href).href);
  byId("terrain").hidden = false;
  const draped = drape(layer, choice);
  const sources = { heights: { type: "raster-dem", ...picked(heights), encoding: "terrarium" } };
  const layers = [{ id: "ground", type: "background", paint: { "background-color": "#dfe3dc" } }];
  if (draped) {
    sources.draped = draped;
    layers.push({ id: "draped", type: "raster", source: "draped" });
  } else {
    sources.shaded = { ...sources.heights };
    layers.push({ id: "shaded", type: "hillshade", source: "shaded" });
  }
  const [longitude, latitude] = toDegrees([view.view.x, view.view.y], view.crs);
  const metres = view.cellSize * view.map.getView().getProjection().getMetersPerUnit();
  const map = new maplibre.Map({
    container: "terrain-map",
    style: { version: 8, sources, layers, terrain: { source: "heights", exaggeration: 1.3 } },
    center: [longitude, latitude],
    zoom: Math.log2(78271.517 / metres),
    pitch: 55,
    maxPitch: 80,
    attributionControl: false,
    canvasContextAttributes: { preserveDrawingBuffer: true },
  });
  map.on("idle", () => byId("terrain-map").setAttribute("aria-busy", false));
  map.on("error", ({ error }) => say(t("failed", { message: error.message })));
  byId("terrain-exaggeration").oninput = ({ target }) => {
    map.setTerrain({ source: "heights", exaggeration: Number(target.value) });
  };
  byId("close-terrain").onclick = () => {
    map.remove();
    byId("terrain").hidden = true;
    byId("three").focus();
  };
  byId("close-terrain").focus();
}

/** Return the parts of a TileJSON document that a source takes. */
function picked({ tiles, minzoom, maxzoom, bounds, attribution }) {
  return { tiles, minzoom, maxzoom, bounds, attribution, tileSize: 256 };
}

/** Return the source of what the map shows, or null if it is no image in Web Mercator. */
function drape(layer, { source, set, look }) {
  if (look.draws !== "image" || source.type !== "tiles" || set.crs !== "EPSG:3857" || !hasZooms(set)) return null;
  const levels = Object.keys(set.limits).map(Number);
  const template = look.template
    .replace("{TileMatrixSet}", encodeURIComponent(source.sets[set.id]))
    .replace("{TileMatrix}", "{z}")
    .replace("{TileCol}", "{x}")
    .replace("{TileRow}", "{y}");
  return {
    type: "raster",
    tiles: [template],
    tileSize: set.matrices[0].tileWidth,
    scheme: source.fromBottom ? "tms" : "xyz",
    minzoom: Math.min(...levels),
    maxzoom: Math.max(...levels),
    bounds: layer.geographicBbox,
  };
}
