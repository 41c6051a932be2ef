// Overlays on the layer of the page.

import { byId, html, render } from "./dom.js";
import { ShownLayer } from "./shown.js";
import { fetchLayer } from "./site.js";
import { t } from "./texts.js";

export class Overlays {
  /** @param onChange called when the overlays change */
  constructor(view, onChange) {
    this.view = view;
    this.onChange = onChange;
    this.shown = new Map();
    byId("overlay").addEventListener("change", ({ target }) => this.add(target.value));
  }

  async add(id) {
    const layer = await fetchLayer(id);
    const overlay = new ShownLayer(this.view, layer, { set: layer.sets.find(({ crs }) => crs === this.view.crs)?.id });
    if (!overlay.choice || this.shown.has(id)) return;
    overlay.draw({ zIndex: 10 + this.shown.size });
    this.shown.set(id, overlay);
    this.update();
  }

  remove(id) {
    this.view.remove(this.shown.get(id).tiles);
    this.shown.delete(id);
    this.update();
    byId("overlay").focus();
  }

  update() {
    for (const option of byId("overlay").options) option.disabled = this.shown.has(option.value);
    byId("overlay").value = "";
    byId("overlays").hidden = !this.shown.size;
    render([...this.shown.values()].map(({ layer }) => this.item(layer)), byId("overlays"));
    this.onChange();
  }

  item({ id, title }) {
    const label = t("remove-layer", { title });
    const button = html`<button type="button" class="close" aria-label=${label} @click=${() => this.remove(id)}></button>`;
    return html`<li><span>${title}</span>${button}</li>`;
  }
}
