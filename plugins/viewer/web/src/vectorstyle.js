// Colours of vector tiles: one for each table.

import Circle from "ol/style/Circle.js";
import Fill from "ol/style/Fill.js";
import Stroke from "ol/style/Stroke.js";
import Style from "ol/style/Style.js";

const COLOURS = ["#2f6f8f", "#b0582f", "#5f7f3a", "#7d5a9b", "#a8842c", "#3d7f73", "#a2466b", "#56657a"];

/** Return the colour of a table, chosen by its position in the list of tables. */
export function tableColour(description, name) {
  const place = description.tables.findIndex((table) => table.name === name);
  return COLOURS[(place < 0 ? 0 : place) % COLOURS.length];
}

/** Return the function that gives each feature its style. */
export function vectorStyle(description) {
  const styles = new Map();
  return (feature) => {
    const kind = feature.getGeometry().getType().replace("Multi", "");
    const key = `${kind}/${feature.get("mvt:layer")}`;
    if (!styles.has(key)) styles.set(key, styleOf(kind, tableColour(description, feature.get("mvt:layer"))));
    return styles.get(key);
  };
}

function styleOf(kind, colour) {
  const stroke = new Stroke({ color: colour, width: kind === "LineString" ? 1.5 : 1 });
  if (kind === "Point") {
    const fill = new Fill({ color: `${colour}e6` });
    // All points are drawn, and found by a click.
    const image = new Circle({ radius: 3.5, fill, declutterMode: "none" });
    return new Style({ image, zIndex: 3 });
  }
  if (kind === "LineString") return new Style({ stroke, zIndex: 2 });
  return new Style({ stroke, fill: new Fill({ color: `${colour}2e` }), zIndex: 1 });
}
