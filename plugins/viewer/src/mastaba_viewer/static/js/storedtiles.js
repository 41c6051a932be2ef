// Which tiles are stored. A browser logs every tile that it asks for in vain as an error.

import { fetchStored } from "./site.js";

export class StoredTiles {
  constructor(layer) {
    this.layer = layer;
    this.blocks = new Map();
  }

  /** Tell whether a tile of the set that the layer is stored in is there. */
  async has(matrix, row, col) {
    const [height, width] = this.layer.sets[0].blocks[matrix];
    const [blockRow, blockCol] = [Math.floor(row / height), Math.floor(col / width)];
    const key = `${blockRow}/${blockCol}/${matrix}`;
    if (!this.blocks.has(key)) {
      // When it cannot be told, the tile itself is asked for.
      this.blocks.set(key, fetchStored(this.layer.id, matrix, blockRow, blockCol).catch(() => null));
    }
    const rows = await this.blocks.get(key);
    return rows === null || rows[row % height]?.[col % width] === "1";
  }
}
