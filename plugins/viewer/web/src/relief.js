// Colours and shading of elevations.

import { canvasOf } from "./dom.js";
import palettes from "./palettes.json";

const STEPS = 256;
const STOPS = 33;
/** Metres between two colours that are not blended. */
const EDGE = 0.01;
/** Red, green, blue and alpha of each step of a palette, from the lowest to the highest value. */
const TABLES = Object.fromEntries(Object.entries(palettes).map(([name, stops]) => [name, tableOf(stops)]));

/** Light from the north-west; azimuth and altitude in degrees; a range of null fits to the view. */
export const USUAL = { palette: "tints", azimuth: 315, altitude: 45, exaggeration: 1, shade: 1, range: null };

function tableOf(stops) {
  const context = canvasOf(STEPS, 1).getContext("2d");
  const gradient = context.createLinearGradient(0.5, 0, STEPS - 0.5, 0);
  for (const [part, tint] of stops) gradient.addColorStop(part, tint);
  context.fillStyle = gradient;
  context.fillRect(0, 0, STEPS, 1);
  return context.getImageData(0, 0, STEPS, 1).data;
}

/** Return the table and the place of the colour of a value. */
function colour(value, { range: [low, high], palette }) {
  // From the coast to deep sea, "tints" has other colours.
  const hasSea = palette === "tints" && high > 0 && low < 0;
  const isSea = hasSea && value < 0;
  const bottom = hasSea ? 0 : low;
  const part = isSea ? value / low : (value - bottom) / (high - bottom || 1);
  const step = Math.min(STEPS - 1, Math.max(0, Math.round(part * (STEPS - 1))));
  return [TABLES[isSea ? "sea" : palette], 4 * step];
}

/** Return the colours of a range as stops: pairs of a value, from the lowest to the highest, and a colour. */
export function stopsOf({ range, palette }) {
  const [low, high] = range;
  const parts = Array.from({ length: STOPS }, (_, step) => low + ((high - low) * step) / (STOPS - 1));
  // The colours of the sea end at the coast.
  const coast = low < 0 && high > 0 ? [-EDGE, 0] : [];
  const values = [...new Set([...parts, ...coast])].sort((one, other) => one - other);
  return values.map((value) => {
    const [table, step] = colour(value, { range, palette });
    return [value, `rgb(${table.slice(step, step + 3).join(" ")})`];
  });
}

/** Return the lowest and highest value of some arrays, ignoring NaN, or null if there are none. */
export function rangeOf(arrays) {
  let low = Infinity;
  let high = -Infinity;
  for (const values of arrays) {
    for (const value of values) {
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  return low <= high ? [low, high] : null;
}

/** Return the rise by a cell between two values; NaN beside nodata. Beyond a value that is unknown, the other half decides. */
function rise(before, value, after) {
  if (before === undefined) return after - value;
  return after === undefined ? value - before : (after - before) / 2;
}

/**
 * Paint elevations on a canvas, or the part of it in a box; return it.
 *
 * @param values width × height numbers, NaN for nodata
 * @param cell size of a pixel in metres
 * @param look as USUAL, with a range
 * @param around "beside", a function of (column, row) that returns a value beside the canvas, or
 *   undefined, and "box": left, top, right and bottom in pixels
 */
export function paint(canvas, values, cell, look, { beside = () => undefined, box } = {}) {
  const { width, height } = canvas;
  const [first, top, last, bottom] = box ?? [0, 0, width, height];
  const image = new ImageData(last - first, bottom - top);
  const radians = Math.PI / 180;
  const zenith = Math.sin(look.altitude * radians);
  const east = Math.sin(look.azimuth * radians) * Math.cos(look.altitude * radians);
  const north = Math.cos(look.azimuth * radians) * Math.cos(look.altitude * radians);
  // Coarse cells flatten slopes, so the shading of coarse levels is exaggerated.
  const factor = (look.exaggeration * Math.max(1, Math.sqrt(cell / 20))) / cell;
  const valueAt = (col, row) => (col >= 0 && col < width && row >= 0 && row < height ? values[row * width + col] : beside(col, row));
  for (let row = top, to = 0; row < bottom; row += 1) {
    for (let col = first; col < last; col += 1, to += 4) {
      const value = values[row * width + col];
      if (Number.isNaN(value)) continue;
      const dx = rise(valueAt(col - 1, row), value, valueAt(col + 1, row)) * factor || 0;
      const dy = rise(valueAt(col, row - 1), value, valueAt(col, row + 1)) * factor || 0;
      // Cosine of the angle between normal and light, scaled to 1 on flat ground.
      const light = (zenith - dx * east + dy * north) / Math.sqrt(1 + dx * dx + dy * dy) / zenith;
      const lit = 0.35 + 0.65 * Math.min(1.45, Math.max(0, light));
      const shade = 1 + look.shade * (lit - 1);
      const [table, step] = colour(value, look);
      for (let band = 0; band < 3; band += 1) image.data[to + band] = table[step + band] * shade;
      image.data[to + 3] = 255;
    }
  }
  canvas.getContext("2d").putImageData(image, first, top);
  return canvas;
}

/** Return a canvas with the colours of a range from left to right. */
export function scaleOf({ range, palette }) {
  const values = Float32Array.from({ length: STEPS }, (_, step) => range[0] + ((range[1] - range[0]) * step) / (STEPS - 1));
  return paint(canvasOf(STEPS, 1), values, 1, { ...USUAL, range, palette, shade: 0 });
}
