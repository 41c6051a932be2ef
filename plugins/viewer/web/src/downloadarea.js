// The panel "Download this area": an area, a format and levels; an estimate; the file or a job.

import { getIntersection, isEmpty } from "ol/extent.js";
import GeoJSON from "ol/format/GeoJSON.js";
import { fromExtent } from "ol/geom/Polygon.js";
import { get, transformExtent } from "ol/proj.js";
import { byId, html, render, say } from "./dom.js";
import {
  addressOf,
  cancel,
  curl,
  estimateOf,
  estimateText,
  excessText,
  follow,
  inputsOf,
  isOver,
  order,
  pageOf,
  refusalText,
  sizeOf,
  sizeText,
} from "./downloading.js";
import { levelsOf } from "./plans.js";
import { boxIn } from "./projections.js";
import { withoutCredential } from "./site.js";
import { drawGeometry, removeDrawing, showGeometry } from "./sketch.js";
import { copyText, save } from "./taking.js";
import { t, threeDigits } from "./texts.js";

/** Milliseconds after the last change before an estimate is requested: servers limit their number. */
const REST = 700;
const DEGREES = "CRS:84";
const FORMATS = {
  cog: t("format-cog"),
  tif: t("format-tif"),
  pmtiles: "PMTiles",
  mbtiles: "MBTiles",
  gpkg: "GeoPackage",
};
const CORNERS = { degrees: ["west", "south", "east", "north"], others: ["xmin", "ymin", "xmax", "ymax"] };

export class DownloadArea {
  /** @param page with the current layer, overlays and view */
  constructor(page) {
    this.page = page;
    this.element = byId("download-area");
    this.question = new AbortController();
    this.isMasked = false;
    this.element.addEventListener("keydown", ({ key }) => key === "Escape" && this.close());
  }

  get isOpen() {
    return !this.element.hidden;
  }

  open() {
    this.layers = [this.page.layer, ...[...this.page.overlays.shown.values()].map(({ layer }) => layer)];
    this.layers = this.layers.filter(({ downloads }) => downloads.length);
    this.choose(this.layers.find(({ id }) => id === this.layer?.id) ?? this.layers[0]);
    if (!this.box) this.takeView();
    this.reveal(true);
    this.element.focus({ preventScroll: true });
  }

  close() {
    this.reveal(false);
    removeDrawing(this.page.view);
    byId("download").focus({ preventScroll: true });
  }

  reveal(isOpen) {
    this.element.hidden = !isOpen;
    byId("download").setAttribute("aria-expanded", isOpen);
    if (isOpen) this.change();
  }

  choose(layer) {
    if (layer === this.layer) return;
    Object.assign(this, { layer, box: null, polygon: null, format: 0 });
    this.chooseFormat(0);
  }

  chooseFormat(index) {
    this.format = index;
    const { length } = levelsOf(this.set);
    this.levels = [this.takes("level") ? length - 1 : 0, length - 1];
  }

  get set() {
    return this.layer.sets[0];
  }

  get download() {
    return this.layer.downloads[this.format];
  }

  takes(what) {
    return (this.download.takes ?? []).includes(what);
  }

  /** CRS in which corners are typed: degrees, unless the layer has coordinates of its country. */
  get typedCrs() {
    const { crs } = this.set;
    return crs === "EPSG:3857" || get(crs).getUnits() === "degrees" ? DEGREES : crs;
  }

  /** Identifiers of the chosen levels; none for all. */
  get levelIds() {
    const ids = levelsOf(this.set).map(({ id }) => id);
    if (this.takes("level")) return [ids[this.levels[1]]];
    const [first, last] = this.levels;
    return !this.takes("levels") || (first === 0 && last === ids.length - 1) ? [] : ids.slice(first, last + 1);
  }

  get selection() {
    const mask = this.takes("mask") && this.isMasked;
    return { box: this.box, area: this.polygon, crs: this.set.crs, levels: this.levelIds, mask };
  }

  // The area

  takeView() {
    const { view } = this.page;
    const seen = boxIn(view.box, view.crs, this.set.crs);
    const part = seen && getIntersection(seen, this.set.bbox);
    this.takeBox(part && !isEmpty(part) ? part : this.set.bbox);
  }

  takeBox(box) {
    Object.assign(this, { box, polygon: null });
    this.change();
  }

  /** Take what is typed. */
  takeCorners() {
    const [typed, crs] = [this.typedCrs, this.set.crs];
    const values = [...this.element.querySelectorAll(".corners input")].map(({ valueAsNumber }) => valueAsNumber);
    const isBox = values.every(Number.isFinite) && values[0] < values[2] && values[1] < values[3];
    const box = isBox ? transformExtent(values, typed, crs) : null;
    Object.assign(this, { box: box?.every(Number.isFinite) ? box : null, polygon: null, isTyped: true });
    this.change();
    this.isTyped = false;
  }

  async draw(kind, instruction) {
    const { view } = this.page;
    this.reveal(false);
    say(t(instruction));
    const geometry = await drawGeometry(view, kind, this.set.crs);
    say("");
    if (geometry) {
      this.box = new GeoJSON().readGeometry(geometry).getExtent();
      this.polygon = kind === "Polygon" ? geometry : null;
    }
    this.reveal(true);
    this.element.focus({ preventScroll: true });
  }

  // The estimate

  /** The selection has changed: show it, and ask what it would give. */
  change() {
    this.question.abort();
    this.question = new AbortController();
    Object.assign(this, { estimate: null, message: "", isReady: false });
    if (!this.isOpen) return;
    const { view } = this.page;
    removeDrawing(view);
    const shown = this.polygon ? new GeoJSON().readGeometry(this.polygon) : this.box && fromExtent(this.box);
    if (shown) showGeometry(view, shown.clone().transform(this.set.crs, view.crs));
    if (!this.box) this.message = t("area-invalid");
    else if (isEmpty(getIntersection(this.box, this.set.bbox))) this.message = t("area-outside");
    else this.ask(this.question.signal);
    this.show();
  }

  async ask(signal) {
    this.message = t("estimating");
    this.isAsking = true;
    await new Promise((resolve) => setTimeout(resolve, REST));
    if (signal.aborted) return;
    const { download, selection } = this;
    try {
      const found = download.process
        ? await estimateOf(download, inputsOf(download, selection), signal)
        : { bytes: await sizeOf(addressOf(download, selection), signal) };
      if (signal.aborted) return;
      this.estimate = found;
      this.isReady = found.fits !== false;
      if (!this.isReady) this.message = excessText(found);
      else if (download.process) this.message = estimateText(found.estimate);
      else this.message = found.bytes === null ? t("estimate-unknown") : sizeText(found.bytes);
    } catch (error) {
      if (signal.aborted) return;
      this.message = refusalText(error);
    }
    this.isAsking = false;
    this.show();
  }

  // The job

  async start() {
    const { download, selection } = this;
    this.isReady = false;
    this.show();
    try {
      this.job = { status: await order(download, inputsOf(download, selection)) };
    } catch (error) {
      this.message = refusalText(error);
      this.isReady = true;
      return this.show();
    }
    const { job } = this;
    const update = (status) => {
      job.status = status;
      this.show();
    };
    update(job.status);
    this.element.querySelector(".job")?.scrollIntoView({ block: "nearest" });
    try {
      job.result = await follow(job.status, update);
    } catch (error) {
      job.failure = refusalText(error);
    }
    this.isReady = Boolean(this.estimate);
    this.show();
    this.element.querySelector(".job")?.scrollIntoView({ block: "nearest" });
  }

  async cancel(status) {
    await cancel(status).catch((error) => {
      this.message = refusalText(error);
    });
    this.show();
  }

  // What is shown

  show() {
    if (this.isOpen) render(this.content(), this.element);
  }

  content() {
    const { layer, layers, download, job } = this;
    const isBusy = job && !job.failure && !isOver(job.status);
    const choice = (label, options, chosen, react) => html`
      <div class="field">
        <label for=${`download-${label}`}>${t(label)}</label>
        <select id=${`download-${label}`} autocomplete="off" @change=${({ target }) => react(target.selectedIndex)}>
          ${options.map((text, index) => html`<option ?selected=${index === chosen} .selected=${index === chosen}>${text}</option>`)}
        </select>
      </div>
    `;
    const chooseLayer = (index) => {
      this.choose(layers[index]);
      this.takeView();
    };
    return html`
      <button type="button" class="close" aria-label=${t("close")} @click=${() => this.close()}></button>
      <h2 id="download-heading">${t("download-area")}</h2>
      ${layers.length > 1 ? choice("layer", layers.map(({ title }) => title), layers.indexOf(layer), chooseLayer) : ""}
      ${this.areaContent()} ${this.formatContent()}
      ${this.levelContent(choice)} ${this.maskContent()}
      <p class="facts-line" id="download-estimate" role="status" aria-busy=${Boolean(this.isAsking)}>${this.message}</p>
      <p class="buttons">
        ${
          download.process
            ? html`<button type="button" class="button" id="download-start" ?disabled=${!this.isReady || isBusy} @click=${() => this.start()}>${t("start-job")}</button>`
            : this.isReady && fileLink("download-file", addressOf(download, this.selection), download.name)
        }
      </p>
      ${job ? this.jobContent(job) : ""} ${this.commandContent()}
    `;
  }

  areaContent() {
    const [typed, crs] = [this.typedCrs, this.set.crs];
    const button = (key, run) => html`<button type="button" class="button" data-area=${key} @click=${run}>${t(key)}</button>`;
    const takesPolygons = this.layer.downloads.some(({ takes }) => takes?.includes("area"));
    // What the user types stays as it is.
    const corners = this.box && !this.isTyped ? transformExtent(this.box, crs, typed) : null;
    const decimals = typed === DEGREES ? 6 : 2;
    const names = typed === DEGREES ? CORNERS.degrees : CORNERS.others;
    const input = (name, index) => html`
      <label>${t(name)}<input type="number" step="any" autocomplete="off" data-corner=${index} .value=${corners ? String(Number(corners[index].toFixed(decimals))) : this.typedValue(index)} @change=${() => this.takeCorners()} /></label>
    `;
    return html`
      <p class="buttons">
        ${button("area-view", () => this.takeView())} ${button("area-whole", () => this.takeBox(this.set.bbox))}
        ${button("area-box", () => this.draw("Box", "draw-box"))}
        ${takesPolygons ? button("area-polygon", () => this.draw("Polygon", "draw-polygon")) : ""}
      </p>
      <fieldset class="corners">
        <legend>${typed === DEGREES ? t("area-degrees") : t("area-unit", { crs: typed })}</legend>
        ${names.map(input)}
      </fieldset>
      ${this.polygon && !this.takes("area") ? html`<p class="hint">${t("polygon-box")}</p>` : ""}
    `;
  }

  typedValue(index) {
    return this.element.querySelector(`[data-corner="${index}"]`)?.value ?? "";
  }

  formatContent() {
    const { downloads, styles } = this.layer;
    const text = ({ format, inputs }) => {
      const style = inputs?.style && (styles.find(({ id }) => id === inputs.style)?.title ?? inputs.style);
      const name = FORMATS[format] ?? format;
      return style ? t("format-drawn", { format: name, style }) : name;
    };
    const group = (label, isJob) => {
      const indices = downloads.flatMap(({ process }, index) => (Boolean(process) === isJob ? [index] : []));
      const option = (index) =>
        html`<option value=${index} .selected=${index === this.format}>${text(downloads[index])}</option>`;
      return indices.length ? html`<optgroup label=${t(label)}>${indices.map(option)}</optgroup>` : "";
    };
    const choose = ({ target }) => {
      this.chooseFormat(Number(target.value));
      this.change();
    };
    return html`
      <div class="field">
        <label for="download-format">${t("format")}</label>
        <select id="download-format" autocomplete="off" @change=${choose}>
          ${group("download-direct", false)} ${group("download-job", true)}
        </select>
      </div>
    `;
  }

  levelContent(choice) {
    const unit = get(this.set.crs).getUnits() === "degrees" ? "°" : "m";
    const texts = levelsOf(this.set).map(({ id, cellSize }) => `${id} (${threeDigits(cellSize)} ${unit})`);
    const choose = (end) => (index) => {
      this.levels[end] = index;
      // The coarsest one is not finer than the finest one.
      if (this.levels[0] > this.levels[1]) this.levels[1 - end] = index;
      this.change();
    };
    if (this.takes("level")) return choice("level-one", texts, this.levels[1], choose(1));
    if (!this.takes("levels")) return "";
    return html`${choice("level-from", texts, this.levels[0], choose(0))} ${choice("level-to", texts, this.levels[1], choose(1))}`;
  }

  maskContent() {
    if (!this.takes("mask")) return "";
    const choose = ({ target }) => {
      this.isMasked = target.checked;
      this.change();
    };
    return html`
      <div class="field">
        <label for="download-mask">${t("with-mask")}</label>
        <span class="check"><input type="checkbox" id="download-mask" autocomplete="off" .checked=${this.isMasked} @change=${choose} /></span>
      </div>
    `;
  }

  jobContent({ status, result, failure }) {
    const isRunning = !failure && !isOver(status);
    const text = failure ?? t(`job-${status.status}`, { message: status.message, size: sizeText(result?.length ?? 0) });
    return html`
      <section class="job" aria-label=${t("download-job")} data-status=${status.status}>
        ${isRunning ? html`<progress max="100" .value=${status.progress ?? 0} aria-label=${t("job-progress")}></progress>` : ""}
        <p role="status">${text}</p>
        <p class="buttons">
          ${isRunning ? html`<button type="button" class="button" id="download-cancel" @click=${() => this.cancel(status)}>${t("cancel")}</button>` : ""}
          ${result ? fileLink("download-result", result.href, result.title) : ""}
          ${failure || status.status === "dismissed" ? "" : html`<a href=${pageOf(status)} target="_blank" rel="noopener">${t("job-page")}</a>`}
        </p>
        ${result ? command(curl(result.href, result.title)) : ""}
      </section>
    `;
  }

  commandContent() {
    const { download, estimate, polygon } = this;
    if (!estimate) return "";
    const text = download.process ? estimate.command : curl(addressOf(download, this.selection), download.name);
    const saveArea = () => save(JSON.stringify(polygon), "area.geojson");
    const hasArea = polygon && this.takes("area");
    return text
      ? html`
          <h3>${t("same-by-command")}</h3>
          ${command(text)}
          ${hasArea ? html`<p class="buttons"><button type="button" class="button" @click=${saveArea}>${t("save-area")}</button></p>` : ""}
        `
      : "";
  }
}

const fileLink = (id, href, name) =>
  html`<a class="button" id=${id} href=${href} download=${name}>${t("download-file", { name })}</a>`;

/** Return a command with a button that copies it. */
function command(text) {
  return html`
    <div class="command">
      <pre class="snippet" tabindex="0">${withoutCredential(text)}</pre>
      <button type="button" class="button" @click=${({ target }) => copyText(target, text)}>${t("copy")}</button>
    </div>
  `;
}
