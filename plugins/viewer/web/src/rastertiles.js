// Tiles that are shown as images.

import TileLayer from "ol/layer/Tile.js";
import ImageTile from "ol/source/ImageTile.js";
import { gridOf } from "./levels.js";
import { exists } from "./plans.js";
import { cellIn } from "./projections.js";

/** At cells coarser than this many times the coarsest ones, too many tiles would be in view. */
const FARTHEST = 8;
const blanks = new Map();

export class RasterTiles {
  /**
   * @param plan see plans.js, and "set"
   * @param options "zIndex"
   * @param load function of (url, signal, matrix, key) that returns a promise of an image, or of
   *   null if the tile does not exist
   */
  constructor(plan, { zIndex = 1 }, load) {
    this.plan = plan;
    this.load = load;
    this.source = new ImageTile({
      loader: (z, x, y, { signal }) => this.tile(z, x, y, signal),
      projection: plan.set.crs,
      tileGrid: gridOf(plan.matrices),
      wrapX: false,
      transition: 0,
    });
    this.drawn = new TileLayer({ source: this.source, zIndex });
    const finest = plan.matrices[plan.matrices.length - 1].cellSize;
    this.drawn.on("prerender", ({ context, frameState }) => {
      // Beyond the finest level, pixels are enlarged without smoothing.
      const { projection, resolution } = frameState.viewState;
      const cell = cellIn(resolution, projection.getCode(), plan.set.crs);
      context.imageSmoothingEnabled = cell > finest * 0.99;
    });
  }

  async tile(z, x, y, signal) {
    const { plan } = this;
    const matrix = plan.matrices[z];
    const place = [matrix, y, x];
    if (!(await exists(plan, ...place)) || signal.aborted) return blank(matrix);
    const image = await this.load(plan.url(...place), signal, matrix, `${z}/${x}/${y}`).catch((error) => {
      if (!signal.aborted) throw error;
    });
    // The library waits for every tile, also for those that it no longer needs.
    if (signal.aborted) return blank(matrix);
    if (!image && !plan.mayMiss) throw new Error("a tile is missing");
    return image ?? blank(matrix);
  }

  /** Hide the layer where it would need too many tiles. */
  limit(crs) {
    const coarsest = this.plan.matrices[0].cellSize;
    this.drawn.setMaxResolution(cellIn(coarsest * FARTHEST * 1.01, this.plan.set.crs, crs));
  }
}

/** Return an empty tile. */
function blank({ tileWidth, tileHeight }) {
  const key = `${tileWidth}/${tileHeight}`;
  if (!blanks.has(key)) {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [tileWidth, tileHeight];
    blanks.set(key, canvas);
  }
  return blanks.get(key);
}
