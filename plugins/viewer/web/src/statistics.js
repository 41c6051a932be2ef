// The statistics of an area.

import { html, render } from "./dom.js";
import { number, t } from "./texts.js";

/** Show the statistics of the service in an element; the area must have heights. */
export function showStatistics({ min, max, mean, std, percentiles, area, valid, resolution, level }, body) {
  const metres = (value) => `${number(value, 1)} m`;
  const rows = [
    ["statistics-min", metres(min.value)],
    ["statistics-max", metres(max.value)],
    ["statistics-mean", metres(mean)],
    ["statistics-median", percentiles?.[50] === undefined ? null : metres(percentiles[50])],
    ["statistics-std", metres(std)],
    ["statistics-area", surface(area)],
    // Less than all of the area has heights.
    ["statistics-valid", valid < 0.9995 ? `${number(100 * valid, 1)} %` : null],
    ["statistics-cells", `${rounded(resolution)} m (${t("level", { id: level })})`],
  ];
  const shown = rows.filter(([, text]) => text).map(([key, text]) => html`<dt>${t(key)}</dt><dd>${text}</dd>`);
  render(html`<h2>${t("statistics")}</h2><dl class="facts">${shown}</dl>`, body);
}

const rounded = (value) => number(value, value < 10 ? 1 : 0);

/** Format an area in the unit that people use for its size. */
function surface(metres) {
  if (metres < 10_000) return `${rounded(metres)} m²`;
  if (metres < 1_000_000) return `${number(metres / 10_000, 2)} ha`;
  return `${number(metres / 1_000_000, metres < 100_000_000 ? 2 : 0)} km²`;
}
