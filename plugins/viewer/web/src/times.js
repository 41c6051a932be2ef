// The slider of the times of a layer. Each time is a layer of its own name, so its description has all
// addresses and snippets.

import { timeLabel } from "./dates.js";
import { byId, say } from "./dom.js";
import { ShownLayer } from "./shown.js";
import { fetchLayer } from "./site.js";
import { namesOf } from "./choice.js";
import { t } from "./texts.js";

/** Milliseconds for which a time is shown. */
const SHOWN = 1200;

export class Times {
  /** @param page with `become(layer)` */
  constructor(page) {
    this.page = page;
    this.times = page.layer.times;
    if (!this.times) return;
    this.known = new Map();
    this.slider = byId("time");
    this.label(page.layer);
    this.slider.addEventListener("input", () => {
      this.stop();
      this.show(Number(this.slider.value));
    });
    byId("play").addEventListener("click", () => (this.plays ? this.stop() : this.play()));
  }

  /** Put the value of a layer on the slider. */
  label({ times: { value } }) {
    if (value) this.slider.value = this.times.texts.indexOf(value);
    byId("time-value").textContent = value ? timeLabel(value) : "";
    this.slider.setAttribute("aria-valuetext", byId("time-value").textContent);
  }

  /** Fetch the description of the layer at a position. */
  layerAt(position) {
    const { base, texts, others } = this.times;
    const name = `${base};time=${texts[position]}${others}`;
    if (!this.known.has(name)) {
      const found = fetchLayer(name);
      found.catch(() => this.known.delete(name));
      this.known.set(name, found);
    }
    return this.known.get(name);
  }

  async show(position) {
    this.wanted = position;
    byId("time-value").textContent = timeLabel(this.times.texts[position]);
    try {
      const layer = await this.layerAt(position);
      // The slider may have moved on.
      if (this.wanted !== position) return false;
      this.page.become(layer);
      this.label(layer);
      return true;
    } catch {
      this.stop();
      say(t("stopped", { time: timeLabel(this.times.texts[position]) }));
      return false;
    }
  }

  async play() {
    // Of two quick clicks, the second begins anew while the first one still waits.
    const run = (this.plays = {});
    byId("play").setAttribute("aria-pressed", true);
    for (let is = true; is && this.plays === run; ) {
      const next = (Number(this.slider.value) + 1) % this.times.texts.length;
      const ahead = await this.prefetch(next);
      await new Promise((resolve) => setTimeout(resolve, SHOWN));
      is = this.plays === run && (await this.show(next));
      await this.drawn();
      if (ahead) this.page.view.remove(ahead.tiles);
      if (this.page.failures) is = false;
    }
    if (this.plays === run) this.stop();
  }

  stop() {
    this.plays = null;
    byId("play").setAttribute("aria-pressed", false);
  }

  /** Load the tiles of one time in advance, below those that are shown; browsers keep them. */
  async prefetch(position) {
    const { view, choice, options } = this.page;
    const layer = await this.layerAt(position).catch(() => null);
    if (!layer || !choice) return null;
    const ahead = new ShownLayer(view, layer, namesOf(choice));
    ahead.draw({ ...options, zIndex: 0 });
    ahead.tiles.drawn.setOpacity(0);
    return ahead;
  }

  drawn() {
    return new Promise((resolve) => this.page.view.map.once("rendercomplete", resolve));
  }
}
