// The page: chooses layers from the list and shows them on the map.

/* global L */

import { element, showDetails, showFeatures, showRange } from "./details.js";
import { ElevationTiles } from "./elevation.js";
import { gridCrs, zoomOf } from "./grid.js";
import { ImageTiles } from "./image.js";
import { TiffTiles } from "./raster.js";
import { showReadout } from "./readout.js";
import { VectorTiles } from "./vector.js";

const KINDS = { image: ImageTiles, tiff: TiffTiles, elevation: ElevationTiles, vector: VectorTiles };
const byId = (id) => document.getElementById(id);

const state = {
  layers: new Map(),
  sets: {},
  chosen: null,
  map: null,
  /** Leaflet layers on the map by identifier, the chosen one first. */
  shown: new Map(),
};

async function start() {
  const response = await fetch(document.body.dataset.layers);
  if (!response.ok) throw new Error(`${response.status} ${response.statusText}`);
  const content = await response.json();
  state.sets = content.tileMatrixSets;
  for (const layer of content.layers) state.layers.set(layer.id, layer);
  bindList();
  bindDetails();
  window.addEventListener("hashchange", followHash);
  if (!followHash()) {
    const first = content.layers.find(isShowable) ?? content.layers[0];
    if (first) choose(first.id);
    else say("No layer is published.");
  }
}

function isShowable(layer) {
  return layer.tiles !== null;
}

function items() {
  return [...byId("layers").querySelectorAll("li")];
}

function bindList() {
  for (const item of items()) {
    const { layer } = item.dataset;
    item.querySelector(".choose").addEventListener("click", () => choose(layer));
    item.querySelector(".stack").addEventListener("click", () => stack(layer));
  }
  byId("search").addEventListener("input", (event) => {
    const words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
    let found = 0;
    for (const item of items()) {
      const text = `${item.dataset.layer} ${item.textContent}`.toLowerCase();
      item.hidden = !words.every((word) => text.includes(word));
      if (!item.hidden) found += 1;
    }
    byId("empty").hidden = found > 0;
  });
}

function bindDetails() {
  byId("opacity").addEventListener("input", (event) => {
    state.shown.get(state.chosen)?.setOpacity(event.target.value / 100);
    byId("opacity-value").textContent = `${event.target.value} %`;
  });
  byId("details-toggle").addEventListener("click", () => unfold(byId("details-body").hidden));
  // On a small screen the panel would hide the map.
  unfold(!window.matchMedia("(max-width: 760px)").matches);
}

function unfold(open) {
  byId("details-body").hidden = !open;
  byId("details-toggle").setAttribute("aria-expanded", String(open));
}

function say(text) {
  byId("notice").textContent = text;
  byId("notice").hidden = !text;
}

/** Show one layer alone, at its extent or in the view given as [zoom, x, y]. */
function choose(id, view = null) {
  const layer = state.layers.get(id);
  const set = state.sets[layer.tileMatrixSet];
  state.chosen = id;
  showFeatures([]);
  showDetails(layer, set);
  openMap(layer, set, view);
  byId("opacity").value = 100;
  byId("opacity-value").textContent = "100 %";
  if (isShowable(layer)) {
    say("");
    add(layer);
  } else {
    say("No service of this server gives tiles of this layer.");
  }
  updateList();
}

/** Put a layer of the same grid over the one shown, or take it away. */
function stack(id) {
  const shown = state.shown.get(id);
  if (shown) {
    shown.remove();
    state.shown.delete(id);
  } else {
    add(state.layers.get(id));
  }
  updateList();
}

function add(layer) {
  const set = state.sets[layer.tileMatrixSet];
  const tiles = new KINDS[layer.kind](layer, set, {
    attribution: attribution(layer),
    zIndex: state.shown.size + 1,
  });
  if (layer.kind === "elevation") {
    tiles.on("rangechange", () => {
      if (state.chosen === layer.id) showRange(tiles.range);
    });
  }
  state.shown.set(layer.id, tiles);
  tiles.addTo(state.map);
}

/** Return the attribution as HTML, which Leaflet wants. */
function attribution(layer) {
  if (!layer.attribution) return undefined;
  const { title, url } = layer.attribution;
  if (!/^https?:/i.test(url)) return element("span", { textContent: title }).outerHTML;
  return element("a", { textContent: title, href: url, rel: "noopener" }).outerHTML;
}

function updateList() {
  const chosen = state.layers.get(state.chosen);
  for (const item of items()) {
    const layer = state.layers.get(item.dataset.layer);
    const isChosen = layer === chosen;
    item.querySelector(".choose").setAttribute("aria-pressed", String(isChosen));
    const button = item.querySelector(".stack");
    button.hidden = isChosen || !isShowable(layer) || layer.tileMatrixSet !== chosen.tileMatrixSet;
    button.setAttribute("aria-pressed", String(state.shown.has(layer.id)));
    if (isChosen) item.scrollIntoView({ block: "nearest" });
  }
}

function openMap(layer, set, view) {
  state.map?.remove();
  state.shown.clear();
  const zooms = set.matrices.flatMap((matrix, zoom) => (matrix.id in layer.levels ? [zoom] : []));
  const [top, bottom] = [zooms[0], zooms[zooms.length - 1]];
  const map = L.map("map", {
    crs: gridCrs(set),
    minZoom: top - 2,
    maxZoom: bottom + 3,
    attributionControl: false,
    zoomControl: false,
  });
  state.map = map;
  L.control.zoom({ position: "topleft" }).addTo(map);
  L.control.attribution({ prefix: false }).addTo(map);
  const [west, south, east, north] = layer.nativeBbox;
  const bounds = L.latLngBounds([south, west], [north, east]);
  if (view) {
    map.setView([view[2], view[1]], view[0]);
  } else {
    const covered = coveredWidth(map);
    const room = map.getSize().subtract([covered, 0]);
    map.setView(bounds.getCenter(), startZoom(set, bounds, room, top, bottom));
    map.panBy([covered / 2, 0], { animate: false });
  }
  L.rectangle(bounds, { className: "extent", fill: false, weight: 1, dashArray: "4 4", interactive: false }).addTo(map);
  map.on("moveend", writeHash);
  map.on("click", (event) => showFeatures(featuresAt(event.latlng)));
  showReadout(map, set, byId("readout"), elevationAt);
  writeHash();
}

/** Return how much of the map the panel at its right covers. */
function coveredWidth(map) {
  const panel = byId("details");
  const width = map.getSize().x;
  const covered = panel.hidden || byId("details-body").hidden ? 0 : panel.offsetWidth + 24;
  return covered < width / 2 ? covered : 0;
}

/** Return the zoom at which a box fits into the room, among those that the layer has tiles for. */
function startZoom(set, bounds, room, top, bottom) {
  const width = bounds.getEast() - bounds.getWest();
  const height = bounds.getNorth() - bounds.getSouth();
  const fitting = zoomOf(set, Math.max(width / room.x, height / room.y) * 1.05);
  return Math.min(bottom, Math.max(top, Math.floor(fitting + 1e-6)));
}

function elevationAt(latlng) {
  for (const tiles of [...state.shown.values()].reverse()) {
    const value = tiles.valueAt?.(latlng) ?? null;
    if (value !== null) return value;
  }
  return null;
}

function featuresAt(latlng) {
  return [...state.shown.values()].reverse().flatMap((tiles) => tiles.featuresAt?.(latlng) ?? []);
}

// The address of the page says what it shows: #layer/zoom/x/y

function writeHash() {
  const { lat: y, lng: x } = state.map.getCenter();
  const digits = state.sets[state.layers.get(state.chosen).tileMatrixSet].geographic ? 6 : 1;
  const place = [state.map.getZoom(), x.toFixed(digits), y.toFixed(digits)].join("/");
  history.replaceState(null, "", `#${encodeURIComponent(state.chosen)}/${place}`);
}

function followHash() {
  const [id, ...numbers] = location.hash.slice(1).split("/");
  let name;
  try {
    name = decodeURIComponent(id);
  } catch {
    return false;
  }
  if (!state.layers.has(name)) return false;
  const view = numbers.map(Number);
  choose(name, view.length === 3 && view.every(Number.isFinite) ? view : null);
  return true;
}

start().catch((error) => say(`The list of layers cannot be read: ${error.message}`));
