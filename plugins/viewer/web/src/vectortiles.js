// Vector tiles, and the features they contain.

import MVT from "ol/format/MVT.js";
import VectorTileLayer from "ol/layer/VectorTile.js";
import VectorTileSource from "ol/source/VectorTile.js";
import { fetchTile } from "./fetching.js";
import { gridOf } from "./levels.js";
import { RasterTiles } from "./rastertiles.js";
import { vectorStyle } from "./vectorstyle.js";

/** Distance in pixels within which a click hits a line or point. */
const REACH = 5;
const ERROR = 3;

export class VectorTiles {
  constructor(description, plan, { zIndex = 1 }) {
    this.plan = plan;
    this.source = new VectorTileSource({
      format: new MVT({ layerName: "mvt:layer" }),
      projection: plan.set.crs,
      tileGrid: gridOf(plan.matrices),
      wrapX: false,
      transition: 0,
      tileUrlFunction: ([z, x, y]) =>
        plan.isValid(plan.matrices[z], y, x) ? plan.url(plan.matrices[z], y, x) : undefined,
      tileLoadFunction: (tile, url) => {
        tile.setLoader((extent, _, projection) => this.fill(tile, url, extent, projection));
      },
    });
    this.drawn = new VectorTileLayer({
      source: this.source,
      style: vectorStyle(description),
      zIndex,
      renderBuffer: 8,
    });
    this.limit = RasterTiles.prototype.limit;
  }

  async fill(tile, url, extent, featureProjection) {
    const { plan } = this;
    const [z, x, y] = tile.getTileCoord();
    const isStored = !plan.isStored || (await plan.isStored(plan.matrices[z], y, x));
    try {
      const buffer = isStored ? await fetchTile(url) : new ArrayBuffer(0);
      if (!buffer && !plan.mayMiss) throw new Error("a tile is missing");
      const options = { extent, featureProjection };
      tile.setFeatures(tile.getFormat().readFeatures(buffer ?? new ArrayBuffer(0), options));
    } catch {
      tile.setState(ERROR);
    }
  }

  /** Return the features at a pixel of the map: [{table, attributes}]. */
  featuresAt(map, pixel) {
    const options = { hitTolerance: REACH, layerFilter: (layer) => layer === this.drawn };
    return map.getFeaturesAtPixel(pixel, options).map((feature) => {
      const { "mvt:layer": table, ...attributes } = feature.getProperties();
      delete attributes.geometry;
      return { table, attributes: Object.entries(attributes) };
    });
  }
}
