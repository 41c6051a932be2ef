// Elevation tiles, drawn with colours and shading.

import { decodeElevations } from "./elevation.js";
import { fetchTile } from "./fetching.js";
import { boxIn, moved } from "./projections.js";
import { RasterTiles } from "./rastertiles.js";
import { USUAL, paint, rangeOf } from "./relief.js";
import { get } from "ol/proj.js";

/** Decoded tiles that are kept, so that other colours need no request. */
const KEPT = 160;

export class ElevationTiles extends RasterTiles {
  constructor(description, plan, options) {
    super(plan, options, (...wanted) => this.paintTile(...wanted));
    this.description = description;
    this.kept = new Map();
    this.seen = null;
    this.look = { ...USUAL };
  }

  async paintTile(url, signal, matrix, key) {
    if (!this.kept.has(key)) {
      const values = fetchTile(url, signal).then(
        (buffer) => buffer && decodeElevations(buffer, this.description),
      );
      this.kept.set(key, { values });
      values.catch(() => this.kept.delete(key));
      if (this.kept.size > KEPT) this.kept.delete(this.kept.keys().next().value);
    }
    const tile = this.kept.get(key);
    tile.known = await tile.values;
    if (!tile.known) return null;
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [matrix.tileWidth, matrix.tileHeight];
    const range = this.range ?? rangeOf(tile.known);
    if (!range) return canvas;
    this.seen ??= range;
    const image = new ImageData(canvas.width, canvas.height);
    const metres = matrix.cellSize * get(this.plan.set.crs).getMetersPerUnit();
    paint(image, tile.known, metres, { ...this.look, range });
    canvas.getContext("2d").putImageData(image, 0, 0);
    return canvas;
  }

  /** Lowest and highest value of the colours. */
  get range() {
    return this.look.range ?? this.seen;
  }

  /** Draw with another look: see relief.js. */
  setLook(look) {
    this.look = { ...this.look, ...look };
    this.source.setKey(JSON.stringify([this.look, this.seen]));
  }

  /** Fit the colours to the visible values; return whether they change. */
  fit(box, crs, cellSize) {
    const values = this.valuesIn(box, crs, cellSize);
    const range = rangeOf(values);
    if (!range || String(range) === String(this.seen)) return false;
    this.seen = range;
    this.setLook({});
    return !this.look.range;
  }

  /** Return the visible values of loaded tiles, in no particular order. */
  valuesIn(box, crs, cellSize) {
    const { set, matrices } = this.plan;
    const [west, south, east, north] = boxIn(box, crs, set.crs);
    const z = this.level(cellSize, crs);
    const { cellSize: cell, originX, originY, tileWidth, tileHeight } = matrices[z];
    const found = [];
    for (const [key, { known }] of this.kept) {
      const [level, col, row] = key.split("/").map(Number);
      if (level !== z || !known) continue;
      const left = originX + col * tileWidth * cell;
      const top = originY - row * tileHeight * cell;
      const from = Math.max(0, Math.floor((west - left) / cell));
      const to = Math.min(tileWidth, Math.ceil((east - left) / cell));
      const last = Math.min(tileHeight, Math.ceil((top - south) / cell));
      for (let y = Math.max(0, Math.floor((top - north) / cell)); y < last; y += 1) {
        if (from < to) found.push(known.subarray(y * tileWidth + from, y * tileWidth + to));
      }
    }
    return found;
  }

  level(cellSize, crs) {
    const cell = (cellSize * get(crs).getMetersPerUnit()) / get(this.plan.set.crs).getMetersPerUnit();
    return this.source.getTileGrid().getZForResolution(cell);
  }

  /** Return the elevation at a place, or null. */
  valueAt(place, crs, cellSize) {
    const { set, matrices } = this.plan;
    const [x, y] = moved(place, crs, set.crs);
    for (let z = this.level(cellSize, crs); z >= 0; z -= 1) {
      const { cellSize: cell, originX, originY, tileWidth, tileHeight } = matrices[z];
      const [right, down] = [Math.floor((x - originX) / cell), Math.floor((originY - y) / cell)];
      const [col, row] = [Math.floor(right / tileWidth), Math.floor(down / tileHeight)];
      const known = this.kept.get(`${z}/${col}/${row}`)?.known;
      const value = known?.[(down - row * tileHeight) * tileWidth + right - col * tileWidth];
      if (known) return Number.isFinite(value) ? value : null;
    }
    return null;
  }
}
