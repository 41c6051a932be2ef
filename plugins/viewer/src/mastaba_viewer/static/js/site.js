// URLs of the viewer pages, and the data fetched from the viewer.

import { fetchJson } from "./dom.js";

const { base } = document.body.dataset;
const known = new Map();

export const layerPage = (id) => `${base}/${encodeURIComponent(id)}`;

export const comparePage = (left, right) =>
  `${base}/compare/${encodeURIComponent(left)}/${encodeURIComponent(right)}`;

/** Fetch the list of layers, each with id, title, kind, format, tile matrix set and CRS. */
export async function fetchLayers() {
  return (await fetchJson(`${base}/data/layers.json`)).layers;
}

/** Fetch the description of a layer, only once. */
export function fetchLayer(id) {
  if (!known.has(id)) known.set(id, fetchJson(`${base}/data/layers/${encodeURIComponent(id)}.json`));
  return known.get(id);
}

/** Fetch which tiles of a block are stored: a text of 1s and 0s for each row. */
export async function fetchStored(layer, matrix, row, col) {
  const names = [layer, matrix, row, col].map(encodeURIComponent);
  return (await fetchJson(`${base}/data/stored/${names.join("/")}`)).rows;
}
