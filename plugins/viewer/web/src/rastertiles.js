// Tiles that are shown as images.

import TileLayer from "ol/layer/Tile.js";
import ImageTile from "ol/source/ImageTile.js";
import { canvasOf } from "./dom.js";
import { cellIn } from "./projections.js";

const EMPTY = canvasOf(1, 1);

export class RasterTiles {
  /**
   * @param plan see plans.js
   * @param options "zIndex" and "className"
   * @param fetching function of (url, signal, place) that returns a promise of an image, or of null
   *   if the tile does not exist
   */
  constructor(plan, { zIndex = 1, className }, fetching) {
    this.plan = plan;
    this.source = new ImageTile({
      // The library waits for every tile, also for those that it no longer needs.
      loader: (z, x, y, { signal }) =>
        plan.load([z, y, x], signal, fetching).then(
          (image) => image ?? EMPTY,
          (error) => (signal.aborted ? EMPTY : Promise.reject(error)),
        ),
      projection: plan.set.crs,
      tileGrid: plan.grid,
      wrapX: false,
      transition: 0,
    });
    this.drawn = new TileLayer({ source: this.source, zIndex, className });
    this.drawn.on("prerender", ({ context, frameState }) => {
      // Beyond the finest level, pixels are enlarged without smoothing.
      const { projection, resolution } = frameState.viewState;
      const cell = cellIn(resolution, projection.getCode(), plan.set.crs);
      context.imageSmoothingEnabled = cell > plan.matrices.at(-1).cellSize * 0.99;
    });
  }
}
