// Layers on the map, and their choice of source, tile matrix set and style.

import { intersects } from "ol/extent.js";
import { namesOf, nearest } from "./choice.js";
import { paintTiff } from "./decoding.js";
import { ElevationTiles } from "./elevationtiles.js";
import { fetchTile } from "./fetching.js";
import { planOf } from "./plans.js";
import { boxIn, cellIn, learn } from "./projections.js";
import { RasterTiles } from "./rastertiles.js";
import { VectorTiles } from "./vectortiles.js";

/** Return a function that fetches a tile and decodes it; null if the tile does not exist. */
const decoded = (decode) => (url, signal) => fetchTile(url, signal).then((buffer) => buffer && decode(buffer));

export class ShownLayer {
  /** @param wanted see choice.js */
  constructor(view, layer, wanted = {}) {
    learn(layer);
    this.view = view;
    this.layer = layer;
    this.usual = nearest(layer, {});
    this.choose(wanted);
  }

  choose(wanted, changed) {
    this.choice = nearest(this.layer, wanted, changed);
  }

  /** Take another source, set or style. */
  change(part, value) {
    this.choose({ ...namesOf(this.choice), [part]: value }, part);
  }

  /** Return the parts of the choice that differ from the usual ones, for the URL. */
  changes(prefix = "") {
    const [names, usual] = [this.choice, this.usual].map(namesOf);
    const changed = Object.entries(names).filter(([part, name]) => name !== usual[part]);
    return Object.fromEntries(changed.map(([part, name]) => [prefix + part, name]));
  }

  /**
   * Draw the choice. The attribute `drawn` of the tiles is a layer of the map library;
   * `valueAt(place, view)` and `featuresAt(map, pixel)` exist if they contain values or features.
   *
   * @param options "format" and "transparent" of maps, "zIndex" and "className"
   */
  draw(options) {
    const { layer, choice, view } = this;
    const plan = planOf(layer, choice, { format: choice.look.formats?.[0], transparent: true, ...options });
    const kinds = {
      vector: () => new VectorTiles(layer, plan, options, view),
      elevation: () => new ElevationTiles(layer, plan, options),
      tiff: () => new RasterTiles(plan, options, decoded(paintTiff)),
      image: () => new RasterTiles(plan, options, decoded((buffer) => createImageBitmap(new Blob([buffer])))),
    };
    if (this.tiles) view.remove(this.tiles);
    this.tiles = kinds[choice.look.draws]();
    view.add(this.tiles);
  }

  /** Return whether all loaded tiles of the view are empty. */
  isEmpty() {
    const { plan, drawnAt } = this.tiles;
    const { view } = this;
    const box = boxIn(view.box, view.crs, plan.set.crs);
    if (!box || !intersects(box, plan.extent)) return true;
    const z = plan.grid.getZForResolution(cellIn(view.cellSize, view.crs, plan.set.crs));
    // The map library may take the level beside this one if it reprojects tiles.
    const nearby = [...drawnAt].filter(([key]) => Math.abs(Number.parseInt(key, 10) - z) <= 1);
    return !nearby.some(([key, isDrawn]) => {
      const [level, row, col] = key.split(",").map(Number);
      return isDrawn && intersects(box, plan.grid.getTileCoordExtent([level, col, row]));
    });
  }
}
