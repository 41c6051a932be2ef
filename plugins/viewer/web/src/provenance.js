// Where the pixels of layers come from: that under the pointer, those of the view, and footprints.

import { getIntersection, isEmpty } from "ol/extent.js";
import GeoJSON from "ol/format/GeoJSON.js";
import VectorLayer from "ol/layer/Vector.js";
import { get, transform } from "ol/proj.js";
import VectorSource from "ol/source/Vector.js";
import { timeLabel } from "./dates.js";
import { byId } from "./dom.js";
import { fetchJson } from "./fetching.js";
import { boxIn } from "./projections.js";
import { sourceName } from "./sourcetext.js";
import { t } from "./texts.js";

/** Milliseconds for which the map must rest: a view costs as much as many tiles. */
const REST = 400;
/** Footprints in one answer. */
const MOST = 1000;
/** Lines of views that are kept. */
const MOST_TEXTS = 50;
/** Digits of degrees in requests. */
const DIGITS = 6;

/** Return the source of the uppermost layer at a place of the map; null if none is known. */
export async function askSource(layers, place, crs, signal) {
  const [lon, lat] = transform(place, crs, "CRS:84");
  if (!Number.isFinite(lon) || !Number.isFinite(lat)) return null;
  const query = new URLSearchParams({ lon: lon.toFixed(DIGITS + 2), lat: lat.toFixed(DIGITS + 2) });
  for (const { provenance } of layers.filter((layer) => layer.provenance)) {
    const { points, sources } = await fetchJson(`${provenance}/at?${query}`, { signal });
    if (sources.length) return { ...sources[0], mixed: points[0].mixed };
  }
  return null;
}

export class Provenance {
  /**
   * @param page with `view` and `shownLayers`, the uppermost first
   * @param onText called when the text of the view changes
   */
  constructor(page, onText) {
    this.page = page;
    this.onText = onText;
    this.text = "";
    this.texts = new Map();
    this.question = new AbortController();
    this.footprints = new VectorSource({ wrapX: false });
    this.drawn = new VectorLayer({
      source: this.footprints,
      zIndex: 95,
      declutter: true,
      visible: false,
      style: {
        "stroke-color": "#7a3fb0",
        "stroke-width": 1.5,
        "fill-color": "#7a3fb014",
        "text-value": ["get", "label"],
        "text-font": "600 12px system-ui, sans-serif",
        "text-fill-color": "#4b2170",
        "text-stroke-color": "#ffffff",
        "text-stroke-width": 3,
      },
    });
    page.view.map.addLayer(this.drawn);
    // Another CRS of the map.
    page.view.map.on("change:view", () => this.footprints.clear());
    byId("footprints").addEventListener("change", () => this.ask());
  }

  /** Ask about the view when the map rests. */
  moved() {
    this.question.abort();
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.ask(), REST);
  }

  /** Ask for the line of attribution of the view and, if they are switched on, for footprints. */
  async ask() {
    this.question.abort();
    clearTimeout(this.waiting);
    this.question = new AbortController();
    const { signal } = this.question;
    const isOn = byId("footprints").checked;
    const { layer, shownLayers } = this.page;
    byId("footprints-field").hidden = !layer.provenance;
    const asked = shownLayers.filter(({ provenance }) => provenance);
    const [texts, footprints] = await Promise.all([
      Promise.all(asked.map((one) => this.viewText(one))),
      isOn && layer.provenance ? this.sources(layer, signal) : null,
    ]);
    if (signal.aborted) return;
    this.showFootprints(footprints);
    this.text = texts.filter(Boolean).join(", ");
    this.onText();
  }

  /** Return the query of the part of the view that a layer covers; null if it is outside. */
  queryOf({ geographicBbox }) {
    const { box, crs } = this.page.view;
    const part = boxIn(box, crs, "CRS:84");
    const seen = part && getIntersection(part, geographicBbox);
    if (!seen || isEmpty(seen)) return null;
    const bbox = seen.map((edge) => Number(edge.toFixed(DIGITS)));
    return bbox[0] < bbox[2] && bbox[1] < bbox[3] ? `bbox=${bbox.join(",")}` : null;
  }

  /** Return the line of attribution of the view; empty without an answer. */
  viewText(layer) {
    const query = this.queryOf(layer);
    if (!query) return "";
    const url = `${layer.provenance}/view?${query}`;
    // Redrawing asks again, and a view is dear.
    if (!this.texts.has(url)) {
      if (this.texts.size >= MOST_TEXTS) this.texts.clear();
      const asked = fetchJson(url).then(({ text }) => text);
      this.texts.set(
        url,
        asked.catch(() => {
          this.texts.delete(url);
          return "";
        }),
      );
    }
    return this.texts.get(url);
  }

  async sources(layer, signal) {
    const query = this.queryOf(layer);
    const url = `${layer.provenance}/sources.geojson?${query}&limit=${MOST}`;
    return query ? fetchJson(url, { signal }).catch(() => null) : null;
  }

  /** Show footprints, GeoJSON; null hides them. */
  showFootprints(found) {
    const { view } = this.page;
    this.footprints.clear();
    this.drawn.setVisible(Boolean(found));
    const { numberMatched: count = 0, numberReturned: shown = 0 } = found ?? {};
    byId("footprints-count").textContent = found ? t(shown < count ? "footprints-part" : "footprints-all", { shown, count }) : "";
    if (found) {
      const options = { dataProjection: "EPSG:4326", featureProjection: get(view.crs) };
      // Without a footprint and a box, a source has no place.
      const placed = { ...found, features: found.features.filter(({ geometry }) => geometry) };
      const features = new GeoJSON().readFeatures(placed, options);
      for (const feature of features) feature.set("label", label(feature.getProperties()));
      this.footprints.addFeatures(features);
    }
    view.changed();
  }
}

function label(row) {
  const { date, start, end } = row;
  const dates = start && end ? `${timeLabel(start)} – ${timeLabel(end)}` : timeLabel(date ?? start ?? end ?? "");
  return [sourceName(row), dates].filter(Boolean).join("\n");
}
