// The chart of a profile, and its files.

import uPlot from "uplot";
import { html, render } from "./dom.js";
import { save } from "./taking.js";
import { number, t } from "./texts.js";

/** Show the answer of the service in an element; it must have a height. */
export function profileChart({ results, ascent, descent }, body, name) {
  const facts = {
    length: number(results.at(-1).distance / 1000, 2),
    ascent: number(ascent),
    descent: number(Math.abs(descent)),
  };
  const files = { CSV: csvOf, GPX: gpxOf };
  const button = (type) => {
    const saveFile = () => save(files[type](results), `${name}.${type.toLowerCase()}`);
    return html`<button type="button" class="button" @click=${saveFile}>${type}</button>`;
  };
  const shown = html`
    <p class="facts-line">${t("profile-facts", facts)}</p>
    <div class="chart"></div>
    <p class="buttons">${Object.keys(files).map(button)}</p>
  `;
  render(shown, body);
  const plot = body.querySelector(".chart");
  plot.replaceChildren();
  const { color, borderColor } = getComputedStyle(plot);
  const axis = { stroke: color, grid: { stroke: borderColor, width: 1 }, ticks: { stroke: borderColor } };
  const options = {
    width: plot.clientWidth,
    height: 190,
    scales: { x: { time: false } },
    legend: { show: false },
    axes: [
      { ...axis, values: (_, values) => values.map((value) => `${number(value / 1000, 1)} km`) },
      { ...axis, size: 64, values: (_, values) => values.map((value) => `${number(value)} m`) },
    ],
    series: [{}, { stroke: "#b8763a", fill: "#b8763a33", width: 2 }],
  };
  new uPlot(options, [results.map(({ distance }) => distance), results.map(({ elevation }) => elevation)], plot);
}

function csvOf(results) {
  const rows = results.map(({ distance, x, y, elevation }) => [distance, x, y, elevation ?? ""].join(","));
  return `distance,longitude,latitude,elevation\n${rows.join("\n")}\n`;
}

function gpxOf(results) {
  const height = (elevation) => (elevation === null ? "" : `<ele>${elevation}</ele>`);
  const points = results.map(({ x, y, elevation }) => `<trkpt lat="${y}" lon="${x}">${height(elevation)}</trkpt>`);
  return `<?xml version="1.0" encoding="UTF-8"?>
<gpx version="1.1" creator="Mastaba" xmlns="http://www.topografix.com/GPX/1/1"><trk><trkseg>
${points.join("\n")}
</trkseg></trk></gpx>
`;
}
