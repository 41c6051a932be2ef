// Feature information: GetFeatureInfo requests of WMS, and the panel with attributes.

import { isNodata } from "./decoding.js";
import { byId, html, render } from "./dom.js";
import { fetchJson } from "./fetching.js";
import { extentValues, fill, nearestLevel } from "./plans.js";
import { t } from "./texts.js";

/** Pixels on each side of the position: services may search for features around it. */
const AROUND = 50;

/** Return the template of GetFeatureInfo for a layer in a set, if it is supported. */
export function infoTemplate(layer, set) {
  return layer.sources.find(({ info, crs }) => info && crs.includes(set.crs))?.info;
}

/**
 * Request the features at a view {x, y, cellSize} in the CRS of a set: [{table, attributes}], as
 * for vector tiles. The request uses the level nearest to the cell size.
 */
export async function askFeatures(layer, set, { x, y, cellSize }, signal) {
  const { cellSize: cell, originX, originY } = nearestLevel(set, cellSize);
  // Aligned to the grid of the level, so that stored values are not resampled.
  const west = originX + (Math.floor((x - originX) / cell) - AROUND) * cell;
  const north = originY - (Math.floor((originY - y) / cell) - AROUND) * cell;
  const size = 2 * AROUND + 1;
  const box = [west, north - size * cell, west + size * cell, north];
  const places = { ...extentValues(set, box, size, size), I: AROUND, J: AROUND };
  const { features = [] } = await fetchJson(fill(infoTemplate(layer, set), places), { signal });
  return features.map(({ id, properties }) => ({
    table: typeof id === "string" ? id : layer.title,
    attributes: Object.entries(properties ?? {}),
  }));
}

/** Request the elevation at a view; null for nodata. */
export async function askElevation(layer, set, view, signal) {
  const [feature] = await askFeatures(layer, set, view, signal);
  const [, pixel] = feature?.attributes.find(([name]) => name === "pixel") ?? [];
  const value = Number.parseFloat(pixel);
  if (!Number.isFinite(value)) return null;
  // The response rounds values to two decimals.
  const isRoundedNodata = layer.nodata.some((nodata) => Math.abs(value - nodata) < 0.006);
  return isRoundedNodata || isNodata(value, layer.nodata) ? null : value;
}

/** Show the attributes of features ([{table, attributes}]); an empty list closes the panel. */
export function showFeatures(features) {
  byId("identified").hidden = !features.length;
  if (!features.length) return;
  const [{ table, attributes }] = features;
  const heading = features.length > 1 ? `${table} (${t("one-of", { count: features.length })})` : table;
  const rows = attributes.map(([name, value]) => html`<tr><th scope="row">${name}</th><td>${text(value)}</td></tr>`);
  render(html`<h2>${heading}</h2><table><tbody>${rows}</tbody></table>`, byId("features"));
}

function text(value) {
  if (Array.isArray(value)) return value.join(", ");
  return value !== null && typeof value === "object" ? JSON.stringify(value) : String(value);
}
