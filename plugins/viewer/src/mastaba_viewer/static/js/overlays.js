// Overlays on the layer of the page. They must be available in the same tile matrix set.

import { nearest } from "./choice.js";
import { byId, element, fillSelect } from "./dom.js";
import { draw } from "./drawing.js";
import { fetchLayer } from "./site.js";

export class Overlays {
  /**
   * @param layers layers to choose from
   * @param onChange called when the overlays change
   */
  constructor(layers, onChange) {
    this.layers = layers;
    this.onChange = onChange;
    this.shown = new Map();
    this.map = null;
    byId("overlay").addEventListener("change", ({ target }) => this.add(target.value));
  }

  /** Start without overlays on a new map. */
  open(map, set) {
    this.map = map;
    this.set = set;
    this.shown.clear();
    this.update();
  }

  async add(id) {
    const { map, set } = this;
    const layer = await fetchLayer(id);
    const choice = nearest(layer, {}, null, layer.sets.filter((one) => one.id === set.id));
    if (!choice || map !== this.map || this.shown.has(id)) return;
    const format = choice.look.formats?.[0];
    const tiles = draw(layer, choice, { format, transparent: true, zIndex: 10 + this.shown.size });
    this.shown.set(id, { layer, tiles });
    tiles.addTo(map);
    this.update();
  }

  remove(id) {
    this.shown.get(id).tiles.remove();
    this.shown.delete(id);
    this.update();
    byId("overlay").focus();
  }

  update() {
    const others = this.layers.filter(({ id, set }) => set === this.set.id && !this.shown.has(id));
    fillSelect(byId("overlay"), [["", "Add a layer…"], ...others.map(({ id, title }) => [id, title])], "");
    byId("overlay").disabled = !others.length;
    byId("overlay-field").hidden = !others.length && !this.shown.size;
    byId("overlays").replaceChildren(...[...this.shown].map(([id, { layer }]) => this.item(id, layer)));
    byId("overlays").hidden = !this.shown.size;
    this.onChange();
  }

  item(id, { title }) {
    const button = element("button", { type: "button", className: "close", "aria-label": `Remove ${title}` });
    button.addEventListener("click", () => this.remove(id));
    return element("li", {}, element("span", { textContent: title }), button);
  }

  /** The Leaflet layers, the topmost first. */
  get tiles() {
    return [...this.shown.values()].map(({ tiles }) => tiles).reverse();
  }

  get descriptions() {
    return [...this.shown.values()].map(({ layer }) => layer);
  }
}
