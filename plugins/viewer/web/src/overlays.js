// Overlays on the layer of the page.

import { nearest } from "./choice.js";
import { byId, element, fillSelect } from "./dom.js";
import { draw } from "./drawing.js";
import { learn } from "./projections.js";
import { fetchLayer } from "./site.js";
import { t } from "./texts.js";

export class Overlays {
  /**
   * @param view the map
   * @param layers layers to choose from
   * @param onChange called when the overlays change
   */
  constructor(view, layers, onChange) {
    this.view = view;
    this.layers = layers;
    this.onChange = onChange;
    this.shown = new Map();
    this.below = null;
    byId("overlay").addEventListener("change", ({ target }) => this.add(target.value));
  }

  /** Choose from all layers but the one below. */
  over(layer) {
    this.below = layer.id;
    for (const { tiles } of this.shown.values()) tiles.limit(this.view.crs);
    if (this.shown.has(layer.id)) this.remove(layer.id);
    else this.update();
  }

  async add(id) {
    const layer = await fetchLayer(id);
    learn(layer);
    const near = layer.sets.find(({ crs }) => crs === this.view.crs);
    const choice = nearest(layer, { set: near?.id });
    if (!choice || this.shown.has(id)) return;
    const options = { format: choice.look.formats?.[0], transparent: true, zIndex: 10 + this.shown.size };
    const tiles = draw(layer, choice, options);
    this.shown.set(id, { layer, tiles });
    this.view.add(tiles);
    this.update();
  }

  remove(id) {
    this.view.remove(this.shown.get(id).tiles);
    this.shown.delete(id);
    this.update();
  }

  update() {
    const others = this.layers.filter(({ id }) => id !== this.below && !this.shown.has(id));
    fillSelect(byId("overlay"), [["", t("add-layer")], ...others.map(({ id, title }) => [id, title])], "");
    byId("overlay").disabled = !others.length;
    byId("overlay-field").hidden = !others.length && !this.shown.size;
    byId("overlays").replaceChildren(...[...this.shown].map(([id, { layer }]) => this.item(id, layer)));
    byId("overlays").hidden = !this.shown.size;
    this.onChange();
  }

  item(id, { title }) {
    const label = t("remove-layer", { title });
    const button = element("button", { type: "button", className: "close", "aria-label": label });
    button.addEventListener("click", () => {
      this.remove(id);
      byId("overlay").focus();
    });
    return element("li", {}, element("span", { textContent: title }), button);
  }

  get ids() {
    return [...this.shown.keys()];
  }

  /** The drawn layers, the topmost first. */
  get tiles() {
    return [...this.shown.values()].map(({ tiles }) => tiles).reverse();
  }

  get descriptions() {
    return [...this.shown.values()].map(({ layer }) => layer);
  }
}
