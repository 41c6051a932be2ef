// Tiles of float32 elevations: bare numbers, or TIFF.

import { GridTiles } from "./grid.js";
import { paint, rangeOf } from "./relief.js";
import { decodeTiff } from "./tiff.js";

const METRES_PER_DEGREE = 111319.49;

export const ElevationTiles = GridTiles.extend({
  range: null,

  async draw(coords, tile, signal) {
    const buffer = await this.fetchTile(coords, signal);
    if (!buffer) return;
    tile.values = this.withoutNodata(await this.decode(buffer));
    tile.level = coords.z;
    const range = rangeOf(tile.values);
    if (!range) return;
    this.range = this.range
      ? [Math.min(this.range[0], range[0]), Math.max(this.range[1], range[1])]
      : range;
    this.paintTile(tile);
  },

  async decode(buffer) {
    if (this.description.mediaType !== "image/tiff") return new Float32Array(buffer);
    return (await decodeTiff(buffer)).samples;
  },

  withoutNodata(values) {
    const [nodata] = this.description.nodata;
    // Compared as stored: the number of the configuration may have more digits.
    const marker = Math.fround(nodata);
    for (let at = 0; at < values.length; at += 1) {
      if (values[at] === marker || Math.abs(values[at]) > 1e30) values[at] = NaN;
    }
    return values;
  },

  paintTile(tile) {
    const image = new ImageData(tile.width, tile.height);
    const { cellSize } = this.set.matrices[tile.level];
    paint(image, tile.values, this.set.geographic ? cellSize * METRES_PER_DEGREE : cellSize, this.range);
    tile.getContext("2d").putImageData(image, 0, 0);
  },

  onAdd(map) {
    // Once all tiles of a view are there, their colours spread over what can be seen.
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
