// Two layers on one map, with a divider between them.

import { intersection } from "./addresses.js";
import { isOffered, namesOf, nearest, styleOptions } from "./choice.js";
import { byId, fillSelect, say } from "./dom.js";
import { Divider } from "./divider.js";
import { draw } from "./drawing.js";
import { cellSizeAt } from "./grid.js";
import { bindSkipLink, openMap, showAttribution } from "./mapview.js";
import { boxIn, zoomsIn } from "./places.js";
import { showReadout } from "./readout.js";
import { comparePage, fetchLayer, fetchLayers } from "./site.js";
import { readState, writeState } from "./viewstate.js";

/** One side: a layer and its choice of source and style in the grid of the map. */
class Side {
  constructor(name, layer) {
    this.name = name;
    this.layer = layer;
    this.choice = null;
    this.tiles = null;
    this.box = byId(name);
  }

  /** Return the layer's own description of a set, or one without limits, for maps only. */
  setLike(set) {
    const own = this.layer.sets.find(({ id }) => id === set.id);
    return own ?? { ...set, limits: null, blocks: null, bbox: null };
  }

  /** Return whether this layer can be shown in a set. */
  fits(set) {
    return nearest(this.layer, {}, null, [this.setLike(set)]) !== null;
  }

  choose(set, wanted, changed) {
    this.choice = nearest(this.layer, { ...wanted, set: set.id }, changed, [this.setLike(set)]);
  }

  fillControls() {
    const { source, set, look } = this.choice;
    const sources = this.layer.sources.filter(
      (one) => isOffered(one, set) && one.styles.some(({ draws }) => draws),
    );
    const [sourceBox, styleBox] = [this.control("source"), this.control("style")];
    fillSelect(sourceBox, sources.map(({ id, title }) => [id, title]), source.id);
    sourceBox.hidden = false;
    const styles = styleOptions(this.layer, sources);
    fillSelect(styleBox, styles, look.style ?? "");
    styleBox.hidden = styles.length < 2;
  }

  control(name) {
    return this.box.querySelector(`.choose-${name}`);
  }

  draw(map) {
    this.tiles?.remove();
    const format = this.choice.look.formats?.[0];
    this.tiles = draw(this.layer, this.choice, { format, transparent: true, pane: this.name });
    this.tiles.addTo(map);
  }
}

class ComparePage {
  constructor(left, right, layers) {
    this.sides = [new Side("left", left), new Side("right", right)];
    this.layers = layers;
    this.map = null;
    this.divider = new Divider(byId("divider"), byId("stage"), () => this.divide());
    this.divider.handle.addEventListener("pointerup", () => this.write());
    this.divider.handle.addEventListener("keyup", () => this.write());
  }

  start() {
    this.fillLayers();
    showAttribution(this.sides.map(({ layer }) => layer));
    const set = this.commonSet();
    if (!set) {
      say("No service offers both layers in the same tile matrix set or CRS.");
      return;
    }
    this.set = set;
    this.bind();
    this.follow();
    window.addEventListener("hashchange", () => this.follow());
  }

  /** Return the first set of either layer in which both can be shown. */
  commonSet() {
    const sets = this.sides.flatMap(({ layer }) => layer.sets);
    return sets.find((set) => this.sides.every((side) => side.fits(set)));
  }

  /** Return the intersection of both layers, or else the box of the first whose box is known. */
  commonBox() {
    const boxes = this.sides.map((side) => boxIn(side.layer, side.setLike(this.set))).filter(Boolean);
    return boxes.reduce((one, other) => intersection(one, other) ?? one);
  }

  zooms() {
    const all = this.sides.flatMap((side) => zoomsIn(side.layer, side.setLike(this.set)));
    return [Math.min(...all), Math.max(...all)];
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
      location.assign(comparePage(right.layer.id, left.layer.id) + location.hash);
    });
  }

  bind() {
    for (const side of this.sides) {
      for (const name of ["source", "style"]) {
        side.control(name).addEventListener("change", ({ target }) => {
          const wanted = { ...namesOf(side.choice), [name]: target.value === "" ? null : target.value };
          side.choose(this.set, wanted, name);
          side.fillControls();
          side.draw(this.map);
          this.write();
        });
      }
    }
  }

  /** Show the state described by the URL fragment. */
  follow() {
    const { view, values } = readState();
    this.map?.remove();
    this.map = openMap(this.set, view, this.commonBox(), this.zooms());
    for (const side of this.sides) {
      const style = values[`${side.name}-style`];
      side.choose(this.set, {
        source: values[`${side.name}-source`],
        style: style === "" ? null : style,
      });
      side.fillControls();
      this.map.createPane(side.name).style.zIndex = 200;
      side.tiles = null;
      side.draw(this.map);
    }
    this.updateReadout = showReadout(this.map, this.set, byId("readout"), (latlng) => this.elevationAt(latlng));
    this.sides.forEach(({ tiles }) => tiles.on("load", this.updateReadout));
    this.map.on("move zoomend resize", () => this.divide());
    this.map.on("moveend", () => this.write());
    this.divider.handle.hidden = false;
    const part = Number.parseFloat(values.split);
    this.divider.moveTo(Number.isFinite(part) ? part : 0.5);
    this.write();
  }

  /** Clip the panes of both sides at the divider. */
  divide() {
    if (!this.map) return;
    const size = this.map.getSize();
    const from = this.map.containerPointToLayerPoint([0, 0]);
    const to = this.map.containerPointToLayerPoint(size);
    const middle = from.x + size.x * this.divider.part;
    const cut = (pane, x1, x2) => {
      const corners = [[x1, from.y], [x2, from.y], [x2, to.y], [x1, to.y]];
      this.map.getPane(pane).style.clipPath = `polygon(${corners.map(([x, y]) => `${x}px ${y}px`).join(",")})`;
    };
    cut("left", from.x, middle);
    cut("right", middle, to.x);
  }

  elevationAt(latlng) {
    const isLeft = this.map.latLngToContainerPoint(latlng).x < this.map.getSize().x * this.divider.part;
    return this.sides[isLeft ? 0 : 1].tiles.valueAt?.(latlng) ?? null;
  }

  write() {
    const values = {};
    for (const { name, layer, choice } of this.sides) {
      const usual = nearest(layer, {}, null, [choice.set]);
      if (choice.source !== usual.source) values[`${name}-source`] = choice.source.id;
      if (choice.look.style !== usual.look.style) values[`${name}-style`] = choice.look.style ?? "";
    }
    if (this.divider.part !== 0.5) values.split = Number(this.divider.part.toFixed(3));
    writeState(this.map, cellSizeAt(this.set, this.map.getZoom()), values);
  }
}

bindSkipLink();
try {
  const names = ["left", "right"].map((name) => decodeURIComponent(byId(name).dataset.layer));
  const [layers, ...both] = await Promise.all([fetchLayers(), ...names.map(fetchLayer)]);
  new ComparePage(...both, layers).start();
} catch (error) {
  say(`The layers cannot be shown: ${error.message}`);
  throw error;
}
