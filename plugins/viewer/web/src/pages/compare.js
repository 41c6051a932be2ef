// Two layers on one map, with a divider between them.

import "../styles/viewer.css";
import "../styles/map.css";
import "../styles/compare.css";
import { getIntersection, isEmpty } from "ol/extent.js";
import { showAttribution } from "../attribution.js";
import { namesOf } from "../choice.js";
import { byId, say } from "../dom.js";
import { MapView } from "../mapview.js";
import { boxIn } from "../projections.js";
import { showReadout } from "../readout.js";
import { ShownLayer } from "../shown.js";
import { comparePage, startPage } from "../site.js";
import { openingView } from "../start.js";
import { readState, writeState } from "../state.js";
import { t } from "../texts.js";

/** One side of the map. */
class Side extends ShownLayer {
  constructor(name, view, layer) {
    super(view, layer);
    this.name = name;
  }

  control(name) {
    return byId(this.name).querySelector(`.choose-${name}`);
  }

  draw() {
    const { source, style } = namesOf(this.choice);
    this.control("source").value = source;
    this.control("style").value = style;
    // Each side has an element of its own, of which the style sheet shows a part.
    super.draw({ className: `ol-layer ${this.name}-side` });
  }
}

class ComparePage {
  constructor({ sides, start }) {
    this.view = new MapView();
    this.opening = start;
    this.sides = ["left", "right"].map((name, place) => new Side(name, this.view, sides[place]));
    showAttribution(sides);
    this.bindLayers();
    if (this.sides.every(({ choice }) => choice)) this.start();
    else say(t("no-service-both"));
  }

  bindLayers() {
    const [left, right] = this.sides.map((side) => side.control("layer"));
    for (const select of [left, right]) {
      select.addEventListener("change", () => location.assign(comparePage(left.value, right.value)));
    }
    byId("swap").addEventListener("click", () => location.assign(comparePage(right.value, left.value)));
  }

  start() {
    // The map has the grid of the left layer; the other one is reprojected.
    const [set, other] = this.sides.map(({ choice }) => choice.set);
    const common = getIntersection(boxIn(other.bbox, other.crs, set.crs) ?? set.bbox, set.bbox);
    this.set = set;
    this.home = isEmpty(common) ? set.bbox : common;
    byId("divider").addEventListener("input", () => this.split());
    byId("divider").addEventListener("change", () => this.write());
    for (const side of this.sides) {
      for (const part of ["source", "style"]) {
        side.control(part).addEventListener("change", ({ target }) => {
          side.change(part, target.value);
          side.draw();
          this.write();
        });
      }
    }
    this.follow();
    this.updateReadout = showReadout(this.view, set, (place) => this.elevationAt(place));
    this.view.map.on("moveend", () => this.write());
    this.view.map.on("rendercomplete", () => this.complete());
    window.addEventListener("hashchange", () => this.follow());
  }

  /** Show the state described by the URL fragment. */
  follow() {
    const { view, values } = readState();
    const { crs } = this.set;
    const views = this.sides.map(({ layer }) => openingView(layer, this.opening, crs));
    const opening = views.every(Boolean) ? views[0] : null;
    this.view.show(crs, this.set, view ?? opening, this.home);
    for (const side of this.sides) {
      side.choose({ source: values[`${side.name}-source`], style: values[`${side.name}-style`] });
      side.draw();
    }
    const part = Number.parseFloat(values.split);
    byId("divider").value = Number.isFinite(part) ? 100 * part : 50;
    this.split();
    this.write();
  }

  /** Part of the width that is left of the divider. */
  get part() {
    return byId("divider").value / 100;
  }

  split() {
    byId("stage").style.setProperty("--split", this.part);
  }

  complete() {
    const changes = this.sides.map(({ tiles }) => tiles.fit?.(this.view));
    if (changes.some(Boolean)) this.view.changed();
    this.updateReadout(this.set);
  }

  async elevationAt(place) {
    const { map } = this.view;
    const [x] = map.getPixelFromCoordinate(place) ?? [0];
    const { tiles } = this.sides[x < map.getSize()[0] * this.part ? 0 : 1];
    return tiles.valueAt?.(place, this.view) ?? null;
  }

  write() {
    const [left, right] = this.sides;
    const split = this.part === 0.5 ? undefined : Number(this.part.toFixed(3));
    writeState(this.view.view, { ...left.changes("left-"), ...right.changes("right-"), split });
  }
}

startPage((data) => new ComparePage(data));
