// The attribution of the visible layers.

import { byId, element, link } from "./dom.js";

export function showAttribution(layers) {
  const known = new Map();
  for (const { attribution } of layers) {
    if (attribution) known.set(`${attribution.title} ${attribution.url}`, attribution);
  }
  const parts = [...known.values()].map(({ title, url }) => element("span", {}, link(title, url)));
  byId("attribution").replaceChildren(...parts);
  byId("attribution").hidden = !parts.length;
}

