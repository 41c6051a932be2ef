// The panel about the layer shown, and the one about features.

import { number } from "./readout.js";
import { paintScale } from "./relief.js";
import { tableColour } from "./vector.js";

const byId = (id) => document.getElementById(id);

export function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

/** Fill the panel for a layer. */
export function showDetails(layer, set) {
  byId("details").hidden = false;
  byId("details-title").textContent = layer.title;
  byId("details-abstract").textContent = layer.abstract;
  byId("details-abstract").hidden = !layer.abstract;
  showFacts(layer, set);
  byId("addresses").replaceChildren(...layer.resources.map(addressItem));
  byId("legend").replaceChildren(...layer.tables.map((table) => tableItem(layer, table)));
}

function showFacts(layer, set) {
  const levels = set.matrices.filter((matrix) => matrix.id in layer.levels);
  const [top, bottom] = [levels[0], levels[levels.length - 1]];
  const unit = set.geographic ? "°" : "m";
  const [west, south, east, north] = layer.geographicBbox.map((edge) => edge.toFixed(4));
  const facts = [
    ["Identifier", layer.id],
    ["Format", layer.mediaType],
    ["Grid", `${layer.tileMatrixSet} (${set.crs})`],
    ["Levels", top === bottom ? top.id : `${top.id} – ${bottom.id}`],
    ["Pixel", `${number(bottom.cellSize)} ${unit}`],
    ["Longitude", `${west} … ${east}`],
    ["Latitude", `${south} … ${north}`],
  ];
  byId("facts").replaceChildren(
    ...facts.flatMap(([name, text]) => [
      element("dt", { textContent: name }),
      element("dd", { textContent: text }),
    ]),
  );
}

function addressItem({ label, url }) {
  const field = element("input", { type: "text", readOnly: true, value: url, title: url });
  field.setAttribute("aria-label", label);
  field.addEventListener("focus", () => field.select());
  const button = element("button", { type: "button", textContent: "Copy" });
  button.addEventListener("click", async () => {
    await copy(field);
    button.textContent = "Copied";
    setTimeout(() => {
      button.textContent = "Copy";
    }, 1500);
  });
  const heading = element("div", { className: "label" }, element("span", { textContent: label }), button);
  return element("li", {}, heading, field);
}

async function copy(field) {
  // The clipboard of the browser is there on secure origins only.
  if (navigator.clipboard) {
    try {
      await navigator.clipboard.writeText(field.value);
      return;
    } catch {
      // Not allowed: the old way may be.
    }
  }
  field.select();
  document.execCommand("copy");
}

function tableItem(layer, table) {
  const sample = element("canvas", { width: 44, height: 28 });
  const context = sample.getContext("2d");
  context.fillStyle = tableColour(layer, table.name);
  context.fillRect(0, 0, 44, 28);
  return element("div", { className: "table" }, sample, element("span", { textContent: table.name }));
}

/** Show the colours of elevations; null for none. */
export function showRange(range) {
  if (!range) {
    byId("legend").replaceChildren();
    return;
  }
  const scale = element("canvas", { width: 256, height: 1 });
  paintScale(scale, range);
  const ends = range.map((value) => element("span", { textContent: `${value.toFixed(1)} m` }));
  byId("legend").replaceChildren(scale, element("div", { className: "ends" }, ...ends));
}

/** Show the attributes of features; an empty list closes the panel. */
export function showFeatures(features) {
  const panel = byId("identified");
  panel.hidden = !features.length;
  if (!features.length) return;
  const close = element("button", { type: "button", className: "close", title: "Close" });
  close.addEventListener("click", () => showFeatures([]));
  const [first, ...more] = features;
  const heading = more.length ? `${first.table} (1 of ${features.length})` : first.table;
  const rows = first.attributes.map(([name, value]) =>
    element(
      "tr",
      {},
      element("th", { textContent: name, scope: "row" }),
      element("td", { textContent: String(value) }),
    ),
  );
  panel.replaceChildren(
    element("div", { className: "heading" }, element("h2", { textContent: heading }), close),
    element("table", {}, element("tbody", {}, ...rows)),
  );
}
