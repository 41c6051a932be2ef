// The "About" section of a layer.

import { byId, element, link } from "./dom.js";
import { levelsOf } from "./levels.js";
import { fixed, threeDigits } from "./numbers.js";
import { t } from "./texts.js";

export function showFacts(layer, set) {
  const levels = levelsOf(set);
  const [top, bottom] = [levels[0], levels[levels.length - 1]];
  const unit = set.geographic ? "°" : "m";
  const [west, south, east, north] = layer.geographicBbox.map((edge) => fixed(edge, 4));
  const facts = [
    [t("identifier"), layer.id],
    [t("stored-as"), layer.mediaType],
    [t("set"), `${set.id} (${set.crs})`],
    [t("levels"), top === bottom ? top.id : `${top.id} – ${bottom.id}`],
    [t("finest-pixel"), `${threeDigits(bottom.cellSize)} ${unit}`],
    [t("longitude"), `${west} … ${east}`],
    [t("latitude"), `${south} … ${north}`],
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
