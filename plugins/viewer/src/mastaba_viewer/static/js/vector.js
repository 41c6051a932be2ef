// Vector tiles, drawn on canvases: one colour for each table.

import { GridTiles } from "./grid.js";
import { LINE, POINT, POLYGON, decodeTile } from "./mvt.js";

const COLOURS = ["#2f6f8f", "#b0582f", "#5f7f3a", "#7d5a9b", "#a8842c", "#3d7f73", "#a2466b", "#56657a"];
const REACH = 5;

/** Return the colour of a table by its place in the list of tables. */
export function tableColour(description, name) {
  const place = description.tables.findIndex((table) => table.name === name);
  return COLOURS[(place < 0 ? 0 : place) % COLOURS.length];
}

export const VectorTiles = GridTiles.extend({
  async draw(coords, tile, signal) {
    const buffer = await this.fetchTile(coords, signal);
    if (!buffer) return;
    tile.tables = decodeTile(buffer);
    const sharpness = Math.min(3, Math.max(1, window.devicePixelRatio || 1));
    const { tileWidth, tileHeight } = this.set.matrices[coords.z];
    tile.width = Math.round(tileWidth * sharpness);
    tile.height = Math.round(tileHeight * sharpness);
    const context = tile.getContext("2d");
    for (const kind of [POLYGON, LINE, POINT]) {
      for (const table of tile.tables) this.drawTable(context, table, kind, tile, sharpness);
    }
  },

  drawTable(context, table, kind, tile, sharpness) {
    const scaleX = tile.width / table.extent;
    const scaleY = tile.height / table.extent;
    context.strokeStyle = tableColour(this.description, table.name);
    context.fillStyle = context.strokeStyle;
    context.lineWidth = (kind === LINE ? 1.5 : 1) * sharpness;
    context.lineJoin = "round";
    for (const { type, parts } of table.features) {
      if (type !== kind) continue;
      context.beginPath();
      for (const part of parts) {
        if (kind === POINT) {
          for (const [x, y] of part) {
            context.moveTo(x * scaleX, y * scaleY);
            context.arc(x * scaleX, y * scaleY, 3.5 * sharpness, 0, 2 * Math.PI);
          }
        } else {
          part.forEach(([x, y], i) => {
            if (i) context.lineTo(x * scaleX, y * scaleY);
            else context.moveTo(x * scaleX, y * scaleY);
          });
          if (kind === POLYGON) context.closePath();
        }
      }
      if (kind !== LINE) {
        context.globalAlpha = kind === POLYGON ? 0.18 : 0.9;
        context.fill("evenodd");
        context.globalAlpha = 1;
      }
      if (kind !== POINT) context.stroke();
    }
  },

  /** Return the features at a place: [{table, attributes}]. */
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
