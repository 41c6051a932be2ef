// Vector tiles, drawn on canvases, and the features they contain.

import { fetchTile } from "./fetching.js";
import { GridTiles } from "./gridtiles.js";
import { LINE, POINT, decodeTile } from "./mvt.js";
import { paintVector } from "./vectorpicture.js";

/** Distance in pixels within which a click hits a line or point. */
const REACH = 5;

export const VectorTiles = GridTiles.extend({
  async draw(url, tile, signal, coords) {
    const buffer = await fetchTile(url, signal);
    if (!buffer) return false;
    tile.tables = decodeTile(buffer);
    const sharpness = Math.min(3, Math.max(1, window.devicePixelRatio || 1));
    const { tileWidth, tileHeight } = this.set.matrices[coords.z];
    tile.width = Math.round(tileWidth * sharpness);
    tile.height = Math.round(tileHeight * sharpness);
    paintVector(tile, tile.tables, this.description, sharpness);
    return true;
  },

  /** Return the features at a position: [{table, attributes}]. */
  featuresAt(latlng) {
    const found = this.tileAt(latlng);
    if (!found?.tile.tables) return [];
    const { tileWidth } = this.set.matrices[this._tileZoom];
    const zoomed = this._map.getZoomScale(this._map.getZoom(), this._tileZoom);
    return found.tile.tables.flatMap((table) => {
      const scale = table.extent / tileWidth;
      const place = [found.x * scale, found.y * scale];
      const reach = (REACH * scale) / zoomed;
      return table.features
        .filter((feature) => isHit(feature, place, reach))
        .map(({ attributes }) => ({ table: table.name, attributes }));
    });
  },
});

function isHit({ type, parts }, [x, y], reach) {
  if (type === POINT) {
    return parts.some((part) => part.some(([px, py]) => Math.hypot(px - x, py - y) <= reach));
  }
  if (type === LINE) return parts.some((part) => isNearLine(part, x, y, reach));
  let inside = false;
  for (const ring of parts) {
    for (let i = 0, j = ring.length - 1; i < ring.length; j = i, i += 1) {
      const [ax, ay] = ring[i];
      const [bx, by] = ring[j];
      if (ay > y !== by > y && x < ((bx - ax) * (y - ay)) / (by - ay) + ax) inside = !inside;
    }
  }
  return inside;
}

function isNearLine(points, x, y, reach) {
  for (let i = 1; i < points.length; i += 1) {
    const [ax, ay] = points[i - 1];
    const [bx, by] = points[i];
    const length = (bx - ax) ** 2 + (by - ay) ** 2;
    const along = length ? ((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / length : 0;
    const part = Math.min(1, Math.max(0, along));
    if (Math.hypot(ax + part * (bx - ax) - x, ay + part * (by - ay) - y) <= reach) return true;
  }
  return false;
}
