// Elevation tiles, drawn with colours and shading.

import { getIntersection } from "ol/extent.js";
import { get, transform } from "ol/proj.js";
import { canvasOf, pause } from "./dom.js";
import { decodeElevations } from "./decoding.js";
import { fetchTile } from "./fetching.js";
import { boxIn, cellIn } from "./projections.js";
import { RasterTiles } from "./rastertiles.js";
import { USUAL, paint, rangeOf } from "./relief.js";

/** Decoded tiles that are kept, so that other colours need no request. */
const KEPT = 160;

export class ElevationTiles extends RasterTiles {
  constructor(description, plan, options) {
    super(plan, options, (...wanted) => this.paintTile(...wanted));
    this.description = description;
    this.kept = new Map();
    this.look = { ...USUAL };
  }

  async paintTile(url, signal, place) {
    const values = await this.values(url, signal, String(place));
    const { cellSize, tileWidth, tileHeight } = this.plan.matrices[place[0]];
    const range = values && (this.range ?? rangeOf([values]));
    if (!range) return values && canvasOf(tileWidth, tileHeight);
    this.seen ??= range;
    // Many tiles may be painted again at once, with other colours.
    await pause();
    const metres = cellSize * get(this.plan.set.crs).getMetersPerUnit();
    const tile = this.kept.get(String(place));
    const painted = [canvasOf(tileWidth, tileHeight), values, metres, { ...this.look, range }];
    if (tile) Object.assign(tile, { painted });
    this.joinEdges(place, tileWidth, tileHeight);
    return this.paintPart(painted, place);
  }

  /** Paint what is in a box, or all, of a tile. */
  paintPart(painted, place, box) {
    return paint(...painted, { beside: (...at) => this.beside(place, ...at), box });
  }

  /** Return the value at a column and row beside a tile, if the tile there is loaded. */
  beside([z, row, col], x, y) {
    const { tileWidth, tileHeight } = this.plan.matrices[z];
    const [down, right] = [Math.floor(y / tileHeight), Math.floor(x / tileWidth)];
    const { known } = this.kept.get(String([z, row + down, col + right])) ?? {};
    return known?.[(y - down * tileHeight) * tileWidth + x - right * tileWidth];
  }

  /** Paint the edges of the tiles around a new one again: its values are the first ones beyond them. */
  joinEdges([z, row, col], width, height) {
    for (const [y, x, box] of [
      [row - 1, col, [0, height - 1, width, height]],
      [row + 1, col, [0, 0, width, 1]],
      [row, col - 1, [width - 1, 0, width, height]],
      [row, col + 1, [0, 0, 1, height]],
    ]) {
      const { painted } = this.kept.get(String([z, y, x])) ?? {};
      if (painted) this.paintPart(painted, [z, y, x], box);
    }
    this.drawn.changed();
  }

  /** Return the values of a tile, or null if it does not exist. */
  async values(url, signal, key) {
    if (!this.kept.has(key)) {
      const tile = { loading: fetchTile(url, signal).then((found) => found && decodeElevations(found, this.description)) };
      this.kept.set(key, tile);
      tile.loading.then((known) => Object.assign(tile, { known }), () => this.kept.delete(key));
      if (this.kept.size > KEPT) this.kept.delete(this.kept.keys().next().value);
    }
    return this.kept.get(key).loading;
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
  fit(view) {
    const range = rangeOf(this.valuesIn(view));
    if (!range || String(range) === String(this.seen)) return false;
    this.seen = range;
    this.setLook({});
    return !this.look.range;
  }

  /** Return the visible values of loaded tiles, in no particular order. */
  valuesIn(view) {
    const { set, grid } = this.plan;
    const box = boxIn(view.box, view.crs, set.crs);
    const found = [];
    if (!box) return found;
    const z = grid.getZForResolution(cellIn(view.cellSize, view.crs, set.crs));
    grid.forEachTileCoord(box, z, (tile) => {
      const place = this.answering([z, tile[2], tile[1]]);
      if (place) this.cut(place, getIntersection(box, grid.getTileCoordExtent(tile)), found);
    });
    return found;
  }

  /** Return the place of the loaded tile whose values are drawn in the middle of another one. */
  answering(place) {
    const middle = this.plan.grid.getTileCoordCenter([place[0], place[2], place[1]]);
    for (let [z, row, col] = place; z >= 0; z -= 1) {
      if (z < place[0]) [, col, row] = this.plan.grid.getTileCoordForCoordAndZ(middle, z);
      if (this.kept.get(String([z, row, col]))?.known) return [z, row, col];
    }
    return null;
  }

  /** Add the rows of a tile inside a box to a list. */
  cut([z, row, col], [west, south, east, north], found) {
    const { cellSize, tileWidth, tileHeight } = this.plan.matrices[z];
    const { known } = this.kept.get(String([z, row, col]));
    const [left, , , top] = this.plan.grid.getTileCoordExtent([z, col, row]);
    const from = Math.max(0, Math.floor((west - left) / cellSize));
    const to = Math.min(tileWidth, Math.ceil((east - left) / cellSize));
    const last = Math.min(tileHeight, Math.ceil((top - south) / cellSize));
    for (let y = Math.max(0, Math.floor((top - north) / cellSize)); y < last; y += 1) {
      if (from < to) found.push(known.subarray(y * tileWidth + from, y * tileWidth + to));
    }
  }

  /** Return the elevation at a place, or null. */
  valueAt(place, view) {
    const { set, matrices, grid } = this.plan;
    const [x, y] = transform(place, view.crs, set.crs);
    for (let z = grid.getZForResolution(cellIn(view.cellSize, view.crs, set.crs)); z >= 0; z -= 1) {
      const { cellSize, tileWidth } = matrices[z];
      const [, col, row] = grid.getTileCoordForCoordAndZ([x, y], z);
      const known = this.kept.get(String([z, row, col]))?.known;
      if (!known) continue;
      const [left, , , top] = grid.getTileCoordExtent([z, col, row]);
      // At the edge of a tile, rounding errors may lead to a cell before the first one.
      const cells = (distance) => Math.max(0, Math.floor(distance / cellSize));
      const value = known[cells(top - y) * tileWidth + cells(x - left)];
      return Number.isFinite(value) ? value : null;
    }
    return null;
  }
}
