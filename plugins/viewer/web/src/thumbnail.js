// Thumbnails of layers, painted from one tile.

import { decodeElevations } from "./elevation.js";
import { fetchTile } from "./fetching.js";
import { USUAL, paint, rangeOf } from "./relief.js";

const PAINTERS = {
  tiff: async (canvas, buffer) => (await import("./tiff.js")).paintTiff(canvas, buffer),
  vector: async (canvas, ...tile) => (await import("./vectorpicture.js")).paintVector(canvas, ...tile),
  async elevation(canvas, buffer, tile) {
    const values = await decodeElevations(buffer, tile);
    const range = rangeOf(values);
    if (!range) return;
    const image = new ImageData(tile.width, tile.height);
    paint(image, values, tile.metresPerPixel, { ...USUAL, range });
    canvas.getContext("2d").putImageData(image, 0, 0);
  },
};

/** Fetch and paint the tile described in the data of a canvas. */
export async function paintThumbnail(canvas) {
  const tile = JSON.parse(canvas.dataset.tile);
  const buffer = await fetchTile(tile.url);
  if (!buffer) throw new Error("the tile does not exist");
  canvas.width = tile.width;
  canvas.height = tile.height;
  await PAINTERS[tile.draws](canvas, buffer, tile);
  canvas.classList.add("painted");
}
