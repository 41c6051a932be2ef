// Colours and shading of elevations.

const STEPS = 256;
/** Colours from the lowest to the highest value: part of the range, red, green, blue. */
const STOPS = {
  tints: [
    [0.0, 104, 143, 106],
    [0.2, 164, 183, 128],
    [0.42, 219, 208, 158],
    [0.65, 190, 152, 113],
    [0.85, 160, 132, 120],
    [1.0, 245, 243, 240],
  ],
  grey: [
    [0, 70, 70, 70],
    [1, 250, 250, 250],
  ],
  viridis: [
    [0, 68, 1, 84],
    [0.25, 59, 82, 139],
    [0.5, 33, 145, 140],
    [0.75, 94, 201, 98],
    [1, 253, 231, 37],
  ],
  spectral: [
    [0, 50, 136, 189],
    [0.3, 153, 213, 148],
    [0.5, 255, 255, 191],
    [0.75, 252, 141, 89],
    [1, 213, 62, 79],
  ],
  white: [
    [0, 255, 255, 255],
    [1, 255, 255, 255],
  ],
};
/** From the coast to deep sea, with the palette "tints". */
const SEA = ramp([
  [0.0, 190, 214, 226],
  [0.4, 120, 166, 196],
  [1.0, 44, 84, 128],
]);
const TABLES = Object.fromEntries(Object.entries(STOPS).map(([name, stops]) => [name, ramp(stops)]));

export const PALETTES = Object.keys(STOPS);

/** Light from the north-west; azimuth and altitude in degrees; a range of null fits to the view. */
export const USUAL = { palette: "tints", azimuth: 315, altitude: 45, exaggeration: 1, shade: 1, range: null };

function ramp(stops) {
  const table = new Uint8Array(STEPS * 3);
  for (let step = 0; step < STEPS; step += 1) {
    const place = step / (STEPS - 1);
    const upper = Math.max(1, stops.findIndex(([at]) => at >= place));
    const [from, ...low] = stops[upper - 1];
    const [to, ...high] = stops[upper];
    const part = (place - from) / (to - from);
    low.forEach((value, band) => {
      table[3 * step + band] = value + (high[band] - value) * part;
    });
  }
  return table;
}

/** Return the colour table and the index of the colour of a value. */
function colour(value, { range: [low, high], palette }) {
  const isSea = palette === "tints" && value < 0 && low < 0 && high > 0;
  const hasSea = palette === "tints" && high > 0 && low < 0;
  const bottom = hasSea ? 0 : low;
  const part = isSea ? value / low : (value - bottom) / (high - bottom || 1);
  const step = Math.min(STEPS - 1, Math.max(0, Math.round(part * (STEPS - 1))));
  return [isSea ? SEA : TABLES[palette], 3 * step];
}

/** Return the lowest and highest value, ignoring NaN, or null if there are no values. */
export function rangeOf(...arrays) {
  let low = Infinity;
  let high = -Infinity;
  for (const values of arrays.flat()) {
    for (const value of values) {
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  return low <= high ? [low, high] : null;
}

/**
 * Paint elevations into an image.
 *
 * @param values width × height numbers, NaN for nodata
 * @param cell size of a pixel in metres
 * @param look as USUAL, with a range
 */
export function paint(image, values, cell, look) {
  const { width, height, data } = image;
  const zenith = Math.sin((look.altitude * Math.PI) / 180);
  const flat = Math.cos((look.altitude * Math.PI) / 180);
  const east = Math.sin((look.azimuth * Math.PI) / 180) * flat;
  const north = Math.cos((look.azimuth * Math.PI) / 180) * flat;
  // Coarse cells flatten slopes, so the shading of coarse levels is exaggerated.
  const factor = (look.exaggeration * Math.max(1, Math.sqrt(cell / 20))) / cell;
  for (let row = 0, at = 0; row < height; row += 1) {
    const above = row > 0 ? -width : 0;
    const below = row < height - 1 ? width : 0;
    for (let col = 0; col < width; col += 1, at += 1) {
      const value = values[at];
      const to = 4 * at;
      if (Number.isNaN(value)) {
        data[to + 3] = 0;
        continue;
      }
      const left = col > 0 ? -1 : 0;
      const right = col < width - 1 ? 1 : 0;
      let dx = ((values[at + right] - values[at + left]) / (right - left)) * factor;
      let dy = ((values[at + below] - values[at + above]) / ((below - above) / width)) * factor;
      if (Number.isNaN(dx)) dx = 0;
      if (Number.isNaN(dy)) dy = 0;
      // Cosine of the angle between normal and light, scaled to 1 on flat ground.
      const light = (zenith - dx * east + dy * north) / Math.sqrt(1 + dx * dx + dy * dy) / zenith;
      const lit = 0.35 + 0.65 * Math.min(1.45, Math.max(0, light));
      const shade = 1 + look.shade * (lit - 1);
      const [table, step] = colour(value, look);
      data[to] = table[step] * shade;
      data[to + 1] = table[step + 1] * shade;
      data[to + 2] = table[step + 2] * shade;
      data[to + 3] = 255;
    }
  }
}

/** Paint the colours of a range from left to right. */
export function paintScale(canvas, { range, palette }) {
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, 1);
  for (let x = 0; x < canvas.width; x += 1) {
    const value = range[0] + ((range[1] - range[0]) * x) / (canvas.width - 1);
    const [table, step] = colour(value, { range, palette });
    image.data.set([table[step], table[step + 1], table[step + 2], 255], 4 * x);
  }
  for (let y = 0; y < canvas.height; y += 1) context.putImageData(image, 0, y);
}
