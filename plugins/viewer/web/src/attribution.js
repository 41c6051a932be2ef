// The attribution of the visible layers.

import { byId, html, render } from "./dom.js";

/** Return a link, or plain text if the URL is not http(s) and could be a script. */
export const link = ({ title, url }) => (/^https?:/i.test(url) ? html`<a href=${url} rel="noopener">${title}</a>` : title);

/**
 * Show the attributions of layers.
 *
 * @param text of the sources in the view; may be empty
 */
export function showAttribution(layers, text = "") {
  const found = layers.map(({ attribution }) => attribution).filter(Boolean);
  const known = new Map(found.map((one) => [`${one.title} ${one.url}`, one]));
  const sources = text && html`<span id="view-sources">${text}</span>`;
  render([...[...known.values()].map((one) => html`<span>${link(one)}</span>`), sources], byId("attribution"));
  byId("attribution").hidden = !known.size && !text;
}
