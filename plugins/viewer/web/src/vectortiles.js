// Vector tiles, and the features they contain.

import MVT from "ol/format/MVT.js";
import VectorTileLayer from "ol/layer/VectorTile.js";
import VectorTileSource from "ol/source/VectorTile.js";
import { loaderOf } from "./coarser.js";
import { fetchTile } from "./fetching.js";
import { cellIn } from "./projections.js";

/** Distance in pixels within which a click hits a line or point. */
const REACH = 5;
const ERROR = 3;

export class VectorTiles {
  constructor(description, plan, { zIndex = 1, className }, view) {
    this.plan = plan;
    this.drawnAt = new Map();
    this.format = new MVT({ layerName: "mvt:layer" });
    // Features are decoded once for all tiles that are drawn from theirs.
    this.load = loaderOf(plan, async (url, signal, place) => {
      const buffer = await fetchTile(url, signal);
      return buffer && this.features(buffer, place);
    });
    this.source = new VectorTileSource({
      format: this.format,
      projection: plan.set.crs,
      tileGrid: plan.grid,
      wrapX: false,
      transition: 0,
      tileUrlFunction: ([z, x, y]) => plan.url(z, y, x),
      tileLoadFunction: (tile) => {
        tile.setLoader(() => this.fill(tile));
      },
    });
    const style = vectorStyle(description);
    const { stylesheet } = description;
    const options = { zIndex, className, renderBuffer: stylesheet ? 64 : 8, declutter: Boolean(stylesheet) };
    this.drawn = new VectorTileLayer({ source: this.source, style, ...options });
    if (stylesheet) this.dress(stylesheet, view);
  }

  /** Draw as a MapLibre style says; if that fails, as without one. */
  async dress(address, view) {
    try {
      const { dress } = await import("./stylesheet.js");
      await dress(this.drawn, address, (cell) => cellIn(cell, view.crs, this.plan.set.crs));
      view.changed();
    } catch (error) {
      console.warn(error);
    }
  }

  async fill(tile) {
    const [z, x, y] = tile.getTileCoord();
    try {
      const found = await this.load([z, y, x], new AbortController().signal);
      this.drawnAt.set(String([z, y, x]), found.length > 0);
      tile.setFeatures(found.flatMap(({ content }) => content));
    } catch {
      tile.setState(ERROR);
    }
  }

  features(buffer, [z, row, col]) {
    const extent = this.plan.grid.getTileCoordExtent([z, col, row]);
    return this.format.readFeatures(buffer, { extent, featureProjection: this.plan.set.crs });
  }

  /** Return the features at a pixel of the map: [{table, attributes}]. */
  featuresAt(map, pixel) {
    const options = { hitTolerance: REACH, layerFilter: (layer) => layer === this.drawn };
    return map.getFeaturesAtPixel(pixel, options).map((feature) => {
      const { "mvt:layer": table, geometry, ...attributes } = feature.getProperties();
      return { table, attributes: Object.entries(attributes) };
    });
  }
}

/** Return the style: rules of the map library for each table and kind of geometry. */
export function vectorStyle({ tables }) {
  return tables.flatMap(({ name, colour }) => {
    const rule = (kind, style) => ({
      filter: ["all", ["==", ["get", "mvt:layer"], name], ["==", ["geometry-type"], kind]],
      style: { "stroke-color": colour, ...style },
    });
    return [
      rule("Polygon", { "stroke-width": 1, "fill-color": `${colour}2e`, "z-index": 1 }),
      rule("LineString", { "stroke-width": 1.5, "z-index": 2 }),
      // All points are drawn, and found by a click.
      rule("Point", {
        "circle-radius": 3.5,
        "circle-fill-color": `${colour}e6`,
        "circle-declutter-mode": "none",
        "z-index": 3,
      }),
    ];
  });
}
