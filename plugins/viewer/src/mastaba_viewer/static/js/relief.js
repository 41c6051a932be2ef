// Colours and shading of elevations.

// Muted tints from lowland to summit, and from the coast to deep sea.
const LAND = [
  [0.0, 104, 143, 106],
  [0.2, 164, 183, 128],
  [0.42, 219, 208, 158],
  [0.65, 190, 152, 113],
  [0.85, 160, 132, 120],
  [1.0, 245, 243, 240],
];
const SEA = [
  [0.0, 190, 214, 226],
  [0.4, 120, 166, 196],
  [1.0, 44, 84, 128],
];
const STEPS = 256;

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

const LAND_TABLE = ramp(LAND);
const SEA_TABLE = ramp(SEA);

/** Return the colour table and the index of the colour of a value. */
function colour(value, [low, high]) {
  const isSea = value < 0 && low < 0 && high > 0;
  const bottom = isSea ? 0 : Math.max(low, high > 0 && low < 0 ? 0 : low);
  const part = isSea ? value / low : (value - bottom) / (high - bottom || 1);
  const step = Math.min(STEPS - 1, Math.max(0, Math.round(part * (STEPS - 1))));
  return [isSea ? SEA_TABLE : LAND_TABLE, 3 * step];
}

/** Return the lowest and highest value, ignoring NaN, or null if there are no values. */
export function rangeOf(values) {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return low <= high ? [low, high] : null;
}

/**
 * Paint elevations into an image, lit from the north-west.
 *
 * @param values width × height numbers, NaN for nodata
 * @param cell size of a pixel in metres
 * @param range lowest and highest value of the colours
 */
export function paint(image, values, cell, range) {
  const { width, height, data } = image;
  // Coarse cells flatten slopes, so the shading of coarse levels is exaggerated.
  const exaggeration = Math.max(1, Math.sqrt(cell / 20));
  const zenith = Math.SQRT1_2;
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
      const factor = exaggeration / cell;
      let dx = ((values[at + right] - values[at + left]) / (right - left)) * factor;
      let dy = ((values[at + below] - values[at + above]) / ((below - above) / width)) * factor;
      if (Number.isNaN(dx)) dx = 0;
      if (Number.isNaN(dy)) dy = 0;
      // Cosine of the angle between normal and light, scaled to 1 on flat ground.
      const light = (zenith + (dx + dy) * 0.5) / Math.sqrt(1 + dx * dx + dy * dy) / zenith;
      const shade = 0.35 + 0.65 * Math.min(1.45, Math.max(0, light));
      const [table, step] = colour(value, range);
      data[to] = table[step] * shade;
      data[to + 1] = table[step + 1] * shade;
      data[to + 2] = table[step + 2] * shade;
      data[to + 3] = 255;
    }
  }
}

/** Paint the colours of a range from left to right. */
export function paintScale(canvas, range) {
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, 1);
  for (let x = 0; x < canvas.width; x += 1) {
    const value = range[0] + ((range[1] - range[0]) * x) / (canvas.width - 1);
    const [table, step] = colour(value, range);
    image.data.set([table[step], table[step + 1], table[step + 2], 255], 4 * x);
  }
  for (let y = 0; y < canvas.height; y += 1) context.putImageData(image, 0, y);
}
