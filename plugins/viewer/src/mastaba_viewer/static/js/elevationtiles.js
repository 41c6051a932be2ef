// Elevation tiles, drawn with colours and shading.

import { decodeElevations } from "./elevation.js";
import { fetchTile } from "./fetching.js";
import { GridTiles } from "./gridtiles.js";
import { paint, rangeOf } from "./relief.js";

export const ElevationTiles = GridTiles.extend({
  range: null,

  async draw(url, tile, signal, coords) {
    const buffer = await fetchTile(url, signal);
    if (!buffer) return false;
    tile.values = await decodeElevations(buffer, this.description);
    tile.level = coords.z;
    const range = rangeOf(tile.values);
    if (!range) return true;
    this.range = this.range
      ? [Math.min(this.range[0], range[0]), Math.max(this.range[1], range[1])]
      : range;
    this.paintTile(tile);
    return true;
  },

  paintTile(tile) {
    const image = new ImageData(tile.width, tile.height);
    const { cellSize } = this.set.matrices[tile.level];
    paint(image, tile.values, cellSize * this.set.metresPerUnit, this.range);
    tile.getContext("2d").putImageData(image, 0, 0);
  },

  onAdd(map) {
    // When all tiles of a view are loaded, the colours are fitted to the visible range.
    this.on("load", this.fitRange, this);
    return GridTiles.prototype.onAdd.call(this, map);
  },

  fitRange() {
    const tiles = Object.values(this._tiles).filter(({ current, el }) => current && el.values);
    const ranges = tiles.map(({ el }) => rangeOf(el.values)).filter(Boolean);
    if (!ranges.length) return;
    const low = Math.min(...ranges.map(([value]) => value));
    const high = Math.max(...ranges.map(([, value]) => value));
    this.range = [low, high];
    tiles.forEach(({ el }) => this.paintTile(el));
    this.fire("rangechange");
  },

  /** Return the elevation at a place, or null. */
  valueAt(latlng) {
    const found = this.tileAt(latlng);
    if (!found?.tile.values) return null;
    const value = found.tile.values[Math.floor(found.y) * found.tile.width + Math.floor(found.x)];
    return Number.isFinite(value) ? value : null;
  },
});
