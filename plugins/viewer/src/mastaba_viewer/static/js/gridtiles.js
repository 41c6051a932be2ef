// Leaflet on the grid of any tile matrix set. Map coordinates are those of the CRS of the set:
// x is "lng" and y is "lat".

/* global L */

import { cellSizeAt, zoomOf } from "./grid.js";

/** Return the Leaflet CRS of a tile matrix set. */
export function gridCrs(set) {
  const { originX, originY } = set.matrices[set.matrices.length - 1];
  return L.Util.extend({}, L.CRS.Simple, {
    code: set.crs,
    transformation: new L.Transformation(1, -originX, -1, originY),
    scale: (zoom) => 1 / cellSizeAt(set, zoom),
    zoom: (scale) => zoomOf(set, 1 / scale),
  });
}

const FARTHEST = 3;

/**
 * A layer of tiles in the grid of its set. Subclasses define `draw(url, tile, signal, coords)`,
 * which fills a tile element and returns a promise of whether the tile exists.
 */
export const GridTiles = L.GridLayer.extend({
  /**
   * @param layer description of the layer
   * @param plan set, minZoom and maxZoom of the tiles; functions url, isValid and isStored of
   *   (matrix, row, column), where isStored returns a promise, or is null if this is unknown; and
   *   mayMiss, whether a valid tile may be missing
   */
  initialize(layer, plan, options) {
    this.description = layer;
    this.plan = plan;
    this.set = plan.set;
    L.setOptions(this, {
      ...options,
      minNativeZoom: plan.minZoom,
      maxNativeZoom: plan.maxZoom,
      // At coarser zooms, too many tiles would be in view.
      minZoom: plan.minZoom - FARTHEST,
      maxZoom: 40,
      updateWhenZooming: false,
      keepBuffer: 1,
    });
  },

  createTile(coords, done) {
    const tile = this.makeElement();
    const abort = new AbortController();
    tile.abort = abort;
    const matrix = this.set.matrices[coords.z];
    tile.width = matrix.tileWidth;
    tile.height = matrix.tileHeight;
    this.fillTile(coords, matrix, tile, abort.signal).then(
      () => done(null, tile),
      (error) => {
        if (!abort.signal.aborted) done(error, tile);
      },
    );
    return tile;
  },

  async fillTile(coords, matrix, tile, signal) {
    const place = [matrix, coords.y, coords.x];
    if (this.plan.isStored && !(await this.plan.isStored(...place))) return;
    if (signal.aborted) return;
    const found = await this.draw(this.plan.url(...place), tile, signal, coords);
    if (!found && !this.plan.mayMiss) throw new Error("a tile is missing");
  },

  makeElement() {
    return document.createElement("canvas");
  },

  /** Return the loaded tile at a position and the pixel within it, or null. */
  tileAt(latlng) {
    const zoom = this._tileZoom;
    if (zoom === undefined || !this._map) return null;
    const matrix = this.set.matrices[zoom];
    const pixel = this._map.project(latlng, zoom).subtract(this.gridOffset(zoom));
    const x = Math.floor(pixel.x / matrix.tileWidth);
    const y = Math.floor(pixel.y / matrix.tileHeight);
    const found = this._tiles[`${x}:${y}:${zoom}`];
    if (!found) return null;
    return {
      tile: found.el,
      x: pixel.x - x * matrix.tileWidth,
      y: pixel.y - y * matrix.tileHeight,
    };
  },

  /** Return the offset of a matrix in its pixels: the matrices may have different origins. */
  gridOffset(zoom) {
    const { matrices } = this.set;
    const base = matrices[matrices.length - 1];
    const matrix = matrices[zoom];
    return L.point(
      (matrix.originX - base.originX) / matrix.cellSize,
      (base.originY - matrix.originY) / matrix.cellSize,
    );
  },

  getTileSize() {
    const matrix = this.set.matrices[this._tileZoom ?? 0];
    return L.point(matrix.tileWidth, matrix.tileHeight);
  },

  onAdd(map) {
    this.on("tileunload", (event) => event.tile.abort.abort());
    return L.GridLayer.prototype.onAdd.call(this, map);
  },

  _pxBoundsToTileRange(bounds) {
    const offset = this.gridOffset(this._tileZoom);
    const shifted = L.bounds(bounds.min.subtract(offset), bounds.max.subtract(offset));
    return L.GridLayer.prototype._pxBoundsToTileRange.call(this, shifted);
  },

  _getTilePos(coords) {
    return L.GridLayer.prototype._getTilePos.call(this, coords).add(this.gridOffset(coords.z));
  },

  _isValidTile(coords) {
    const matrix = this.set.matrices[coords.z];
    return matrix !== undefined && this.plan.isValid(matrix, coords.y, coords.x);
  },
});
