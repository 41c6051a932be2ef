// The terrain in 3D, with what the map shows draped over it.

import * as maplibre from "maplibre-gl";
import { byId, fetchJson, say } from "./dom.js";
import { fetchTile } from "./fetching.js";
import { exists, isWithin, planOf } from "./plans.js";
import { hasZooms } from "./requests.js";
import { toDegrees } from "./projections.js";
import { fetchLayer } from "./site.js";
import { t } from "./texts.js";

const { base } = document.body.dataset;

/** Show the terrain of a layer over the map, until it is closed. */
export async function openTerrain(page, { id, terrain }) {
  const { view } = page;
  const [heights, ground] = await Promise.all([fetchJson(`${terrain}/terrarium.json`), fetchLayer(id)]);
  maplibre.setWorkerUrl(new URL(`${base}/static/maplibre-worker.js`, location.href).href);
  byId("terrain").hidden = false;
  const draped = drape(page);
  const sources = { heights: { type: "raster-dem", ...picked(heights, ground.sets[0]), encoding: "terrarium" } };
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
function picked({ tiles, minzoom, maxzoom, bounds, tileSize }, set) {
  // Levels that are not stored are made from others.
  const limits = set.crs === "EPSG:3857" && hasZooms(set) ? set.limits : {};
  const isThere = (level, row, col) => !limits[level] || isWithin(limits[level], row, col);
  const url = (level, row, col) => tiles[0].replace("{z}", level).replace("{y}", row).replace("{x}", col);
  return { tiles: [served("heights", isThere, url)], minzoom, maxzoom, bounds, tileSize };
}

/** Return the source of what the map shows, or null if it is no image in Web Mercator. */
function drape(page) {
  const { layer, choice } = page;
  const { source, set, look } = choice;
  if (look.draws !== "image" || source.type !== "tiles" || set.crs !== "EPSG:3857" || !hasZooms(set)) return null;
  const plan = planOf(layer, choice, page.options());
  const levels = plan.matrices.map(({ id }) => Number(id));
  const matrix = (level) => plan.matrices.find(({ id }) => id === level);
  const isThere = (level, row, col) => matrix(level) && exists(plan, matrix(level), row, col);
  const url = (level, row, col) => plan.url(matrix(level), row, col);
  return {
    type: "raster",
    tiles: [served("draped", isThere, url)],
    tileSize: set.matrices[0].tileWidth,
    minzoom: Math.min(...levels),
    maxzoom: Math.max(...levels),
    bounds: layer.geographicBbox,
  };
}

/**
 * Return the template of tiles that are only requested if they exist.
 *
 * @param isThere function of (level, row, column) that returns whether a tile exists, or a promise
 * @param url function of (level, row, column)
 */
function served(name, isThere, url) {
  maplibre.addProtocol(name, async ({ url: address }, { signal }) => {
    const [level, row, col] = address.split("/").slice(2);
    const place = [level, Number(row), Number(col)];
    const data = (await isThere(...place)) ? await fetchTile(url(...place), signal) : null;
    // With this status, the map shows a coarser tile instead.
    if (!data) throw Object.assign(new Error("the tile is not stored"), { status: 404 });
    return { data };
  });
  return `${name}://{z}/{y}/{x}`;
}
