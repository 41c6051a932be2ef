// Legend and histogram. The legend of a style comes with the page, that of elevations depends on the view.

import { byId, html, render } from "./dom.js";
import { scaleOf } from "./relief.js";
import { number } from "./texts.js";

const BINS = 60;

/** Show the legend of a choice. */
export function showLegend({ look }) {
  for (const legend of byId("legend").children) {
    const { draws, style } = legend.dataset;
    legend.hidden = draws !== look.draws || (style !== undefined && style !== look.style);
  }
}

/** Show the colours of an elevation range. */
export function showRange({ range, look }) {
  const ends = range?.map((value) => html`<span>${number(value, range[1] - range[0] < 20 ? 1 : 0)} m</span>`);
  if (range) render(html`${scaleOf({ ...look, range })}<div class="ends">${ends}</div>`, byId("range"));
}

/** Draw how often values, given as arrays, occur between the lowest and the highest one. */
export function showHistogram(container, values, [low, high]) {
  const counts = new Array(BINS).fill(0);
  for (const row of values) {
    for (const value of row) {
      if (value >= low) counts[Math.min(BINS - 1, Math.floor(((value - low) / (high - low || 1)) * BINS))] += 1;
    }
  }
  const most = Math.max(...counts);
  const outline = counts.map((count, at) => `M${at} 1V${1 - count / most}h0.8V1`).join("");
  const shown = html`
    <svg viewBox="0 0 ${BINS} 1" preserveAspectRatio="none"><path d=${outline} /></svg>
    <div class="ends">${[low, high].map((value) => html`<span>${number(value)} m</span>`)}</div>
  `;
  render(shown, container);
}
