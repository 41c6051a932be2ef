// Thumbnails of layers, painted from one tile.

import Feature from "ol/Feature.js";
import MVT from "ol/format/MVT.js";
import { toContext } from "ol/render.js";
import { rulesToStyleFunction } from "ol/render/canvas/style.js";
import { decodeElevations, paintTiff } from "./decoding.js";
import { canvasOf } from "./dom.js";
import { fetchTile } from "./fetching.js";
import { USUAL, paint, rangeOf } from "./relief.js";
import { vectorStyle } from "./vectortiles.js";

const PAINTERS = { elevation: paintElevation, tiff: paintTiff, vector: paintVector };

async function paintElevation(buffer, tile) {
  const values = await decodeElevations(buffer, tile);
  const range = rangeOf([values]);
  return paint(canvasOf(tile.width, tile.height), values, tile.metresPerPixel, { ...USUAL, range });
}

function paintVector(buffer, { width, height, tables }) {
  const canvas = canvasOf(width, height);
  const format = new MVT({ layerName: "mvt:layer", featureClass: Feature });
  const extent = [0, -height, width, 0];
  const features = format.readFeatures(buffer, { extent, featureProjection: "EPSG:3857" });
  const stylesOf = rulesToStyleFunction(vectorStyle({ tables }));
  const painter = toContext(canvas.getContext("2d"), { size: [width, height], pixelRatio: 1 });
  const styled = features.flatMap((feature) => stylesOf(feature, 1).map((style) => [feature, style]));
  styled.sort(([, one], [, other]) => one.getZIndex() - other.getZIndex());
  for (const feature of features) feature.getGeometry().scale(1, -1, [0, 0]);
  for (const [feature, style] of styled) painter.drawFeature(feature, style);
  return canvas;
}

/** Fetch and paint the tile described in the data of a canvas. */
export async function paintThumbnail(canvas) {
  const tile = JSON.parse(canvas.dataset.tile);
  const painted = await PAINTERS[tile.draws](await fetchTile(tile.url), tile);
  [canvas.width, canvas.height] = [tile.width, tile.height];
  canvas.getContext("2d").drawImage(painted, 0, 0);
  canvas.classList.add("painted");
}
