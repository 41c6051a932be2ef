// Readout at the pointer, or at the centre of the map: coordinates, level and elevation.

import { until } from "lit-html/directives/until.js";
import { get } from "ol/proj.js";
import { byId, html, render } from "./dom.js";
import { nearestLevel } from "./plans.js";
import { cellIn, placeText } from "./projections.js";
import { number, t, threeDigits } from "./texts.js";

/**
 * Show what is at the pointer; return a function of a tile matrix set that updates it.
 *
 * @param set tile matrix set of what is shown
 * @param elevationAt function of a position and an AbortSignal; a promise of the elevation, or null
 */
export function showReadout(view, set, elevationAt) {
  let pointed = null;
  let question = new AbortController();

  const update = (shown = set) => {
    set = shown;
    question.abort();
    question = new AbortController();
    const place = pointed ?? view.map.getView().getCenter();
    if (!place) return;
    const elevation = elevationAt(place, question.signal).catch(() => null);
    const { id } = nearestLevel(set, cellIn(view.cellSize, view.crs, set.crs));
    const unit = get(view.crs).getUnits() === "degrees" ? "°" : "m";
    const content = html`
      ${pointed ? "" : html`<span>${t("centre")}</span>`}
      ${until(elevation.then((value) => (value === null ? "" : html`<b>${number(value, 1)} m</b>`)), "")}
      <i>${placeText(place, view.crs)}</i>
      <span>${t("level", { id })}</span>
      <span>${threeDigits(view.cellSize)} ${unit}/px</span>
      <span>${view.crs}</span>
    `;
    render(content, byId("readout"));
  };
  const point = (place) => {
    pointed = place;
    update();
  };
  view.map.on("pointermove", ({ coordinate, dragging }) => dragging || point(coordinate));
  view.map.getViewport().addEventListener("pointerleave", () => point(null));
  view.map.on("moveend", () => update());
  return update;
}
