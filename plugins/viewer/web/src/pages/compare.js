// Two layers on one map, with a divider between them.

import "../styles/viewer.css";
import "../styles/map.css";
import "../styles/compare.css";
import { getRenderPixel } from "ol/render.js";
import { intersection } from "../addresses.js";
import { showAttribution } from "../attribution.js";
import { namesOf, nearest, sourcesOf, styleOptions } from "../choice.js";
import { Divider } from "../divider.js";
import { bindSkipLink, byId, fillSelect, say } from "../dom.js";
import { draw } from "../drawing.js";
import { levelsOf, nearestMatrix } from "../levels.js";
import { MapView } from "../mapview.js";
import { boxIn, learn } from "../projections.js";
import { showReadout } from "../readout.js";
import { comparePage, pageData } from "../site.js";
import { t } from "../texts.js";
import { readState, writeState } from "../viewstate.js";

/** One side: a layer and its choice of source and style. */
class Side {
  constructor(name, layer) {
    this.name = name;
    this.layer = layer;
    this.choice = null;
    this.tiles = null;
    this.box = byId(name);
  }

  choose(wanted, changed) {
    this.choice = nearest(this.layer, wanted, changed);
  }

  fillControls() {
    const { source, look } = this.choice;
    const sources = sourcesOf(this.layer);
    fillSelect(this.control("source"), sources.map(({ id, title }) => [id, title]), source.id);
    this.control("source").hidden = false;
    const styles = styleOptions(this.layer, sources);
    fillSelect(this.control("style"), styles, look.style ?? "");
    this.control("style").hidden = styles.length < 2;
  }

  control(name) {
    return this.box.querySelector(`.choose-${name}`);
  }
}

class ComparePage {
  constructor(left, right, layers) {
    this.sides = [new Side("left", left), new Side("right", right)];
    this.layers = layers;
    this.view = new MapView();
    this.divider = new Divider(byId("divider"), byId("stage"), () => this.view.map.render());
    this.divider.handle.addEventListener("pointerup", () => this.write());
    this.divider.handle.addEventListener("keyup", () => this.write());
  }

  start() {
    this.fillLayers();
    showAttribution(this.sides.map(({ layer }) => layer));
    for (const side of this.sides) {
      learn(side.layer);
      side.choose({});
    }
    if (!this.sides.every(({ choice }) => choice)) {
      say(t("no-service-both"));
      return;
    }
    // The map has the grid of the left layer; the other one is reprojected.
    [this.set] = this.sides.map(({ choice }) => choice.set);
    this.bind();
    this.follow();
    const level = () => nearestMatrix(levelsOf(this.set), this.view.cellSize).id;
    this.updateReadout = showReadout(this.view, byId("readout"), (place) => this.elevationAt(place), level);
    window.addEventListener("hashchange", () => this.follow());
  }

  /** Return the intersection of both layers, or else the box of the left one. */
  commonBox() {
    const [left, right] = this.sides.map(({ choice: { set } }) => boxIn(set.bbox, set.crs, this.set.crs));
    return intersection(left, right) ?? left;
  }

  fillLayers() {
    const [left, right] = this.sides;
    const options = this.layers.map(({ id, title }) => [id, title]);
    for (const side of this.sides) {
      const select = side.control("layer");
      fillSelect(select, options, side.layer.id);
      select.disabled = false;
      select.addEventListener("change", () => {
        location.assign(comparePage(left.control("layer").value, right.control("layer").value));
      });
    }
    byId("swap").hidden = false;
    byId("swap").addEventListener("click", () => {
      location.assign(comparePage(right.layer.id, left.layer.id));
    });
  }

  bind() {
    for (const side of this.sides) {
      for (const name of ["source", "style"]) {
        side.control(name).addEventListener("change", ({ target }) => {
          const wanted = { ...namesOf(side.choice), [name]: target.value === "" ? null : target.value };
          side.choose(wanted, name);
          this.draw(side);
          this.write();
        });
      }
    }
    this.view.map.on("moveend", () => this.write());
    this.view.map.on("rendercomplete", () => this.complete());
  }

  /** Show the state described by the URL fragment. */
  follow() {
    const { view, values } = readState();
    this.view.show(this.set.crs, this.set, view, this.commonBox());
    for (const side of this.sides) {
      const style = values[`${side.name}-style`];
      side.choose({ source: values[`${side.name}-source`], style: style === "" ? null : style });
      this.draw(side);
    }
    this.divider.handle.hidden = false;
    const part = Number.parseFloat(values.split);
    this.divider.moveTo(Number.isFinite(part) ? part : 0.5);
    this.write();
  }

  draw(side) {
    side.fillControls();
    if (side.tiles) this.view.remove(side.tiles);
    const { choice, layer } = side;
    const options = { format: choice.look.formats?.[0], transparent: true };
    side.tiles = draw(layer, choice, options);
    side.tiles.drawn.on("prerender", (event) => this.clip(side, event));
    side.tiles.drawn.on("postrender", ({ context }) => context.restore());
    this.view.add(side.tiles);
  }

  /** Draw only on one side of the divider. */
  clip(side, event) {
    const [width, height] = this.view.map.getSize();
    const middle = width * this.divider.part;
    const [from, to] = side.name === "left" ? [0, middle] : [middle, width];
    const { context } = event;
    const corners = [[from, 0], [to, 0], [to, height], [from, height]].map((corner) => getRenderPixel(event, corner));
    context.save();
    context.beginPath();
    corners.forEach(([x, y]) => context.lineTo(x, y));
    context.closePath();
    context.clip();
  }

  complete() {
    const { view } = this;
    const changes = this.sides.map(({ tiles }) => tiles.fit?.(view.box, view.crs, view.cellSize));
    if (changes.some(Boolean)) view.changed();
    this.updateReadout?.();
  }

  elevationAt(place) {
    const { view } = this;
    const [x] = view.map.getPixelFromCoordinate(place) ?? [0];
    const isLeft = x < view.map.getSize()[0] * this.divider.part;
    return this.sides[isLeft ? 0 : 1].tiles?.valueAt?.(place, view.crs, view.cellSize) ?? null;
  }

  write() {
    const values = {};
    for (const { name, layer, choice } of this.sides) {
      const usual = nearest(layer, {});
      if (choice.source !== usual.source) values[`${name}-source`] = choice.source.id;
      if (choice.look.style !== usual.look.style) values[`${name}-style`] = choice.look.style ?? "";
    }
    if (this.divider.part !== 0.5) values.split = Number(this.divider.part.toFixed(3));
    writeState(this.view.view, values);
  }
}

bindSkipLink();
try {
  const { layers, sides } = pageData();
  new ComparePage(...sides, layers).start();
} catch (error) {
  say(t("failed", { message: error.message }));
  throw error;
}
