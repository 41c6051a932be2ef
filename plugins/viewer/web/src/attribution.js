// The attribution of the visible layers.

import { byId, html, render } from "./dom.js";

/** Return a link, or plain text if the URL is not http(s) and could be a script. */
const link = ({ title, url }) => (/^https?:/i.test(url) ? html`<a href=${url} rel="noopener">${title}</a>` : title);

export function showAttribution(layers) {
  const found = layers.map(({ attribution }) => attribution).filter(Boolean);
  const known = new Map(found.map((one) => [`${one.title} ${one.url}`, one]));
  render([...known.values()].map((one) => html`<span>${link(one)}</span>`), byId("attribution"));
  byId("attribution").hidden = !known.size;
}
