// WMS GetFeatureInfo requests.

import { extentValues, fill } from "./addresses.js";
import { fetchJson } from "./dom.js";
import { isNodata } from "./elevation.js";
import { levelsOf, nearestMatrix } from "./levels.js";

/** Pixels on each side of the position: services may search for features around it. */
const AROUND = 50;

/** Return the WMS source that supports GetFeatureInfo for a layer in a set, or null. */
export function infoSource(layer, set) {
  return layer.sources.find(({ info, crs }) => info && crs.includes(set.crs)) ?? null;
}

/**
 * Request the features at a position in the CRS of a set: [{table, attributes}], as for vector
 * tiles. The request uses the level nearest to a cell size.
 */
export async function askFeatures(layer, set, [x, y], cellSize, signal) {
  const { cellSize: cell, originX, originY } = nearestMatrix(levelsOf(set), cellSize);
  // Aligned to the grid of the level, so that stored values are not resampled.
  const west = originX + (Math.floor((x - originX) / cell) - AROUND) * cell;
  const north = originY - (Math.floor((originY - y) / cell) - AROUND) * cell;
  const size = 2 * AROUND + 1;
  const box = [west, north - size * cell, west + size * cell, north];
  const url = fill(infoSource(layer, set).info, {
    ...extentValues(set, box, size, size),
    I: AROUND,
    J: AROUND,
  });
  const { features = [] } = await fetchJson(url, { signal });
  return features.map(({ id, properties }) => ({
    table: typeof id === "string" ? id : layer.title,
    attributes: Object.entries(properties ?? {}),
  }));
}

/** Request the elevation at a position; null for nodata. */
export async function askElevation(layer, set, place, cellSize, signal) {
  const [feature] = await askFeatures(layer, set, place, cellSize, signal);
  const [, pixel] = feature?.attributes.find(([name]) => name === "pixel") ?? [];
  const value = Number.parseFloat(Array.isArray(pixel) ? pixel[0] : pixel);
  if (!Number.isFinite(value)) return null;
  // The response rounds values to two decimals.
  const isRoundedNodata = layer.nodata.some((nodata) => Math.abs(value - nodata) < 0.006);
  return isRoundedNodata || isNodata(value, layer.nodata) ? null : value;
}
