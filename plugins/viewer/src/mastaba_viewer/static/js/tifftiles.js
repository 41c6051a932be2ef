// TIFF tiles with 8-bit samples.

import { fetchTile } from "./fetching.js";
import { GridTiles } from "./gridtiles.js";
import { paintTiff } from "./tiffpicture.js";

export const TiffTiles = GridTiles.extend({
  async draw(url, tile, signal) {
    const buffer = await fetchTile(url, signal);
    if (!buffer) return false;
    await paintTiff(tile, buffer);
    return true;
  },
});
