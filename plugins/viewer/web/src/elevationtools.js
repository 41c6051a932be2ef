// Tools for elevations: colours and light, histogram, contours, profile, statistics and 3D.

import { ask } from "./heights.js";
import { byId, element, fillSelect, say } from "./dom.js";
import { contourLayer } from "./contours.js";
import { drawGeometry, removeDrawing } from "./sketch.js";
import { PALETTES, USUAL, rangeOf } from "./relief.js";
import { number, t } from "./texts.js";

const BINS = 60;
const SLIDERS = ["azimuth", "altitude", "exaggeration", "shade"];
const SETTINGS = ["palette", ...SLIDERS, "lowest", "highest"];

export class ElevationTools {
  /** @param page with the current layer, choice, tiles and view */
  constructor(page) {
    this.page = page;
    this.lines = null;
    fillSelect(byId("palette"), PALETTES.map((name) => [name, t(`palette-${name}`)]), USUAL.palette);
    this.usual = Object.fromEntries(SETTINGS.map((name) => [name, byId(name).value]));
    for (const name of SETTINGS) {
      byId(name).addEventListener("input", () => {
        this.apply();
        page.write();
      });
    }
    byId("contours").addEventListener("change", () => this.showContours());
    byId("profile").addEventListener("click", () => this.measure("LineString", showProfile));
    byId("statistics").addEventListener("click", () => this.measure("Polygon", showStatistics));
    byId("three").addEventListener("click", () => this.showTerrain());
  }

  /** Take the settings of a shared link; those that are missing or invalid are the usual ones. */
  follow(values) {
    for (const name of SETTINGS) {
      byId(name).value = values[name] ?? this.usual[name];
      if (byId(name).selectedIndex === -1) byId(name).value = this.usual[name];
    }
  }

  /** Settings that differ from the usual ones. */
  get values() {
    const changed = SETTINGS.map((name) => [name, byId(name).value]).filter(([name, value]) => value !== this.usual[name]);
    return this.page.tiles?.setLook ? Object.fromEntries(changed) : {};
  }

  /** Show the tools that fit the layer of the page. */
  update() {
    const { layer, tiles } = this.page;
    byId("relief-tools").hidden = !tiles?.setLook;
    byId("measure-tools").hidden = !layer.elevation;
    byId("contours-field").hidden = !layer.terrain;
    byId("three").hidden = !this.terrain();
    byId("elevation-section").hidden = !tiles?.setLook && !layer.elevation && !this.terrain();
    if (tiles?.setLook) this.apply();
  }

  /** Return the layer, or another one if it has no heights; null if there are none. */
  terrain() {
    const { layer, layers } = this.page;
    return [layer, ...layers].find(({ terrain }) => terrain) ?? null;
  }

  apply() {
    const look = { palette: byId("palette").value };
    for (const name of SLIDERS) look[name] = Number(byId(name).value);
    const range = ["lowest", "highest"].map((name) => byId(name).valueAsNumber);
    look.range = range.every(Number.isFinite) && range[0] < range[1] ? range : null;
    this.page.tiles.setLook?.(look);
    this.page.view.changed();
  }

  /** Draw how often each height occurs in the view. */
  showHistogram() {
    const { tiles, view } = this.page;
    if (!tiles?.valuesIn || byId("elevation-section").hidden) return;
    const values = tiles.valuesIn(view.box, view.crs, view.cellSize);
    const range = rangeOf(values);
    byId("histogram").hidden = !range;
    if (!range) return;
    const [low, high] = range;
    const counts = new Array(BINS).fill(0);
    for (const row of values) {
      for (const value of row) {
        if (value >= low) counts[Math.min(BINS - 1, Math.floor(((value - low) / (high - low || 1)) * BINS))] += 1;
      }
    }
    const canvas = byId("histogram-bars");
    const context = canvas.getContext("2d");
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.fillStyle = getComputedStyle(canvas).color;
    const most = Math.max(...counts);
    const width = canvas.width / BINS;
    counts.forEach((count, at) => {
      const height = (count / most) * canvas.height;
      context.fillRect(at * width, canvas.height - height, width - 1, height);
    });
    byId("histogram-ends").replaceChildren(...range.map((value) => element("span", { textContent: `${number(value)} m` })));
  }

  async showContours() {
    const { layer, view } = this.page;
    if (this.lines) view.map.removeLayer(this.lines);
    this.lines = byId("contours").checked && layer.terrain ? await contourLayer(layer.terrain) : null;
    if (this.lines) view.map.addLayer(this.lines);
    view.changed();
  }

  /** Let the user draw a geometry, and show what the service knows about it. */
  async measure(kind, show) {
    const { layer, view } = this.page;
    say(t(kind === "Polygon" ? "draw-area" : "draw-line"));
    const geometry = await drawGeometry(view, kind);
    say("");
    if (!geometry) return;
    byId("result").hidden = false;
    byId("result-body").replaceChildren(t("loading"));
    try {
      await show(layer, geometry, byId("result-body"));
    } catch (error) {
      byId("result-body").replaceChildren(t("failed", { message: error.message }));
    }
    byId("close-result").onclick = () => {
      byId("result").hidden = true;
      removeDrawing(view);
    };
  }

  async showTerrain() {
    const { openTerrain } = await import("./terrain.js");
    await openTerrain(this.page, this.terrain());
  }
}

async function showProfile(layer, geometry, body) {
  const answer = await ask(layer, "profile", geometry);
  const { profileChart } = await import("./profile.js");
  profileChart(answer, body, layer.id);
}

async function showStatistics(layer, geometry, body) {
  const { statistics } = await ask(layer, "statistics", geometry);
  if (!statistics?.count && !statistics?.mean) {
    body.replaceChildren(t("no-heights"));
    return;
  }
  const rows = [];
  for (const [name, value] of Object.entries(statistics)) {
    const shown = value !== null && typeof value === "object" ? (value.elevation ?? value.value) : value;
    if (typeof shown !== "number") continue;
    rows.push(element("dt", { textContent: name }), element("dd", { textContent: number(shown, 2) }));
  }
  body.replaceChildren(element("dl", { className: "facts" }, ...rows));
}
