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

/**
 * Paint elevations on a canvas; return it.
 *
 * @param values width × height numbers, NaN for nodata
 * @param cell size of a pixel in metres
 * @param look as USUAL, with a range
 */
export function paint(canvas, values, cell, look) {
  const { width, height } = canvas;
  const image = new ImageData(width, height);
  const radians = Math.PI / 180;
  const zenith = Math.sin(look.altitude * radians);
  const east = Math.sin(look.azimuth * radians) * Math.cos(look.altitude * radians);
  const north = Math.cos(look.azimuth * radians) * Math.cos(look.altitude * radians);
  // Coarse cells flatten slopes, so the shading of coarse levels is exaggerated.
  const factor = (look.exaggeration * Math.max(1, Math.sqrt(cell / 20))) / cell;
  // The slope from the values at two places of the image; 0 beside nodata.
  const slope = (from, to, cells) => ((values[to] - values[from]) / cells) * factor || 0;
  for (let row = 0, at = 0; row < height; row += 1) {
    const [above, below] = [row > 0 ? 1 : 0, row < height - 1 ? 1 : 0];
    for (let col = 0; col < width; col += 1, at += 1) {
      if (Number.isNaN(values[at])) continue;
      const [left, right] = [col > 0 ? 1 : 0, col < width - 1 ? 1 : 0];
      const dx = slope(at - left, at + right, left + right);
      const dy = slope(at - above * width, at + below * width, above + below);
      // Cosine of the angle between normal and light, scaled to 1 on flat ground.
      const light = (zenith - dx * east + dy * north) / Math.sqrt(1 + dx * dx + dy * dy) / zenith;
      const lit = 0.35 + 0.65 * Math.min(1.45, Math.max(0, light));
      const shade = 1 + look.shade * (lit - 1);
      const [table, step] = colour(values[at], look);
      for (let band = 0; band < 3; band += 1) image.data[4 * at + band] = table[step + band] * shade;
      image.data[4 * at + 3] = 255;
    }
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

/** Return a canvas with the colours of a range from left to right. */
export function scaleOf({ range, palette }) {
  const values = Float32Array.from({ length: STEPS }, (_, step) => range[0] + ((range[1] - range[0]) * step) / (STEPS - 1));
  return paint(canvasOf(STEPS, 1), values, 1, { ...USUAL, range, palette, shade: 0 });
}
