// Layers of the map library for choices.

import { ElevationTiles } from "./elevationtiles.js";
import { RasterTiles } from "./rastertiles.js";
import { loadImage } from "./imagetiles.js";
import { fetchTile } from "./fetching.js";
import { planOf } from "./plans.js";
import { VectorTiles } from "./vectortiles.js";

/**
 * Return the drawn layer of a choice. Its attribute `drawn` is the layer of the map library;
 * `valueAt(place, crs)` and `featuresAt(map, pixel)` exist if its tiles contain values or features.
 *
 * @param options "format" and "transparent" of maps, and "zIndex"
 */
export function draw(layer, choice, options) {
  const plan = { ...planOf(layer, choice, options), set: choice.set };
  switch (choice.look.draws) {
    case "vector":
      return new VectorTiles(layer, plan, options);
    case "elevation":
      return new ElevationTiles(layer, plan, options);
    case "tiff":
      return new RasterTiles(plan, options, loadTiff);
    default:
      return new RasterTiles(plan, options, loadImage);
  }
}

async function loadTiff(url, signal) {
  const [{ paintTiff }, buffer] = await Promise.all([import("./tiff.js"), fetchTile(url, signal)]);
  return buffer && paintTiff(document.createElement("canvas"), buffer);
}
