// URLs of the viewer pages, and the data fetched from the viewer.

import { byId, fetchJson } from "./dom.js";

const { base } = document.body.dataset;
const known = new Map();

/**
 * Return the data of a page with a map: the list of layers, each with id, title, kind, format, tile matrix set and
 * CRS, and the addresses for its heights; the basemap or null; the description of the layer of the
 * page, or those of both sides.
 */
export const pageData = () => JSON.parse(byId("data").textContent);

export const layerPage = (id) => `${base}/${encodeURIComponent(id)}`;

export const comparePage = (left, right) =>
  `${base}/compare/${encodeURIComponent(left)}/${encodeURIComponent(right)}`;

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

/** Fetch the places that can be searched by name: name, longitude and latitude. */
export async function fetchPlaces() {
  known.set("/places", known.get("/places") ?? fetchJson(`${base}/data/places.json`));
  return (await known.get("/places")).places;
}
