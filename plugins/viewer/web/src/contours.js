// Contour lines from the terrain service, drawn over the map.

import MVT from "ol/format/MVT.js";
import VectorTileLayer from "ol/layer/VectorTile.js";
import VectorTileSource from "ol/source/VectorTile.js";
import { loaderOf } from "./coarser.js";
import { pause } from "./dom.js";
import { fetchJson, fetchTile } from "./fetching.js";
import { coarserPlaces, gridOf } from "./grid.js";
import { fill, isWithin } from "./plans.js";
import { boxIn, cellIn } from "./projections.js";

const WEB_MERCATOR = "EPSG:3857";
const HALF = 20037508.342789244;
const TILE = 256;
/** Lines are drawn up to cells this many times coarser than those of the first zoom. */
const FARTHEST = 1.42;

/** Return the limits of the tiles of a zoom; undefined if all tiles within the bounds exist. */
function limitsOf({ sets: [set] }) {
  return set.crs === WEB_MERCATOR && set.hasZooms ? set.limits : {};
}

/** Return the plan of the lines of a layer: see plans.js. */
async function planOf(layer) {
  const { tiles, minzoom, maxzoom, bounds } = await fetchJson(`${layer.terrain}/contours.json`);
  const matrices = Array.from({ length: maxzoom - minzoom + 1 }, (_, step) => ({
    id: String(minzoom + step),
    cellSize: (2 * HALF) / TILE / 2 ** (minzoom + step),
    originX: -HALF,
    originY: HALF,
    tileWidth: TILE,
    tileHeight: TILE,
  }));
  const extent = boxIn(bounds, "CRS:84", WEB_MERCATOR);
  const grid = gridOf(matrices, extent);
  const limits = limitsOf(layer);
  const load = ([z, row, col], signal, fetching) => {
    const { id } = matrices[z];
    if (limits[id] && !isWithin(limits[id], row, col)) return Promise.resolve(null);
    return fetching(fill(tiles[0], { z: id, y: row, x: col }), signal, [z, row, col]);
  };
  return { set: { crs: WEB_MERCATOR }, matrices, grid, extent, load, coarser: (place) => coarserPlaces(grid, place) };
}

/** Lines of a layer on the map. `drawn` and `plan` are as those of tiles: see shown.js. */
export class Contours {
  static async of(layer) {
    return new Contours(await planOf(layer));
  }

  constructor(plan) {
    this.plan = plan;
    const format = new MVT();
    const load = loaderOf(plan, async (url, signal, [z, row, col]) => {
      const buffer = await fetchTile(url, signal);
      const extent = plan.grid.getTileCoordExtent([z, col, row]);
      await pause();
      return buffer && format.readFeatures(buffer, { extent, featureProjection: WEB_MERCATOR });
    });
    const source = new VectorTileSource({
      format,
      projection: WEB_MERCATOR,
      tileGrid: plan.grid,
      wrapX: false,
      tileUrlFunction: (place) => String(place),
      tileLoadFunction: (tile) => {
        const [z, x, y] = tile.getTileCoord();
        tile.setLoader(async () => {
          const found = await load([z, y, x], new AbortController().signal).catch(() => []);
          tile.setFeatures(found.flatMap(({ content }) => content));
        });
      },
    });
    this.drawn = new VectorTileLayer({
      source,
      zIndex: 4,
      style: [
        { style: { "stroke-color": "#4a2a10b3", "stroke-width": 0.8 } },
        { filter: [">", ["get", "level"], 0], style: { "stroke-color": "#4a2a10", "stroke-width": 1.5 } },
      ],
    });
  }

  /** Place the lines on a map in its CRS; return the coarsest cell size in which they are drawn. */
  limit(view) {
    const farthest = cellIn(this.plan.matrices[0].cellSize * FARTHEST, WEB_MERCATOR, view.crs);
    this.drawn.setMaxResolution(farthest);
    this.drawn.setExtent(boxIn(this.plan.extent, WEB_MERCATOR, view.crs) ?? undefined);
    return farthest;
  }
}
