// The page of one layer.

import "../styles/viewer.css";
import "../styles/map.css";
import "../styles/layer.css";
import { showAttribution } from "../attribution.js";
import { bindBasemap } from "../basemap.js";
import { namesOf, nearest } from "../choice.js";
import { byId, say } from "../dom.js";
import { ElevationTools } from "../elevationtools.js";
import { askElevation, askFeatures, infoTemplate, showFeatures } from "../featureinfo.js";
import { goTo } from "../goto.js";
import { showLegend, showRange } from "../legend.js";
import { cellAt } from "../levels.js";
import { MapView } from "../mapview.js";
import { Overlays } from "../overlays.js";
import { askSource, Provenance } from "../provenance.js";
import { cellIn, learn, viewIn } from "../projections.js";
import { showReadout } from "../readout.js";
import { showRequests } from "../requests.js";
import { bindSheet } from "../sheet.js";
import { ShownLayer } from "../shown.js";
import { comparePage, credential, fetchLayer, layerPage, startPage } from "../site.js";
import { openingView } from "../start.js";
import { fragment, readState, writeState } from "../state.js";
import { bindTaking } from "../taking.js";
import { t } from "../texts.js";
import { Times } from "../times.js";

/** Milliseconds for which the pointer must rest. */
const REST = 150;
/** Milliseconds after which tiles that failed are requested again; each next time after twice as many. */
const RETRY = 4000;
const MOST_RETRIES = 5;
/** Period of a heat map. */
const THIS_MONTH = "..";

class LayerPage extends ShownLayer {
  constructor({ layer, layers, basemap, start }) {
    super(new MapView(), layer);
    this.start = start;
    this.retries = 0;
    this.question = new AbortController();
    this.overlays = new Overlays(this.view, () => {
      this.attribute();
      this.provenance.moved();
    });
    this.basemap = bindBasemap(this.view, basemap, () => this.attribute());
    this.tools = new ElevationTools(this, layers);
    this.updateReadout = showReadout(this.view, this.set, (place, signal) => this.elevationAt(place, signal));
    this.provenance = new Provenance(this, () => this.attribute());
    bindTaking(this);
    bindSheet();
    goTo(this.view, (place) => this.cellAt(place));
    this.bind();
    this.follow();
    this.times = new Times(this);
  }

  /** Show another value of the layer: same view and choice, another name. */
  become(layer) {
    const names = namesOf(this.choice);
    learn(layer);
    this.layer = layer;
    this.usual = nearest(layer, {});
    this.choose(names);
    history.replaceState(null, "", layerPage(layer.id) + location.hash);
    byId("title").textContent = layer.title;
    byId("program").dispatchEvent(new Event("change"));
    this.redraw();
    this.attribute();
  }

  bind() {
    const { map } = this.view;
    const on = (id, event, react) => byId(id).addEventListener(event, ({ target }) => react(target));
    on("layer", "change", ({ value }) => this.switchTo(value));
    for (const part of ["source", "set", "style"]) on(part, "change", ({ value }) => this.change(part, value));
    on("crs", "change", ({ value }) => this.project(value));
    on("format", "change", ({ value }) => this.redraw(value));
    on("compare", "change", () => this.followCompare());
    on("zoom-to-layer", "click", () => this.view.zoomHome());
    on("graticule", "click", (button) => button.setAttribute("aria-pressed", this.view.toggleGraticule()));
    on("download", "click", () => this.toggleDownload());
    on("heat", "click", () => this.followHeat(this.heat?.period ? "" : THIS_MONTH));
    on("close-identified", "click", () => {
      showFeatures([]);
      byId("map").focus({ preventScroll: true });
    });
    document.addEventListener("input", ({ target }) => {
      if (target.matches("[data-setting]")) (target.id === "transparent" ? this.redraw() : this.restyle());
    });
    map.on("moveend", () => this.moved());
    map.on("singleclick", ({ coordinate, pixel }) => this.identify(coordinate, pixel));
    map.on("rendercomplete", () => this.complete());
    window.addEventListener("hashchange", () => this.follow());
    window.addEventListener("online", () => this.hasFailed && this.retry());
  }

  get set() {
    return this.choice?.set ?? this.layer.sets[0];
  }

  /** Return the view, or another place of it, in the CRS of a set. */
  viewIn({ crs }, [x, y] = [this.view.view.x, this.view.view.y]) {
    return viewIn({ x, y, cellSize: this.view.cellSize }, this.view.crs, crs);
  }

  /** Show the state described by the URL fragment. */
  follow() {
    const { view, values } = readState();
    this.choose(values);
    this.format = values.format;
    const crs = Object.hasOwn(this.layer.projections, values.crs) ? values.crs : this.set.crs;
    this.open(crs, view ?? openingView(this.layer, this.start, crs));
    for (const id of (values.over ?? "").split(",").filter(Boolean)) this.overlays.add(decodeURIComponent(id));
    this.tools.follow(values);
    this.followHeat(values.heat);
    this.attribute();
  }

  /** Show the heat map of a period, `FROM..TO` in days, or of this month. */
  async followHeat(period) {
    const { heat } = this.layer;
    // Whoever may read usage has a credential in the address, or comes from a page of usage.
    byId("heat").hidden = !heat || !(credential || period);
    if (!period && !this.heat) return;
    const { HeatMap } = await import("../heatmap.js");
    this.heat ??= new HeatMap(this.view);
    await this.heat.show(heat, period);
    byId("heat").setAttribute("aria-pressed", Boolean(this.heat.period));
    this.write();
  }

  /** Open or close the panel for downloads, which is loaded on first use. */
  async toggleDownload() {
    const { DownloadArea } = await import("../downloadarea.js");
    this.downloads ??= new DownloadArea(this);
    if (this.downloads.isOpen) this.downloads.close();
    else this.downloads.open();
  }

  /** Return the cell size of the map in which a place is shown with all that is known of it. */
  cellAt(place) {
    const there = this.viewIn(this.set, place);
    return there ? cellIn(cellAt(this.set, [there.x, there.y]), this.set.crs, this.view.crs) : this.view.cellSize;
  }

  /** Show another layer at the same view. */
  async switchTo(id) {
    const next = await fetchLayer(id);
    learn(next);
    const view = this.viewIn(next.sets[0]);
    location.assign(layerPage(id) + (view ? fragment(view) : ""));
  }

  change(part, value) {
    const before = this.choice;
    super.change(part, value);
    const { set } = this.choice;
    if (set === before.set) this.redraw();
    else if (this.view.crs === before.set.crs && before.set.crs !== set.crs) this.project(set.crs);
    else this.open(this.view.crs, this.view.view);
    // A new style, for example, may need another source.
    const parts = Object.entries(namesOf(before)).filter(([name, id]) => name !== part && id !== namesOf(this.choice)[name]);
    byId("hint").textContent = parts.map(([name]) => chosenText(byId(name))).join(", ");
  }

  /** Show the map in another CRS at the same place. */
  project(crs) {
    this.open(crs, this.viewIn({ crs }));
  }

  open(crs, view) {
    this.view.show(crs, this.set, view);
    if (this.choice) this.redraw();
    else say(t("no-service"));
  }

  redraw(format = this.format) {
    this.format = format;
    this.fillControls();
    this.question.abort();
    showFeatures([]);
    showLegend(this.choice);
    this.draw(this.options);
    this.tools.update();
    this.tools.limitContours();
    this.restyle();
    this.moved();
  }

  draw(options) {
    super.draw(options);
    this.failures = 0;
    clearTimeout(this.waiting);
    this.waiting = null;
    this.tiles.source.on("tileloaderror", () => {
      this.failures += 1;
    });
  }

  /** Request tiles again that could not be loaded. */
  retry() {
    this.draw(this.options);
    this.restyle();
  }

  /** Formats of maps in the chosen style; none for tiles. */
  get formats() {
    return this.choice.look.formats ?? [];
  }

  /** Format and transparency of maps; tiles have no choice of formats. */
  get options() {
    const format = this.formats.includes(this.format) ? this.format : this.formats[0];
    return { ...(format && { format }), transparent: byId("transparent").checked };
  }

  fillControls() {
    for (const [part, name] of Object.entries(namesOf(this.choice))) byId(part).value = name;
    byId("crs").value = this.view.crs;
    for (const option of byId("format").options) option.hidden = !this.formats.includes(option.value);
    byId("format").value = this.options.format ?? "";
    byId("format-field").hidden = this.formats.length < 2;
    byId("transparent-field").hidden = this.choice.source.type !== "maps";
    byId("display").hidden = false;
  }

  /** Draw the tiles with the opacity and the look that are set. */
  restyle() {
    const { value } = byId("opacity");
    byId("opacity-value").textContent = `${value} %`;
    this.tiles.drawn.setOpacity(value / 100);
    this.tiles.setLook?.(this.tools.look);
    this.view.changed();
    this.write();
  }

  attribute() {
    const overlays = [...this.overlays.shown.values()].map(({ layer }) => layer);
    showAttribution([this.layer, ...overlays, ...this.basemap()], this.provenance?.text);
    this.write();
  }

  /** All tiles of the view are drawn. */
  complete() {
    const { tiles, view } = this;
    if (!tiles) return;
    this.judge();
    if (tiles.fit) {
      if (tiles.fit(view)) view.changed();
      showRange(tiles);
      this.tools.terrain?.recolour?.();
    }
    this.tools.showHistogram();
    this.updateReadout(this.set);
  }

  /** Say what is missing in the view, if anything, and what to do about it. */
  judge() {
    if (byId("map").classList.contains("drawing") || this.tools.isTooFar) return;
    const problem = this.problem();
    // Other notices, such as how to draw a line, stay.
    if (problem || this.hasProblem) say(...(problem ?? [""]));
    this.hasProblem = Boolean(problem);
  }

  problem() {
    const { view, failures } = this;
    const whole = { label: t("zoom-to-layer"), run: () => view.zoomHome() };
    this.hasFailed = failures > 0;
    if (failures) {
      if (!this.waiting && this.retries < MOST_RETRIES) {
        this.waiting = setTimeout(() => this.retry(), RETRY * 2 ** this.retries);
        this.retries += 1;
      }
      return [t("tiles-missing"), { label: t("retry"), run: () => this.retry() }];
    }
    this.retries = 0;
    const { drawn } = this.tiles;
    if (!drawn.getVisible()) return [t("outside-projection")];
    if (view.cellSize > drawn.getMaxResolution()) return [t("zoomed-out"), whole];
    if (!this.isEmpty()) return null;
    return view.showsHome() ? [t("no-tiles")] : [t("no-data-here"), whole];
  }

  /** Update the URL fragment and the request URLs to the current view. */
  moved() {
    if (!this.choice) return;
    this.tools.limitContours();
    this.write();
    showRequests(this);
    this.provenance.moved();
    this.followCompare();
  }

  write() {
    if (!this.choice || !this.tools) return;
    writeState(this.view.view, {
      ...this.changes(),
      crs: this.view.crs === this.set.crs ? undefined : this.view.crs,
      format: this.formats.includes(this.format) ? this.format : undefined,
      ...this.tools.state,
      heat: this.heat?.period || undefined,
      over: [...this.overlays.shown.keys()].map(encodeURIComponent).join(",") || undefined,
    });
  }

  followCompare() {
    const { layer, view } = this;
    const isNative = view.crs === layer.sets[0].crs;
    byId("compare-go").href = comparePage(layer.id, byId("compare").value) + (isNative ? fragment(view.view) : "");
  }

  /** Tiles of the map, the topmost first. */
  get allTiles() {
    return [this, ...this.overlays.shown.values()].reverse().flatMap(({ tiles }) => tiles ?? []);
  }

  /** Descriptions of the layers of the map, the uppermost first. */
  get shownLayers() {
    return [this, ...this.overlays.shown.values()].reverse().map(({ layer }) => layer);
  }

  async elevationAt(place, signal) {
    const { layer, choice, view, set } = this;
    const values = this.allTiles.map((tiles) => tiles.valueAt?.(place, view) ?? null);
    const known = values.find((value) => value !== null);
    const isSilent = layer.kind !== "elevation" || !choice || choice.look.draws === "elevation";
    const there = this.viewIn(set, place);
    if (known !== undefined || isSilent || !there || !infoTemplate(layer, set)) return known ?? null;
    // A request is only sent when the pointer rests.
    await new Promise((resolve) => setTimeout(resolve, REST));
    return signal.aborted ? null : askElevation(layer, set, there, signal);
  }

  async identify(place, pixel) {
    this.question.abort();
    if (byId("map").classList.contains("drawing")) return;
    const { layer, view, set } = this;
    const found = this.allTiles.flatMap((tiles) => tiles.featuresAt?.(view.map, pixel) ?? []);
    showFeatures(found);
    this.question = new AbortController();
    const { signal } = this.question;
    const there = this.viewIn(set, place);
    const isAsked = !found.length && there && infoTemplate(layer, set);
    const [features, source] = await Promise.all([
      isAsked ? askFeatures(layer, set, there, signal).catch(() => []) : found,
      askSource(this.shownLayers, place, view.crs, signal).catch(() => null),
    ]);
    if (!signal.aborted) showFeatures(features, source);
  }
}

/** Return what a select says: its label and the chosen option. */
const chosenText = (select) => `${select.labels[0].textContent}: ${select.selectedOptions[0].text}`;

startPage((data) => new LayerPage(data));
