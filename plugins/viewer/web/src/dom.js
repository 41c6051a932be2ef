// Elements of the page. External texts become text nodes and properties, never markup.

import { html, render } from "lit-html";

export { html, render };

export const byId = (id) => document.getElementById(id);

export const canvasOf = (width, height) => Object.assign(document.createElement("canvas"), { width, height });

/** Let the browser react to the user before work goes on. */
export const pause = () => new Promise((resolve) => setTimeout(resolve));

/** Show a notice over the map; an empty text hides it. An action is {label, run}. */
export function say(text, action) {
  const button = action && html`<button type="button" class="button" @click=${action.run}>${action.label}</button>`;
  render(html`${text}${button ?? ""}`, byId("notice"));
  byId("notice").hidden = !text;
}
