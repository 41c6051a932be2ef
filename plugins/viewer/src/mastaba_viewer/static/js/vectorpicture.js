// Drawing of vector tiles, with one colour per table.

import { LINE, POINT, POLYGON } from "./mvt.js";

const COLOURS = ["#2f6f8f", "#b0582f", "#5f7f3a", "#7d5a9b", "#a8842c", "#3d7f73", "#a2466b", "#56657a"];

/** Return the colour of a table, chosen by its position in the list of tables. */
export function tableColour(description, name) {
  const place = description.tables.findIndex((table) => table.name === name);
  return COLOURS[(place < 0 ? 0 : place) % COLOURS.length];
}

/** Draw the tables of a tile on a canvas: first all polygons, then lines, then points. */
export function paintVector(canvas, tables, description, sharpness) {
  const context = canvas.getContext("2d");
  for (const kind of [POLYGON, LINE, POINT]) {
    for (const table of tables) paintTable(context, table, kind, description, sharpness);
  }
}

function paintTable(context, table, kind, description, sharpness) {
  const scaleX = context.canvas.width / table.extent;
  const scaleY = context.canvas.height / table.extent;
  context.strokeStyle = tableColour(description, table.name);
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
}
