// The legend.

import { byId, element } from "./dom.js";
import { paintScale } from "./relief.js";
import { number } from "./texts.js";
import { tableColour } from "./vectorstyle.js";

const legend = () => byId("legend");

/** Show the legend of a choice, if it is known before tiles are loaded. */
export function showLegend(layer, { look }) {
  if (look.draws === "vector") {
    legend().replaceChildren(...layer.tables.map((table) => tableItem(layer, table)));
    return;
  }
  const palette = layer.styles.find(({ id }) => id === look.style)?.palette;
  if (look.draws === "image" && palette) showPalette(palette);
  else legend().replaceChildren();
}

/** Show the colours of a palette from its lowest to its highest value. */
function showPalette({ colours, continuous, unit }) {
  const scale = element("canvas", { width: 256, height: 1 });
  const context = scale.getContext("2d");
  const [low, high] = [colours[0][0], colours[colours.length - 1][0]];
  const css = ([, red, green, blue, alpha]) => `rgb(${red} ${green} ${blue} / ${alpha / 255})`;
  const ramp = context.createLinearGradient(0, 0, 256, 0);
  colours.forEach((entry, at) => {
    const place = (entry[0] - low) / (high - low || 1);
    if (at && !continuous) ramp.addColorStop(place, css(colours[at - 1]));
    ramp.addColorStop(place, css(entry));
  });
  context.fillStyle = ramp;
  context.fillRect(0, 0, 256, 1);
  showScale(scale, [low, high].map((value) => `${value} ${unit}`.trim()));
}

/** Show the colours of an elevation range. */
export function showRange({ range, look }) {
  if (!range) return;
  const scale = element("canvas", { width: 256, height: 1 });
  paintScale(scale, { ...look, range });
  showScale(scale, range.map((value) => `${number(value, 1)} m`));
}

function showScale(scale, texts) {
  const ends = texts.map((textContent) => element("span", { textContent }));
  legend().replaceChildren(scale, element("div", { className: "ends" }, ...ends));
}

function tableItem(layer, table) {
  const sample = element("canvas", { width: 44, height: 28 });
  const context = sample.getContext("2d");
  context.fillStyle = tableColour(layer, table.name);
  context.fillRect(0, 0, 44, 28);
  return element("div", { className: "table" }, sample, element("span", { textContent: table.name }));
}
