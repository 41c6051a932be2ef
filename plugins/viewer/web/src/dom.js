// Elements of the page. External texts become text nodes and properties, never markup.

import { html, render } from "lit-html";

export { html, render };

export const byId = (id) => document.getElementById(id);

export const canvasOf = (width, height) => Object.assign(document.createElement("canvas"), { width, height });

/** Show a notice over the map; an empty text hides it. */
export function say(text) {
  byId("notice").textContent = text;
  byId("notice").hidden = !text;
}
