// Contour lines of the terrain service.

import MVT from "ol/format/MVT.js";
import VectorTileLayer from "ol/layer/VectorTile.js";
import VectorTileSource from "ol/source/VectorTile.js";
import { createXYZ } from "ol/tilegrid.js";
import { fetchJson } from "./dom.js";
import { boxIn } from "./projections.js";

/** Return the layer of the contour lines of a dataset. */
export async function contourLayer(terrain) {
  const { tiles, minzoom, maxzoom, bounds } = await fetchJson(`${terrain}/contours.json`);
  const extent = boxIn(bounds, "CRS:84", "EPSG:3857");
  const tileGrid = createXYZ({ minZoom: minzoom, maxZoom: maxzoom });
  return new VectorTileLayer({
    source: new VectorTileSource({ format: new MVT(), urls: tiles, tileGrid, wrapX: false }),
    extent,
    zIndex: 4,
    style: { "stroke-color": "#784f28b3", "stroke-width": 0.8 },
  });
}
