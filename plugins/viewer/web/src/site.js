// URLs of the viewer pages, and the data fetched from the viewer.

import { byId, say } from "./dom.js";
import { fetchJson } from "./fetching.js";
import { t } from "./texts.js";

export const { base } = document.body.dataset;

export const layerPage = (id) => `${base}/${encodeURIComponent(id)}`;

export const comparePage = (left, right) =>
  `${base}/compare/${encodeURIComponent(left)}/${encodeURIComponent(right)}`;

/** Fetch the description of a layer. */
export const fetchLayer = (id) => fetchJson(`${base}/data/layers/${encodeURIComponent(id)}.json`);

/** Start a page with a map, with a function of the data that the server has put into the page. */
export function startPage(start) {
  // The skip link moves the focus without changing the URL fragment.
  byId("skip").addEventListener("click", (event) => {
    event.preventDefault();
    byId("map").focus();
  });
  try {
    start(JSON.parse(byId("data").textContent));
  } catch (error) {
    say(t("failed", { message: error.message }));
    throw error;
  }
}

/** The credential in all addresses of the page; undefined without one. */
export const credential = /\/~([^/]+)/.exec(base)?.[1];

/** Return a text as people may see it: without the credential that is in all addresses. */
export const withoutCredential = (text) => (credential ? text?.replaceAll(credential, "…") : text);
