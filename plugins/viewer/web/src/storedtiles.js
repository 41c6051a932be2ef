// Which tiles are stored. Browsers log each request for a missing tile as an error.

import { fetchStored } from "./site.js";

export class StoredTiles {
  constructor(layer) {
    this.layer = layer;
    this.blocks = new Map();
  }

  /** Return whether a tile exists in the set in which the layer is stored. */
  async has(matrix, row, col) {
    const [height, width] = this.layer.sets[0].blocks[matrix];
    const [blockRow, blockCol] = [Math.floor(row / height), Math.floor(col / width)];
    const key = `${blockRow}/${blockCol}/${matrix}`;
    if (!this.blocks.has(key)) {
      // If this request fails, the tile is assumed to exist.
      this.blocks.set(key, fetchStored(this.layer.id, matrix, blockRow, blockCol).catch(() => null));
    }
    const rows = await this.blocks.get(key);
    return rows === null || rows[row % height]?.[col % width] === "1";
  }
}
