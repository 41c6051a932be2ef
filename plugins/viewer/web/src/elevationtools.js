// Tools for elevations: colours and light, histogram, contours, profile, statistics and 3D.

import { Contours } from "./contours.js";
import { byId, render, say } from "./dom.js";
import { askHeights } from "./fetching.js";
import { showHistogram } from "./legend.js";
import { resolutionFor } from "./levels.js";
import { USUAL, rangeOf } from "./relief.js";
import { drawGeometry, removeDrawing } from "./sketch.js";
import { showStatistics } from "./statistics.js";
import { t } from "./texts.js";

export class ElevationTools {
  /**
   * @param page with the current layer, tiles and view
   * @param layers all layers: if that of the page has no heights, the terrain is that of another one
   */
  constructor(page, layers) {
    this.page = page;
    this.ground = [page.layer, ...layers].find(({ terrain }) => terrain);
    byId("contours").addEventListener("click", () => this.showContours(!this.lines));
    byId("profile").addEventListener("click", () => this.measure("LineString", "draw-line", profile));
    byId("statistics").addEventListener("click", () => this.measure("Polygon", "draw-area", statistics));
    byId("three").addEventListener("click", () => this.showTerrain());
  }

  /** Show the tools that fit the tiles of the page. */
  update() {
    byId("elevation-section").hidden = !this.page.tiles.setLook;
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

  /** What is shown, for the URL. */
  get state() {
    return { contours: this.lines ? true : undefined, three: this.terrain?.state };
  }

  /** Show what the URL describes. */
  follow({ contours, three }) {
    if (Boolean(contours) !== Boolean(this.lines)) this.showContours(Boolean(contours));
    if (three && !this.terrain) this.showTerrain(three);
    else if (!three) this.terrain?.close();
  }

  async showContours(isShown) {
    const { layer, view } = this.page;
    byId("contours").setAttribute("aria-pressed", isShown);
    if (this.lines) view.map.removeLayer(this.lines.drawn);
    this.lines = isShown && layer.terrain ? await Contours.of(layer) : null;
    if (this.lines) view.map.addLayer(this.lines.drawn);
    this.limitContours();
    view.changed();
    this.page.write();
  }

  /** Draw contours where they are not too many, and say so elsewhere. */
  limitContours() {
    const { view } = this.page;
    const farthest = this.lines?.limit(view) ?? Infinity;
    if (this.isTooFar) say("");
    this.isTooFar = view.cellSize > farthest;
    const zoom = () => view.map.getView().animate({ resolution: farthest * 0.99, duration: 250 });
    if (this.isTooFar) say(t("contours-zoom"), { label: t("zoom-in"), run: zoom });
  }

  /** Show the terrain in 3D: see terrain.js. */
  async showTerrain(state) {
    if (!this.ground) return;
    this.terrain = { state };
    const { openTerrain } = await import("./terrain.js");
    this.terrain = await openTerrain(this.page, this.ground, state, () => {
      this.terrain = null;
    });
    this.page.write();
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
      byId("map").focus({ preventScroll: true });
    };
    render(t("loading"), body);
    await show(layer, geometry, body).catch((error) => render(t("failed", { message: error.message }), body));
  }
}

/** Return what a request about a geometry says about the level that answers. */
function levelFor({ sets: [set] }, geometry) {
  const resolution = resolutionFor(set, geometry);
  return resolution ? { resolution } : {};
}

async function profile(layer, geometry, body) {
  const answer = await askHeights(layer, "profile", geometry, levelFor(layer, geometry));
  const { profileChart } = await import("./profile.js");
  if (answer.results.some(({ elevation }) => elevation !== null)) profileChart(answer, body, layer.id);
  else render(t("no-heights"), body);
}

async function statistics(layer, geometry, body) {
  const answer = await askHeights(layer, "statistics", geometry, levelFor(layer, geometry));
  if (answer.statistics?.mean === undefined) render(t("no-heights"), body);
  else showStatistics(answer.statistics, body);
}
