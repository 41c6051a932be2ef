// Pictures of vector tiles.

import Feature from "ol/Feature.js";
import MVT from "ol/format/MVT.js";
import { toContext } from "ol/render.js";
import { vectorStyle } from "./vectorstyle.js";

/** Draw a tile on a canvas of its size. */
export function paintVector(canvas, buffer, description) {
  const { width, height } = canvas;
  const format = new MVT({ layerName: "mvt:layer", featureClass: Feature });
  const features = format.readFeatures(buffer, {
    extent: [0, -height, width, 0],
    featureProjection: "EPSG:3857",
  });
  const styleOf = vectorStyle(description);
  const painter = toContext(canvas.getContext("2d"), { size: [width, height], pixelRatio: 1 });
  const styled = features.map((feature) => [feature, styleOf(feature)]);
  styled.sort(([, one], [, other]) => one.getZIndex() - other.getZIndex());
  for (const [feature, style] of styled) {
    feature.getGeometry().scale(1, -1, [0, 0]);
    painter.drawFeature(feature, style);
  }
}
