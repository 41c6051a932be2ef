// Readout at the pointer, or at the centre of the map: coordinates, level and elevation.

import { get } from "ol/proj.js";
import { element } from "./dom.js";
import { fixed, threeDigits } from "./numbers.js";
import { placeText } from "./projections.js";
import { t } from "./texts.js";

/** Milliseconds for which the pointer must rest before a request is sent. */
const REST = 150;

/**
 * Show in an element what is at the pointer; return a function that updates it.
 *
 * @param elevationAt returns the elevation at a position: a number, null, or a function that takes
 *   an AbortSignal and requests it
 * @param level returns the identifier of the level that is shown
 */
export function showReadout(view, output, elevationAt, level) {
  let pointed = null;
  let timer = 0;
  let question = new AbortController();

  const show = (place, elevation) => {
    const unit = get(view.crs).getUnits() === "degrees" ? "°" : "m";
    output.replaceChildren(
      ...(pointed ? [] : [piece("span", t("centre"))]),
      ...(elevation === null ? [] : [piece("b", `${fixed(elevation, 2)} m`)]),
      piece("i", placeText(place, view.crs)),
      piece("span", t("level", { id: level() })),
      piece("span", `${threeDigits(view.cellSize)} ${unit}/px`),
      piece("span", view.crs),
    );
  };
  const update = () => {
    clearTimeout(timer);
    question.abort();
    const place = pointed ?? view.map.getView().getCenter();
    if (!place) return;
    const elevation = elevationAt(place);
    const isKnown = typeof elevation !== "function";
    show(place, isKnown ? elevation : null);
    if (isKnown) return;
    timer = setTimeout(async () => {
      question = new AbortController();
      const { signal } = question;
      const value = await elevation(signal).catch(() => null);
      if (!signal.aborted) show(place, value);
    }, REST);
  };
  view.map.on("pointermove", ({ coordinate, dragging }) => {
    if (dragging) return;
    pointed = coordinate;
    update();
  });
  view.map.getViewport().addEventListener("pointerleave", () => {
    pointed = null;
    update();
  });
  view.map.on("moveend", update);
  return update;
}

function piece(tag, textContent) {
  return element(tag, { textContent });
}
