// The page of one layer.

import "../styles/viewer.css";
import "../styles/map.css";
import "../styles/layer.css";
import { showAttribution } from "../attribution.js";
import { formatsOf, isOffered, namesOf, nearest, sourcesOf, styleOptions } from "../choice.js";
import { showBasemap } from "../basemap.js";
import { bindSkipLink, byId, fillSelect, say } from "../dom.js";
import { draw } from "../drawing.js";
import { ElevationTools } from "../elevationtools.js";
import { askElevation, askFeatures, infoSource } from "../featureinfo.js";
import { goTo } from "../goto.js";
import { showFeatures } from "../identified.js";
import { showLegend, showRange } from "../legend.js";
import { levelsOf, nearestMatrix } from "../levels.js";
import { MapView } from "../mapview.js";
import { Overlays } from "../overlays.js";
import { boxIn, cellIn, learn, moved } from "../projections.js";
import { showReadout } from "../readout.js";
import { requestGroups } from "../requests.js";
import { RequestList } from "../requestlist.js";
import { comparePage, fetchLayer, layerPage, pageData } from "../site.js";
import { bindTaking, showSnippets } from "../snippets.js";
import { isDrawing } from "../sketch.js";
import { t } from "../texts.js";
import { fragment, readState, writeState } from "../viewstate.js";

class LayerPage {
  constructor({ layer, layers, basemap }) {
    this.layers = layers;
    this.layer = layer;
    this.choice = null;
    this.tiles = null;
    this.format = null;
    this.question = new AbortController();
    this.view = new MapView();
    this.requests = new RequestList(byId("requests"));
    this.overlays = new Overlays(this.view, layers, () => this.overlaysChanged());
    this.updateReadout = showReadout(
      this.view,
      byId("readout"),
      (place) => this.elevationAt(place),
      () => nearestMatrix(levelsOf(this.set), this.cellSize).id,
    );
    this.bind(basemap);
  }

  bind(basemap) {
    byId("layer").addEventListener("change", ({ target }) => this.switchTo(target.value));
    for (const name of ["source", "set", "style"]) {
      byId(name).addEventListener("change", ({ target }) => this.change(name, target.value));
    }
    byId("crs").addEventListener("change", ({ target }) => this.project(target.value));
    byId("format").addEventListener("change", ({ target }) => {
      this.format = target.value;
      this.redraw();
    });
    byId("transparent").addEventListener("change", () => this.redraw());
    byId("opacity").addEventListener("input", () => this.fade());
    byId("compare").addEventListener("change", () => this.followCompare());
    const { view } = this;
    view.addButton("zoom-to-layer", t("zoom-to-layer"), () => view.zoomTo(view.home));
    const lines = view.addButton("graticule", t("graticule"), () => {
      lines.setAttribute("aria-pressed", view.toggleGraticule());
    });
    lines.setAttribute("aria-pressed", false);
    view.map.on("moveend", () => this.moved());
    view.map.on("singleclick", ({ coordinate, pixel }) => this.identify(coordinate, pixel));
    view.map.on("rendercomplete", () => this.complete());
    goTo(view);
    bindTaking(this);
    this.tools = new ElevationTools(this);
    this.basemap = showBasemap(view, basemap, () => this.overlaysChanged());
    window.addEventListener("hashchange", () => this.follow());
  }

  start() {
    const { id } = this.layer;
    learn(this.layer);
    const options = this.layers.map(({ id: other, title }) => [other, title]);
    fillSelect(byId("layer"), options, id);
    const others = this.layers.filter((other) => other.id !== id);
    fillSelect(byId("compare"), options.map(([key, title]) => [key, key === id ? t("itself", { title }) : title]), others[0]?.id ?? id);
    byId("compare-field").hidden = false;
    showSnippets(this.layer);
    this.follow();
  }

  /** Show another layer at the same view. */
  async switchTo(id) {
    const { crs, box, view } = this.view;
    const next = await fetchLayer(id);
    learn(next);
    const target = nearest(next, {})?.set.crs ?? next.sets[0].crs;
    const [x, y] = moved([view.x, view.y], crs, target);
    const isThere = [x, y, ...box].every(Number.isFinite);
    const place = { x, y, cellSize: cellIn(view.cellSize, crs, target) };
    location.assign(layerPage(id) + (isThere ? fragment(place) : ""));
  }

  /** Show the state described by the URL fragment. */
  follow() {
    const { view, values } = readState();
    const style = values.style === "" ? null : values.style;
    const choice = nearest(this.layer, { source: values.source, set: values.set, style });
    byId("transparent").checked = values.transparent !== "false";
    byId("opacity").value = values.opacity ?? 100;
    this.format = values.format ?? null;
    this.tools.follow(values);
    this.choice = choice;
    const crs = Object.hasOwn(this.layer.projections, values.crs ?? "") ? values.crs : this.set.crs;
    this.open(crs, view);
    for (const id of (values.over ?? "").split(",").filter(Boolean)) {
      this.overlays.add(decodeURIComponent(id));
    }
  }

  change(name, value) {
    const before = this.choice;
    const wanted = { ...namesOf(before), [name]: value === "" ? null : value };
    this.choice = nearest(this.layer, wanted, name);
    this.showConsequences(before, name);
    const { set } = this.choice;
    if (set === before.set) this.redraw();
    else if (this.view.crs === before.set.crs && before.set.crs !== set.crs) this.project(set.crs);
    else this.open(this.view.crs, this.view.view);
  }

  /** Show the map in another CRS at the same place. */
  project(crs) {
    const { view, crs: before } = this.view;
    const [x, y] = moved([view.x, view.y], before, crs);
    const isThere = [x, y].every(Number.isFinite);
    this.open(crs, isThere ? { x, y, cellSize: cellIn(view.cellSize, before, crs) } : null);
  }

  /** Show which other parts of the choice changed: a new style, for example, may need another source. */
  showConsequences(before, changed) {
    const { source, set, look } = this.choice;
    const changes = [];
    if (changed !== "source" && source !== before.source) changes.push(t("shown-by", { source: source.title }));
    if (changed !== "set" && set !== before.set) changes.push(t("in-set", { set: set.id }));
    if (changed === "source" && look.style !== before.look.style) {
      changes.push(look.style === null ? t("stored-data") : t("style-id", { id: look.style }));
    }
    const text = changes.join(", ");
    byId("hint").textContent = text && `${text[0].toUpperCase()}${text.slice(1)}`;
  }

  get set() {
    return this.choice?.set ?? this.layer.sets[0];
  }

  /** Size of a cell of the view, in the CRS of the set. */
  get cellSize() {
    return cellIn(this.view.cellSize, this.view.crs, this.set.crs);
  }

  open(crs, view) {
    const { set } = this;
    this.view.show(crs, set, view, boxIn(set.bbox, set.crs, crs));
    this.overlays.over(this.layer);
    if (this.choice) this.redraw();
    else say(t("no-service"));
  }

  redraw() {
    this.fillControls();
    if (this.tiles) this.view.remove(this.tiles);
    this.question.abort();
    showFeatures([]);
    showLegend(this.layer, this.choice);
    this.failures = 0;
    this.tiles = draw(this.layer, this.choice, this.options());
    this.tiles.source.on("tileloaderror", () => {
      this.failures += 1;
    });
    this.fade();
    this.view.add(this.tiles);
    this.tools.update();
    this.moved();
  }

  /** All tiles of the view are drawn. */
  complete() {
    const { tiles, view } = this;
    // Another notice, such as how to draw a line, stays.
    if (this.failures || this.hasFailed) say(this.failures ? t("tiles-missing") : "");
    this.hasFailed = this.failures > 0;
    this.failures = 0;
    if (tiles?.fit?.(view.box, view.crs, view.cellSize)) view.changed();
    if (tiles?.fit) showRange(tiles);
    this.tools.showHistogram();
    this.updateReadout();
  }

  options() {
    const formats = formatsOf(this.choice);
    const format = formats.includes(this.format) ? this.format : formats[0];
    return { format, transparent: byId("transparent").checked };
  }

  fillControls() {
    const { layer, choice } = this;
    const { source, set, look } = choice;
    fillSelect(byId("source"), sourcesOf(layer).map(({ id, title }) => [id, title]), source.id);
    const sets = layer.sets.filter((one) => layer.sources.some((other) => isOffered(other, one)));
    fillSelect(byId("set"), sets.map(({ id, crs }) => [id, `${id} (${crs})`]), set.id);
    fillSelect(byId("crs"), Object.entries(layer.projections).map(([code, { name }]) => [code, `${name} (${code})`]), this.view.crs);
    const styles = styleOptions(layer);
    fillSelect(byId("style"), styles, look.style ?? "");
    byId("style-field").hidden = styles.length < 2;
    const formats = formatsOf(choice);
    fillSelect(byId("format"), formats.map((name) => [name, name.replace(/^image\//, "").toUpperCase()]), this.options().format);
    byId("format-field").hidden = formats.length < 2;
    byId("transparent-field").hidden = source.type !== "maps";
    byId("display").hidden = false;
  }

  fade() {
    const { value } = byId("opacity");
    this.tiles?.drawn.setOpacity(value / 100);
    this.view.changed();
    byId("opacity-value").textContent = `${value} %`;
    if (this.choice) this.write();
  }

  overlaysChanged() {
    showAttribution([this.layer, ...this.overlays.descriptions, ...(this.basemap?.shown ?? [])]);
    if (this.choice) this.write();
  }

  /** Update the URL fragment and the request URLs to the current view. */
  moved() {
    if (!this.choice) return;
    this.write();
    this.requests.show(requestGroups(this.layer, this.choice, this.view, this.options()));
    byId("requests-section").hidden = !this.layer.sources.length;
    this.followCompare();
  }

  write() {
    const { layer, choice, view } = this;
    const names = namesOf(choice);
    const usual = namesOf(nearest(layer, {}));
    const values = {};
    for (const name of Object.keys(names)) {
      if (names[name] !== usual[name]) values[name] = names[name] ?? "";
    }
    if (view.crs !== choice.set.crs) values.crs = view.crs;
    if (choice.source.type === "maps" && !byId("transparent").checked) values.transparent = false;
    if (this.format && formatsOf(choice).includes(this.format)) values.format = this.format;
    if (byId("opacity").value !== "100") values.opacity = byId("opacity").value;
    const over = this.overlays.ids.map(encodeURIComponent).join(",");
    if (over) values.over = over;
    Object.assign(values, this.tools.values);
    writeState(view.view, values);
  }

  followCompare() {
    const { layer, view } = this;
    const isNative = view.crs === layer.sets[0].crs;
    const { values } = readState();
    byId("compare-go").href = comparePage(layer.id, byId("compare").value) + (isNative && values.at ? `#at=${values.at}` : "");
  }

  shownTiles() {
    return [...this.overlays.tiles, this.tiles].filter(Boolean);
  }

  elevationAt(place) {
    const { layer, choice, view } = this;
    for (const tiles of this.shownTiles()) {
      const value = tiles.valueAt?.(place, view.crs, view.cellSize) ?? null;
      if (value !== null) return value;
    }
    const isSilent = layer.kind !== "elevation" || !choice || choice.look.draws === "elevation";
    if (isSilent || !infoSource(layer, choice.set)) return null;
    const [set, there] = [choice.set, moved(place, view.crs, choice.set.crs)];
    return (signal) => askElevation(layer, set, there, this.cellSize, signal);
  }

  async identify(place, pixel) {
    this.question.abort();
    if (isDrawing()) return;
    const { layer, choice, view } = this;
    const found = this.shownTiles().flatMap((tiles) => tiles.featuresAt?.(view.map, pixel) ?? []);
    showFeatures(found);
    if (found.length || !choice || !infoSource(layer, choice.set)) return;
    this.question = new AbortController();
    const { signal } = this.question;
    const there = moved(place, view.crs, choice.set.crs);
    const answer = await askFeatures(layer, choice.set, there, this.cellSize, signal).catch(() => []);
    if (!signal.aborted) showFeatures(answer);
  }
}

bindSkipLink();
try {
  new LayerPage(pageData()).start();
} catch (error) {
  say(t("failed", { message: error.message }));
  throw error;
}
