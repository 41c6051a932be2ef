// The heat map of a layer: how often each block of tiles of a level was requested.

import GeoJSON from "ol/format/GeoJSON.js";
import VectorLayer from "ol/layer/Vector.js";
import VectorSource from "ol/source/Vector.js";
import { say } from "./dom.js";
import { t } from "./texts.js";

const COLOUR = [194, 87, 26];

/** Return how opaque an area is: by the logarithm, because few areas have most hits. */
const opacity = (hits, most) => 0.1 + (0.8 * Math.log1p(hits)) / Math.log1p(most);

export class HeatMap {
  constructor(view) {
    this.view = view;
    this.period = "";
    this.shown = ofOneLevel([]);
    this.drawn = new VectorLayer({
      source: new VectorSource({ wrapX: false }),
      zIndex: 90,
      style: {
        "fill-color": ["color", ...COLOUR, ["get", "opacity"]],
        "stroke-color": ["color", ...COLOUR, 0.9],
        "stroke-width": 1,
      },
    });
    view.map.addLayer(this.drawn);
    // Another CRS of the map.
    view.map.on("change:view", () => this.place());
  }

  /**
   * Show a period of a heat map.
   *
   * @param url of the heat map; empty if the layer has none
   * @param period `FROM..TO` in days, each of which may be empty; none hides the heat map
   */
  async show(url, period) {
    const found = url && period ? await ask(url, period) : null;
    this.period = found ? period : "";
    this.shown = ofOneLevel(found?.features ?? []);
    this.place();
    if (found) say(this.shown.level ? t("heat-shown", { ...found, level: this.shown.level }) : t("heat-none"));
  }

  /** Draw the blocks in the CRS of the map. */
  place() {
    const source = this.drawn.getSource();
    source.clear();
    const options = { dataProjection: "EPSG:4326", featureProjection: this.view.crs };
    source.addFeatures(new GeoJSON().readFeatures(this.shown, options));
    this.view.changed();
  }
}

/** Return the blocks of the level of the first one, which has most hits. */
function ofOneLevel(all) {
  const { level = "", hits: most } = all[0]?.properties ?? {};
  const features = all.filter(({ properties }) => properties.level === level);
  for (const { properties } of features) properties.opacity = opacity(properties.hits, most);
  return { type: "FeatureCollection", level, features };
}

/** Fetch a heat map; null, after a notice, for those who may not see it. */
async function ask(url, period) {
  const [from, to] = period.split("..");
  const query = new URLSearchParams({ f: "json", ...(from && { from }), ...(to && { to }) });
  const response = await fetch(`${url}?${query}`);
  if (response.ok) return response.json();
  say(response.status === 404 ? t("heat-refused") : t("failed", { message: response.statusText }));
  return null;
}
