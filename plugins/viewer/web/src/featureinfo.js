// Feature information: GetFeatureInfo requests of WMS, and the panel with attributes.

import { link } from "./attribution.js";
import { isNodata } from "./decoding.js";
import { byId, html, render } from "./dom.js";
import { fetchJson } from "./fetching.js";
import { extentValues, fill, nearestLevel } from "./plans.js";
import { sourceName, sourceText } from "./sourcetext.js";
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

/**
 * Show the attributes of features ([{table, attributes}]), and the source of the pixel; the panel
 * closes if there is nothing to show.
 */
export function showFeatures(features, source = null) {
  byId("identified").hidden = !features.length && !source;
  if (byId("identified").hidden) return;
  const [{ table, attributes } = { table: sourceName(source ?? {}), attributes: [] }] = features;
  const heading = features.length > 1 ? `${table} (${t("one-of", { count: features.length })})` : table;
  // The line says it for people.
  const others = source ? attributes.filter(([name]) => name !== "source") : attributes;
  const rows = others.map(([name, value]) => html`<tr><th scope="row">${name}</th><td>${text(value)}</td></tr>`);
  render(html`<h2>${heading}</h2>${source && passport(source, heading)}<table><tbody>${rows}</tbody></table>`, byId("features"));
}

/** Return what is known of the source of a pixel. */
function passport(source, heading) {
  const { attribution, mixed } = source;
  const name = sourceName(source);
  const whom = attribution?.title && html`<p>© ${link(attribution)}</p>`;
  return html`<div id="passport" class="source">
    <p>${sourceText(source)}</p>
    ${whom}
    ${name && name !== heading ? html`<p class="quiet">${name}</p>` : ""}
    ${mixed ? html`<p class="quiet">${t("source-mixed")}</p>` : ""}
  </div>`;
}

function text(value) {
  if (Array.isArray(value)) return value.join(", ");
  return value !== null && typeof value === "object" ? JSON.stringify(value) : String(value);
}
