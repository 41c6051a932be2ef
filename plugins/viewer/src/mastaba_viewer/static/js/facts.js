// The "About" section of a layer.

import { byId, element, link } from "./dom.js";
import { levelsOf } from "./grid.js";
import { number } from "./numbers.js";

export function showFacts(layer, set) {
  const levels = levelsOf(set).map((zoom) => set.matrices[zoom]);
  const [top, bottom] = [levels[0], levels[levels.length - 1]];
  const unit = set.geographic ? "°" : "m";
  const [west, south, east, north] = layer.geographicBbox.map((edge) => edge.toFixed(4));
  const facts = [
    ["Identifier", layer.id],
    ["Stored as", layer.mediaType],
    ["Tile matrix set", `${set.id} (${set.crs})`],
    ["Levels", top === bottom ? top.id : `${top.id} – ${bottom.id}`],
    ["Finest pixel", `${number(bottom.cellSize)} ${unit}`],
    ["Longitude", `${west} … ${east}`],
    ["Latitude", `${south} … ${north}`],
    ...layer.metadata.map(({ title, url }) => [title, link(url, url)]),
  ];
  byId("facts").replaceChildren(
    ...facts.flatMap(([name, content]) => [
      element("dt", { textContent: name }),
      element("dd", {}, content),
    ]),
  );
  byId("about-section").hidden = false;
}
