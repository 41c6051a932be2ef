// Tiles that are shown as images.

import TileLayer from "ol/layer/Tile.js";
import TileImage from "ol/source/TileImage.js";
import { enlarged, loaderOf } from "./coarser.js";
import { canvasOf } from "./dom.js";
import { cellIn } from "./projections.js";

const EMPTY = canvasOf(1, 1);
const ERROR = 3;

export class RasterTiles {
  /**
   * @param plan see plans.js
   * @param options "zIndex" and "className"
   * @param fetching function of (url, signal, place) that returns a promise of an image, or of null
   *   if the tile does not exist
   */
  constructor(plan, { zIndex = 1, className }, fetching) {
    this.plan = plan;
    this.load = loaderOf(plan, fetching);
    /** Whether anything is drawn, by z,row,column. */
    this.drawnAt = new Map();
    // This source reprojects with canvases; others need WebGL, which software draws very slowly.
    this.source = new TileImage({
      tileUrlFunction: (place) => String(place),
      tileLoadFunction: (tile) => this.fill(tile),
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

  async fill(tile) {
    const [z, x, y] = tile.getTileCoord();
    try {
      tile.setImage(await this.image([z, y, x]));
    } catch {
      tile.setState(ERROR);
    }
  }

  async image(place) {
    const found = await this.load(place, new AbortController().signal);
    this.drawnAt.set(String(place), found.length > 0);
    const isOwn = found.length === 1 && found[0].place === place;
    if (isOwn) return found[0].content;
    return found.length ? enlarged(this.plan, place, found) : EMPTY;
  }
}
