// The page of one layer.

import { formatsOf, namesOf, nearest, setsOf, sourcesOf, styleOptions } from "./choice.js";
import { byId, fillSelect, say } from "./dom.js";
import { draw } from "./drawing.js";
import { showFacts } from "./facts.js";
import { askElevation, askFeatures, infoSource } from "./featureinfo.js";
import { cellSizeAt } from "./grid.js";
import { showFeatures } from "./identified.js";
import { showLegend, showRange } from "./legend.js";
import { bindSkipLink, openMap, outline, showAttribution } from "./mapview.js";
import { Overlays } from "./overlays.js";
import { zoomsIn } from "./places.js";
import { showReadout } from "./readout.js";
import { requestGroups } from "./requests.js";
import { RequestList } from "./requestlist.js";
import { comparePage, fetchLayer, fetchLayers } from "./site.js";
import { readState, viewFragment, writeState } from "./viewstate.js";

const ID = decodeURIComponent(document.body.dataset.layer);

class LayerPage {
  constructor(layer) {
    this.layer = layer;
    this.choice = null;
    this.map = null;
    this.tiles = null;
    this.overlays = null;
    this.requests = new RequestList(byId("requests"));
    this.question = new AbortController();
    this.format = null;
  }

  start(layers) {
    this.bind();
    const others = layers.filter(({ id }) => id !== this.layer.id);
    this.overlays = new Overlays(others, () => this.overlaysChanged());
    fillSelect(byId("compare"), layers.map(({ id, title }) => [id, id === ID ? `${title} (itself)` : title]), others[0]?.id ?? ID);
    byId("compare-field").hidden = false;
    this.followCompare();
    this.follow();
    window.addEventListener("hashchange", () => this.follow());
  }

  /** Show the state described by the URL fragment. */
  follow() {
    const { view, values } = readState();
    const style = values.style === "" ? null : values.style;
    const choice = nearest(this.layer, { source: values.source, set: values.set, style });
    byId("transparent").checked = values.transparent !== "false";
    this.format = values.format ?? null;
    if (!choice) {
      this.showNothing();
      return;
    }
    this.choice = choice;
    this.open(view);
  }

  showNothing() {
    const [set] = this.layer.sets;
    this.openMap(set, null);
    showFacts(this.layer, set);
    say("No service of this server offers this layer in a form that browsers can show.");
  }

  bind() {
    for (const name of ["source", "set", "style"]) {
      byId(name).addEventListener("change", ({ target }) => this.change(name, target.value));
    }
    byId("format").addEventListener("change", ({ target }) => {
      this.format = target.value;
      this.redraw();
    });
    byId("transparent").addEventListener("change", () => this.redraw());
    byId("opacity").addEventListener("input", () => this.fade());
    byId("compare").addEventListener("change", () => this.followCompare());
  }

  followCompare() {
    // The compare page uses the grid in which this layer is stored.
    const isSame = this.choice?.set === this.layer.sets[0];
    byId("compare-go").href = comparePage(ID, byId("compare").value) + (isSame ? viewFragment() : "");
  }

  change(name, value) {
    const before = this.choice;
    const wanted = { ...namesOf(before), [name]: value === "" ? null : value };
    this.choice = nearest(this.layer, wanted, name);
    this.showConsequences(before, name);
    if (this.choice.set === before.set) this.redraw();
    else this.open(before.set.crs === this.choice.set.crs ? this.view() : null);
  }

  /** Show which other parts of the choice changed: a new style, for example, may need another source. */
  showConsequences(before, changed) {
    const { source, set, look } = this.choice;
    const changes = [];
    if (changed !== "source" && source !== before.source) changes.push(`shown by ${source.title}`);
    if (changed !== "set" && set !== before.set) changes.push(`in ${set.id}`);
    if (changed === "source" && look.style !== before.look.style) {
      changes.push(look.style === null ? "stored data" : `style ${look.style}`);
    }
    const text = changes.join(", ");
    byId("hint").textContent = text && `${text[0].toUpperCase()}${text.slice(1)}`;
  }

  view() {
    const { lat: y, lng: x } = this.map.getCenter();
    return { x, y, cellSize: cellSizeAt(this.choice.set, this.map.getZoom()) };
  }

  /** Reopen the map, because the grid or the view has changed. */
  open(view) {
    this.map?.remove();
    const { set } = this.choice;
    this.openMap(set, view);
    this.tiles = null;
    showFacts(this.layer, set);
    this.updateReadout = showReadout(this.map, set, byId("readout"), (latlng) => this.elevationAt(latlng));
    this.map.on("moveend", () => this.moved());
    this.map.on("click", ({ latlng }) => this.identify(latlng));
    this.overlays.open(this.map, set);
    this.redraw();
  }

  openMap(set, view) {
    this.map = openMap(set, view, set.bbox, zoomsIn(this.layer, set));
    outline(this.map, set.bbox);
  }

  redraw() {
    this.fillControls();
    this.tiles?.remove();
    this.question.abort();
    showFeatures([]);
    showLegend(this.layer, this.choice);
    const tiles = draw(this.layer, this.choice, { ...this.options(), zIndex: 1 });
    let failures = 0;
    tiles.on("loading", () => {
      failures = 0;
    });
    tiles.on("tileerror", () => {
      failures += 1;
    });
    tiles.on("load", () => {
      say(failures ? "Some tiles cannot be loaded." : "");
      this.updateReadout();
    });
    tiles.on("rangechange", () => showRange(tiles.range));
    this.tiles = tiles;
    this.fade();
    tiles.addTo(this.map);
    this.moved();
  }

  options() {
    const format = formatsOf(this.choice).includes(this.format) ? this.format : formatsOf(this.choice)[0];
    return { format, transparent: byId("transparent").checked };
  }

  fillControls() {
    const { layer, choice } = this;
    const { source, set, look } = choice;
    fillSelect(byId("source"), sourcesOf(layer).map(({ id, title }) => [id, title]), source.id);
    const sets = layer.sets.filter((one) => layer.sources.some((other) => setsOf(layer, other).includes(one)));
    fillSelect(byId("set"), sets.map(({ id, crs }) => [id, `${id} (${crs})`]), set.id);
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
    this.tiles?.setOpacity(value / 100);
    byId("opacity-value").textContent = `${value} %`;
  }

  overlaysChanged() {
    showAttribution([this.layer, ...this.overlays.descriptions]);
  }

  /** Update the URL fragment and the request URLs to the current view. */
  moved() {
    const { layer, choice, map } = this;
    const names = namesOf(choice);
    const usual = namesOf(nearest(layer, {}));
    const values = {};
    for (const name of Object.keys(names)) {
      if (names[name] !== usual[name]) values[name] = names[name] ?? "";
    }
    if (choice.source.type === "maps" && !byId("transparent").checked) values.transparent = false;
    if (this.format && formatsOf(choice).includes(this.format)) values.format = this.format;
    writeState(map, cellSizeAt(choice.set, map.getZoom()), values);
    this.requests.show(requestGroups(layer, choice, map, this.options()));
    byId("requests-section").hidden = !layer.sources.length;
    this.followCompare();
  }

  shownTiles() {
    return [...this.overlays.tiles, this.tiles].filter(Boolean);
  }

  elevationAt(latlng) {
    for (const tiles of this.shownTiles()) {
      const value = tiles.valueAt?.(latlng) ?? null;
      if (value !== null) return value;
    }
    const { layer, choice, map } = this;
    const isSilent = layer.kind !== "elevation" || choice.look.draws === "elevation";
    if (isSilent || !infoSource(layer, choice.set)) return null;
    return (signal) => askElevation(layer, choice.set, map.getZoom(), latlng, signal);
  }

  async identify(latlng) {
    this.question.abort();
    const found = this.shownTiles().flatMap((tiles) => tiles.featuresAt?.(latlng) ?? []);
    showFeatures(found);
    const { layer, choice, map } = this;
    if (found.length || !infoSource(layer, choice.set)) return;
    this.question = new AbortController();
    const { signal } = this.question;
    const answer = await askFeatures(layer, choice.set, map.getZoom(), latlng, signal).catch(() => []);
    if (!signal.aborted) showFeatures(answer);
  }
}

bindSkipLink();
try {
  const [layer, layers] = await Promise.all([fetchLayer(ID), fetchLayers()]);
  new LayerPage(layer).start(layers);
} catch (error) {
  say(`The layer cannot be shown: ${error.message}`);
  throw error;
}
