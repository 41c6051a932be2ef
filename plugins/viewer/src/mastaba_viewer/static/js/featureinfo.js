// What a service says about a place: WMS GetFeatureInfo.

import { extentValues, fill } from "./addresses.js";
import { fetchJson } from "./dom.js";
import { isNodata } from "./elevation.js";
import { levelsOf } from "./grid.js";

/** Pixels on each side of the place: services that look for features near it need some room. */
const AROUND = 50;

/** Return the WMS source that answers questions about a layer in a set, or null. */
export function infoSource(layer, set) {
  return layer.sources.find(({ info, crs }) => info && crs.includes(set.crs)) ?? null;
}

/**
 * Ask for the features at a place: [{table, attributes}], as vector tiles have them.
 *
 * @param zoom of the map; the question is put at the nearest level of the layer
 */
export async function askFeatures(layer, set, zoom, { lng, lat }, signal) {
  const zooms = levelsOf(set);
  const level = Math.min(zooms[zooms.length - 1], Math.max(zooms[0], Math.round(zoom)));
  const { cellSize: cell, originX, originY } = set.matrices[level];
  // On the grid of the level, so that values come as they are stored.
  const west = originX + (Math.floor((lng - originX) / cell) - AROUND) * cell;
  const north = originY - (Math.floor((originY - lat) / cell) - AROUND) * cell;
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

/** Ask for the elevation at a place; null where there is none. */
export async function askElevation(layer, set, zoom, latlng, signal) {
  const [feature] = await askFeatures(layer, set, zoom, latlng, signal);
  const [, pixel] = feature?.attributes.find(([name]) => name === "pixel") ?? [];
  const value = Number.parseFloat(Array.isArray(pixel) ? pixel[0] : pixel);
  if (!Number.isFinite(value)) return null;
  // Values are written with two decimals.
  const isNone = layer.nodata.some((nodata) => Math.abs(value - nodata) < 0.006);
  return isNone || isNodata(value, layer.nodata) ? null : value;
}
