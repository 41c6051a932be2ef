// The chart of a profile, and its files.

import uPlot from "uplot";
import { element } from "./dom.js";
import { save } from "./snippets.js";
import { number, t } from "./texts.js";

/** Show the answer of the service in an element. */
export function profileChart({ results, ascent, descent }, body, name) {
  if (results.every(({ elevation }) => elevation === null)) {
    body.replaceChildren(t("no-heights"));
    return;
  }
  const length = results[results.length - 1].distance;
  const facts = element("p", {
    className: "facts-line",
    textContent: t("profile-facts", {
      length: number(length / 1000, 2),
      ascent: number(ascent),
      descent: number(Math.abs(descent)),
    }),
  });
  const csv = element("button", { type: "button", className: "button", textContent: "CSV" });
  csv.addEventListener("click", () => save(new Blob([csvOf(results)], { type: "text/csv" }), `${name}.csv`));
  const gpx = element("button", { type: "button", className: "button", textContent: "GPX" });
  gpx.addEventListener("click", () => save(new Blob([gpxOf(results)], { type: "application/gpx+xml" }), `${name}.gpx`));
  const plot = element("div", { className: "chart" });
  body.replaceChildren(facts, plot, element("p", { className: "buttons" }, csv, gpx));
  const { color, borderColor } = getComputedStyle(plot);
  const axis = { stroke: color, grid: { stroke: borderColor, width: 1 }, ticks: { stroke: borderColor } };
  new uPlot(
    {
      width: plot.clientWidth,
      height: 190,
      scales: { x: { time: false } },
      legend: { show: false },
      axes: [
        { ...axis, values: (_, values) => values.map((value) => `${number(value / 1000, 1)} km`) },
        { ...axis, size: 64, values: (_, values) => values.map((value) => `${number(value)} m`) },
      ],
      series: [{}, { stroke: "#b8763a", fill: "#b8763a33", width: 2 }],
    },
    [results.map(({ distance }) => distance), results.map(({ elevation }) => elevation)],
    plot,
  );
}

function csvOf(results) {
  const rows = results.map(({ distance, x, y, elevation }) => [distance, x, y, elevation ?? ""].join(","));
  return `distance,longitude,latitude,elevation\n${rows.join("\n")}\n`;
}

function gpxOf(results) {
  const points = results.map(
    ({ x, y, elevation }) => `<trkpt lat="${y}" lon="${x}">${elevation === null ? "" : `<ele>${elevation}</ele>`}</trkpt>`,
  );
  return `<?xml version="1.0" encoding="UTF-8"?>
<gpx version="1.1" creator="Mastaba" xmlns="http://www.topografix.com/GPX/1/1"><trk><trkseg>
${points.join("\n")}
</trkseg></trk></gpx>
`;
}
