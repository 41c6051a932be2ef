// Tools for elevations: colours and light, histogram, contours, profile, statistics and 3D.

import MVT from "ol/format/MVT.js";
import VectorTileLayer from "ol/layer/VectorTile.js";
import VectorTileSource from "ol/source/VectorTile.js";
import { createXYZ } from "ol/tilegrid.js";
import { byId, html, render, say } from "./dom.js";
import { askHeights, fetchJson } from "./fetching.js";
import { showHistogram } from "./legend.js";
import { boxIn } from "./projections.js";
import { USUAL, rangeOf } from "./relief.js";
import { drawGeometry, removeDrawing } from "./sketch.js";
import { number, t } from "./texts.js";

export class ElevationTools {
  /**
   * @param page with the current layer, tiles and view
   * @param layers all layers: if that of the page has no heights, the terrain is that of another one
   */
  constructor(page, layers) {
    this.page = page;
    this.ground = [page.layer, ...layers].find(({ terrain }) => terrain);
    byId("contours").addEventListener("change", ({ target }) => this.showContours(target.checked));
    byId("profile").addEventListener("click", () => this.measure("LineString", "draw-line", showProfile));
    byId("statistics").addEventListener("click", () => this.measure("Polygon", "draw-area", showStatistics));
    byId("three").addEventListener("click", async () => {
      const { openTerrain } = await import("./terrain.js");
      await openTerrain(page, this.ground);
    });
  }

  /** Show the tools that fit the tiles of the page. */
  update() {
    const { layer, tiles } = this.page;
    byId("relief-tools").hidden = !tiles.setLook;
    byId("elevation-section").hidden = !tiles.setLook && !layer.elevation && !this.ground;
  }

  /** What is set: see relief.js. */
  get look() {
    const names = Object.keys(USUAL).filter((name) => name !== "range");
    const values = names.map((name) => [name, byId(name).type === "range" ? byId(name).valueAsNumber : byId(name).value]);
    const range = ["lowest", "highest"].map((name) => byId(name).valueAsNumber);
    return { ...Object.fromEntries(values), range: range[0] < range[1] ? range : null };
  }

  /** Draw how often each height occurs in the view. */
  showHistogram() {
    const { tiles, view } = this.page;
    const values = tiles?.valuesIn?.(view) ?? [];
    const range = rangeOf(values);
    byId("histogram").hidden = !range;
    if (range) showHistogram(byId("histogram-bars"), values, range);
  }

  async showContours(isShown) {
    const { layer, view } = this.page;
    if (this.lines) view.map.removeLayer(this.lines);
    this.lines = isShown ? await contourLayer(layer.terrain) : null;
    if (this.lines) view.map.addLayer(this.lines);
    view.changed();
  }

  /** Let the user draw a geometry, and show what the service knows about it. */
  async measure(kind, instruction, show) {
    const { layer, view } = this.page;
    const body = byId("result-body");
    say(t(instruction));
    const geometry = await drawGeometry(view, kind);
    say("");
    if (!geometry) return;
    byId("result").hidden = false;
    byId("close-result").onclick = () => {
      byId("result").hidden = true;
      removeDrawing(view);
    };
    render(t("loading"), body);
    await show(layer, geometry, body).catch((error) => render(t("failed", { message: error.message }), body));
  }
}

/** Return the layer of the contour lines of the terrain service for a dataset. */
async function contourLayer(terrain) {
  const { tiles, minzoom, maxzoom, bounds } = await fetchJson(`${terrain}/contours.json`);
  const tileGrid = createXYZ({ minZoom: minzoom, maxZoom: maxzoom });
  return new VectorTileLayer({
    source: new VectorTileSource({ format: new MVT(), urls: tiles, tileGrid, wrapX: false }),
    extent: boxIn(bounds, "CRS:84", "EPSG:3857"),
    zIndex: 4,
    style: { "stroke-color": "#784f28b3", "stroke-width": 0.8 },
  });
}

async function showProfile(layer, geometry, body) {
  const answer = await askHeights(layer, "profile", geometry);
  const { profileChart } = await import("./profile.js");
  if (answer.results.some(({ elevation }) => elevation !== null)) profileChart(answer, body, layer.id);
  else render(t("no-heights"), body);
}

async function showStatistics(layer, geometry, body) {
  const { statistics } = await askHeights(layer, "statistics", geometry);
  const values = Object.entries(statistics ?? {}).map(([name, value]) => [name, value?.elevation ?? value?.value ?? value]);
  const rows = values.filter(([, value]) => typeof value === "number");
  const shown = rows.map(([name, value]) => html`<dt>${name}</dt><dd>${number(value, 2)}</dd>`);
  const isEmpty = !statistics?.count && !statistics?.mean;
  render(isEmpty ? t("no-heights") : html`<dl class="facts">${shown}</dl>`, body);
}
