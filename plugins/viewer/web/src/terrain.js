// The terrain in 3D, with what the map shows draped over it.

import * as maplibre from "maplibre-gl";
import { transform } from "ol/proj.js";
import { byId, say } from "./dom.js";
import { fetchJson, fetchTile } from "./fetching.js";
import { fill, isWithin, planOf } from "./plans.js";
import { base, fetchLayer } from "./site.js";
import { t } from "./texts.js";

/** Metres per pixel of zoom 0 at the equator. */
const WIDEST = 78271.517;

/** Show the terrain of a layer over the map, until it is closed. */
export async function openTerrain(page, { id, terrain }) {
  const { view } = page;
  const [heights, ground] = await Promise.all([fetchJson(`${terrain}/terrarium.json`), fetchLayer(id)]);
  maplibre.setWorkerUrl(new URL(`${base}/static/maplibre-worker.js`, location.href).href);
  byId("terrain").hidden = false;
  const draped = drape(page);
  const dem = { type: "raster-dem", encoding: "terrarium", ...picked(heights, ground.sets[0]) };
  const sources = { heights: dem, ...(draped ? { draped } : { shaded: dem }) };
  const layers = [
    { id: "ground", type: "background", paint: { "background-color": "#dfe3dc" } },
    draped ? { id: "draped", type: "raster", source: "draped" } : { id: "shaded", type: "hillshade", source: "shaded" },
  ];
  const metres = view.cellSize * view.map.getView().getProjection().getMetersPerUnit();
  const map = new maplibre.Map({
    container: "terrain-map",
    style: { version: 8, sources, layers, terrain: { source: "heights", exaggeration: 1.3 } },
    center: transform([view.view.x, view.view.y], view.crs, "CRS:84"),
    zoom: Math.log2(WIDEST / metres),
    pitch: 55,
    maxPitch: 80,
    attributionControl: false,
    canvasContextAttributes: { preserveDrawingBuffer: true },
  });
  map.on("idle", () => byId("terrain-map").setAttribute("aria-busy", false));
  map.on("error", ({ error }) => say(t("failed", { message: error.message })));
  byId("terrain-exaggeration").oninput = ({ target }) => {
    map.setTerrain({ source: "heights", exaggeration: target.valueAsNumber });
  };
  byId("close-terrain").onclick = () => {
    map.remove();
    byId("terrain").hidden = true;
    byId("three").focus();
  };
  byId("close-terrain").focus();
}

/** Return the parts of a TileJSON document that a source takes. */
function picked({ tiles: [template], minzoom, maxzoom, bounds, tileSize }, set) {
  // Levels that are not stored are made from others.
  const limits = set.crs === "EPSG:3857" && set.hasZooms ? set.limits : {};
  const exists = (z, y, x) => !limits[z] || isWithin(limits[z], y, x);
  return { tiles: [served("heights", exists, (z, y, x) => fill(template, { z, y, x }))], minzoom, maxzoom, bounds, tileSize };
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
